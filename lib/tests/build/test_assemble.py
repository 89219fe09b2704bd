"""Assembling: Keystone and clang agree on every snippet of the project, and clang alone is enough."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.loops import LOOPS
from support.abi.decoded import instructions
from tramplab import TramplabError
from tramplab.build import assemble
from tramplab.isa import ISAS
from tramplab_book.studies.method.counting import EXAMPLES

TESTS = Path(__file__).resolve().parents[1]
#: Every snippet the project assembles, and single instructions whose encoding two assemblers could choose differently.
SNIPPETS = [(isa, text) for table in (EXAMPLES, LOOPS) for isa, text in table.items()]
SNIPPETS += [
    ("x86_64", t) for t in ("nop", "push rbp\nmov rbp, rsp", "sub rsp, 168", "mov rax, qword ptr [rsp + 80]", "ret")
]
SNIPPETS += [
    ("arm64", t)
    for t in ("mov x9, x30", "stp x29, x30, [sp, #-16]!", "sub sp, sp, #144", "br x17", "here:\ncbnz x17, here")
]

has_keystone = pytest.mark.skipif(
    importlib.util.find_spec("keystone") is None, reason="Keystone has no wheel for this host"
)


@has_keystone
@pytest.mark.parametrize(("isa", "text"), [s for s in SNIPPETS if ISAS[s[0]].keystone])
@pytest.mark.parametrize("address", [0, 0xFFFF800080001000])
def test_keystone_equals_clang(isa, text, address):
    record = ISAS[isa]
    assert assemble.by_keystone(record, text, address) == assemble.by_clang(record, text, address)


@has_keystone
@pytest.mark.parametrize("isa", ["x86_64", "arm64"])
def test_keystone_equals_clang_in_whichever_base_it_reads_numbers(isa, monkeypatch):
    """An engine that reads numbers without a prefix in base 16, as one does after any option was set, makes the same bytes."""
    import keystone

    fresh = keystone.Ks(*(getattr(keystone, name) for name in ISAS[isa].keystone))
    if isa == "x86_64":
        fresh.syntax = keystone.KS_OPT_SYNTAX_INTEL
        assert bytes(fresh.asm("sub rsp, 10")[0])[-1] == 0x10, "numbers are decimal now: nothing need be done about them"
    monkeypatch.setattr(assemble, "_engine", lambda *_: fresh)
    for text in [text for name, text in SNIPPETS if name == isa]:
        assert assemble.by_keystone(ISAS[isa], text) == assemble.by_clang(ISAS[isa], text)


@pytest.mark.parametrize(("isa", "text"), SNIPPETS)
def test_snippets_decode_to_as_many_instructions_as_they_have(isa, text):
    """What was assembled is what was written: one instruction per line that is no label."""
    data = assemble.by_clang(ISAS[isa], text)
    lines = [line for line in text.strip().splitlines() if not line.strip().endswith(":")]
    assert len(instructions(ISAS[isa], 0, data)) == len(lines)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("by", ["assemble", "by_clang"])
def test_bad_assembly_is_one_line(isa, by):
    with pytest.raises(TramplabError) as e:
        getattr(assemble, by)(ISAS[isa], "frobnicate x0")
    assert "\n" not in str(e.value) and "frobnicate" in str(e.value)


@pytest.mark.parametrize("isa", ISAS)
def test_nothing_to_assemble(isa):
    with pytest.raises(TramplabError, match="nothing to assemble"):
        assemble.assemble(ISAS[isa], "")


def test_keystone_refuses_riscv64():
    with pytest.raises(TramplabError, match="does not assemble riscv64"):
        assemble.by_keystone(ISAS["riscv64"], "nop")


@pytest.mark.skipif("TRAMPLAB_KEYSTONE_HIDDEN" in os.environ, reason="this is the inner run")
def test_suite_without_keystone(tmp_path):
    """A host without Keystone: the import fails, and everything that assembles still passes, through clang."""
    package = tmp_path / "keystone"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('hidden for a test')\n", "utf-8")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]),
    }
    env["TRAMPLAB_KEYSTONE_HIDDEN"] = "1"
    chosen = "test_assemble and not keystone_equals or test_ten_instructions or test_golden_table and counting"
    files = [str(TESTS / name) for name in ("build/test_assemble.py", "studies/test_golden.py")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen]
    done = subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-2000:]
    probe = "from tramplab.build import assemble; print(assemble.keystone)"
    seen = subprocess.run([sys.executable, "-c", probe], env=env, capture_output=True, encoding="utf-8")
    assert seen.stdout == "None\n"
