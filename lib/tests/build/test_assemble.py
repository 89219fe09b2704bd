"""Assembling: Keystone and clang agree on snippets of every kind, and clang alone is enough."""

import pytest

from bench.loops import LOOPS
from support.abi.decoded import instructions
from support.base.keystones import check_without, has_keystone, hexadecimal, outer
from tramplab import TramplabError
from tramplab.build import assemble
from tramplab.isa import ISAS

#: The loops of the bench, and single instructions whose encoding two assemblers could choose differently.
SNIPPETS = [*LOOPS.items()]
SNIPPETS += [
    ("x86_64", t) for t in ("nop", "push rbp\nmov rbp, rsp", "sub rsp, 168", "mov rax, qword ptr [rsp + 80]", "ret")
]
SNIPPETS += [
    ("arm64", t)
    for t in ("mov x9, x30", "stp x29, x30, [sp, #-16]!", "sub sp, sp, #144", "br x17", "here:\ncbnz x17, here")
]


@has_keystone
@pytest.mark.parametrize(("isa", "text"), [s for s in SNIPPETS if ISAS[s[0]].keystone])
@pytest.mark.parametrize("address", [0, 0xFFFF800080001000])
def test_keystone_equals_clang(isa, text, address):
    record = ISAS[isa]
    assert assemble.by_keystone(record, text, address) == assemble.by_clang(record, text, address)


@has_keystone
@pytest.mark.parametrize("isa", ["x86_64", "arm64"])
def test_keystone_equals_clang_in_whichever_base_it_reads_numbers(isa, monkeypatch):
    """An engine that reads those without a prefix in base 16 makes the same bytes."""
    hexadecimal(ISAS[isa], monkeypatch)
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


@outer
def test_suite_without_keystone(tmp_path):
    """A host without Keystone: the import fails, and everything that assembles still passes, through clang."""
    check_without(tmp_path, "build/test_assemble.py", "test_assemble and not keystone_equals")
