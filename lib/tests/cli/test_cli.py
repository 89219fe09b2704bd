"""The command line: what it prints, and how it fails."""

import csv
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tramplab.build.toolchain import GUEST
from tramplab.emulate.counting.counts import COMPONENTS
from tramplab.ftrace.releases import LATEST
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab_book import commands, studies

FIELDS = ["instructions", "loads", "stores", "load_bytes", "store_bytes", "branches_taken"]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("hook", ["none", "ops", "direct", "direct-far", "direct+ops"])
def test_measure_json(tramplab, isa, hook):
    """The keys, their order and their sums."""
    status, out, err = tramplab("measure", isa, hook, "--args", 8, "--json")
    m = json.loads(out)
    assert (status, err, out.count("\n")) == (0, "", 1)
    assert list(m) == [
        "isa", "hook", "release", "args", "callbacks", "components", "entry", "exit",
        "frame_bytes", "frame_bytes_written", "stack_bytes", "return_mispredicts",
        *["placed"] * bool(hooks.get(hook).placed), *["hypothetical"] * ((isa, hook) == ("riscv64", "direct")),
    ]  # fmt: skip
    assert list(m["components"]) == list(COMPONENTS)
    assert all(list(c) == FIELDS for c in (*m["components"].values(), m["entry"], m["exit"]))
    before_body = [m["components"][c]["instructions"] for c in ("site", "trampoline", "core")]
    assert m["entry"]["instructions"] + m["exit"]["instructions"] == sum(before_body)
    assert m["exit"]["instructions"] == 0  # no return hook among these
    assert m["frame_bytes"] >= m["frame_bytes_written"] >= 0
    assert m["stack_bytes"] >= m["frame_bytes"]
    assert (m["frame_bytes"] == 0) == (hook == "none")
    assert list(m["return_mispredicts"]) == ["own", "outer", "callers", "entries"]


def test_measure_callbacks(tramplab):
    """Each further ops adds the same to core and callback, and nothing to site, trampoline and function."""
    runs = [
        json.loads(tramplab("measure", "arm64", "ops", "--callbacks", k, "--json")[1])["components"] for k in (2, 3, 4)
    ]
    steps = [{c: b[c]["instructions"] - a[c]["instructions"] for c in COMPONENTS} for a, b in itertools.pairwise(runs)]
    assert steps[0] == steps[1]
    assert steps[0]["callback"] > 0 < steps[0]["core"]
    assert {steps[0][c] for c in ("site", "trampoline", "function")} == {0}


def test_measure_text(tramplab):
    status, out, _ = tramplab("measure", "riscv64", "ops", "--release", "v6.12")
    assert status == 0 and "trampoline" in out and "frame 112 bytes, 104 of them written" in out
    assert "mispredicted returns, 16 entries: 0 in the call, 0 of its 8 callers'" in out
    assert all(len(line) <= 72 for line in out.splitlines())


@pytest.mark.parametrize("isa", ISAS)
def test_trace(tramplab, isa):
    """Every component of the call appears, in 72 columns, with symbols."""
    status, out, _ = tramplab("trace", isa, "direct+ops")
    assert status == 0 and all(len(line) <= 72 for line in out.splitlines())
    for heading in ("one_arg  [site]", "[trampoline]", "ftrace_ops_list_func  [core]", "call_direct_funcs  [core]",
                    "lab_callback  [callback]", "lab_direct_near  [trampoline]", "one_arg  [function]"):  # fmt: skip
        assert heading in out


def test_list(tramplab):
    status, out, _ = tramplab("list")
    assert status == 0
    for name in (*ISAS, *hooks.HOOKS, "v5.17", LATEST, "eight_args", "single_callback"):
        assert name in out
    marked = re.findall(r"^  (\S+) +hypothetical, no kernel has it: ", out, re.MULTILINE)
    assert marked == [h for h in hooks.HOOKS if hooks.hypothetical(h)] and out.count(": the lab makes it ") == 3 * len(marked) - 1


def test_list_says_since_when_and_what_was_broken(tramplab):
    out = tramplab("list")[1]
    under = {name: out.split(f"\n  {name} ")[1].split("\n  ")[1:] for name in ("kretprobe-brk", "direct+ops")}
    assert "                    riscv64: v5.12 to v6.9, since v6.16" in under["kretprobe-brk"]
    said = " ".join(map(str.strip, under["direct+ops"]))
    assert "v6.4 to v6.7: a direct call is not called while an ops is on its function" in said


def test_measure_and_trace_say_where_a_direct_calls_code_lies(tramplab):
    """And where no kernel has it there; `list` says since when."""
    placed = {"near": "\nnear: the patch site calls its code\n", "far": "\nfar: its code is out of the patch site's reach"}
    for isa, hook, where in (("x86_64", "bpf-fexit", "near"), ("arm64", "bpf-fexit", "far"), ("riscv64", "direct", "near")):
        said = placed[where]
        out = tramplab("measure", isa, hook)[1]
        assert said in out and said in tramplab("trace", isa, hook, "--calls")[1]
        assert ("hypothetical: no kernel of riscv64 v7.2 has it" in out) == (isa == "riscv64")
    found = json.loads(tramplab("measure", "riscv64", "direct", "--json")[1])
    assert (found["placed"], found["hypothetical"]) == ("near", True)
    assert "placed" not in json.loads(tramplab("measure", "riscv64", "ops", "--json")[1])
    under = tramplab("list")[1].split("\n  direct ")[1].split("\n  direct-far ")[0]
    assert under.count("hypothetical") == 1 and "riscv64: since v6.8; since v6.16 hypothetical, no code lies that near" in under


def test_measure_says_that_a_release_had_it_broken(tramplab):
    """Where it was, as text and as data; the counts are of what was meant."""
    broken, whole = (tramplab("measure", "x86_64", "direct+ops", "--release", r)[1] for r in ("v6.4", "v6.8"))
    said = " ".join(broken.split())
    assert "broken in v6.4 to v6.7: a direct call is not called while an ops is on its function" in said
    assert "(broken by 60c8971899f3, fixed by a8b9cf62ade1, bdbddb109c75); counted here as it was meant to work" in said
    assert "broken" not in whole and max(map(len, broken.splitlines())) <= 80
    found = json.loads(tramplab("measure", "x86_64", "direct+ops", "--release", "v6.4", "--json")[1])
    assert found["broken"].startswith("v6.4 to v6.7: ") and found["components"]["callback"]["instructions"] > 0


def test_run_formats_hold_the_same_rows(tramplab):
    as_json = json.loads(tramplab("run", "counting", "--format", "json")[1])
    as_csv = list(csv.DictReader(io.StringIO(tramplab("run", "counting", "--format", "csv")[1])))
    assert [{k: str(v) for k, v in row.items()} for row in as_json["rows"]] == as_csv
    assert as_json["units"] == {"load_bytes": "B", "store_bytes": "B"}
    assert tramplab("run", "counting")[1] == commands.expected_file("counting").read_text("utf-8")


def test_run_lists_the_numbers_that_a_finding_may_name(tramplab):
    """In the order in which the study has them."""
    status, out, _ = tramplab("run", "callbacks", "--numbers")
    study = studies.get("callbacks")
    wanted = [(name, str(number)) for name, number in study.numbers(study.rows()).items()]
    assert status == 0 and [tuple(re.split(" {2,}", line)) for line in out.splitlines()] == wanted
    assert "arm64-further-step" in dict(wanted)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["measure", "riscv", "ops"], ["unknown ISA 'riscv'", "riscv64"]),
        (["measure", "arm64", "fexit"], ["unknown hook 'fexit'; did you mean bpf-fexit?"]),
        (["measure", "arm64", "fprobe-fgraph"], ["did you mean fprobe-exit, which is built on the function graph tracer"]),
        (["measure", "arm64", "ops", "--release", "6.4"], ["unknown release '6.4'", "v6.4"]),
        (["measure", "arm64", "ops", "--release", "v5.15"], ["v5.15 is older than v5.17, the oldest release that the lab has"]),
        (["measure", "arm64", "ops", "--args", "13"], ["13 arguments", "0 to 12"]),
        (["measure", "arm64", "ops", "--callbacks", "0"], ["0 callbacks", "1 to"]),
        (["measure", "arm64", "direct", "--callbacks", "2"], ["one callback", "direct+ops"]),
        (["measure", "arm64", "ops", "--core", "cortex-a27"], ["unknown core 'cortex-a27'", "did you mean cortex-a72"]),
        (["measure", "arm64", "ops", "--core", "zen3"], ["zen3 is a core for x86_64, not arm64", "cortex-a72"]),
        (["measure", "arm64", "ops-regs"], [LATEST, "v5.5 to v6.1"]),
        (["measure", "arm64", "direct", "--release", "v6.3"], ["since v6.4"]),
        (["run", "single_calback"], ["unknown study", "single_callback"]),
        (["run", "counting", "--numbers", "--format", "csv"], ["--format", "not allowed with", "--numbers"]),
        (["trace", "arm64"], ["HOOK"]),
        (["measure", "arm64", "ops", "--args=--"], ["--args takes a value", "--help"]),
        (["measure", "arm64", "ops", "--args", "1", "--args=1"], ["--args is there twice", "measure --help"]),
        (["measure", "arm64\n", "ops", "--core", "zen3"], [r"unknown ISA 'arm64\n'"]),
        (["measure", "arm64", ""], ["HOOK is empty"]),
        (["explore", "--time-limit", "1_0"], ["--time-limit is a number of seconds above 0", "'1_0'"]),
        (["explore", "--every-step"], ["name the scheme"]),
        (["native", "ops:"], ["NAME:CALLBACKS", "'ops:'"]),
        (["native", "--shapes", "--release", "v6.1"], ["leave --release out"]),
        (["native", "--keep", "--rounds", "2", "--args", "2"], ["leave --rounds and --args out"]),
        (["cite", "fig-counting", "--bibtex", "--full"], ["leave --full away"]),
        (["kernel", "vmlinux", "--trace", "ops", "--hook", "ops"], ["leave --hook away"]),
        (["kernel", "vmlinux", "--csv", "--core", "zen3"], ["leave --core away"]),
        (["frobnicate"], ["frobnicate", "measure"]),
        ([], ["COMMAND"]),
    ],
)
def test_bad_input_is_one_line_and_status_2(tramplab, arguments, words):
    status, out, err = tramplab(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("tramplab: ") and err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("isa", "file", "instruction", "words"),
    [
        ("x86_64", "ftrace_caller.S", "jmp .", ["did not return within", "ftrace_trampoline[0]", "rsp="]),
        ("x86_64", "ftrace_caller.S", "movq 0, %rax", ["guest fault", "read of 0x0", "mov rax"]),
        ("arm64", "ftrace_caller_args.S", "b .", ["did not return within", "ftrace_caller+", "x30="]),
        ("arm64", "ftrace_caller_args.S", "ldr x0, [x12]", ["guest fault", "ftrace_caller+", "ldr x0, [x12]", "x12="]),
        ("riscv64", "ftrace_caller_args.S", "j .", ["did not return within", "ftrace_caller+", "ra="]),
        ("riscv64", "ftrace_caller_args.S", "sd zero, 0(zero)", ["guest fault", "write to 0x0", "ftrace_caller+"]),
    ],
)
def test_a_broken_trampoline_is_one_line(tramplab, tmp_path, monkeypatch, isa, file, instruction, words):
    """What a reader sees who edits a trampoline badly: where it went wrong, not a traceback."""
    guest = tmp_path / "guest"
    shutil.copytree(GUEST, guest)
    source = guest / isa / file
    first = {"x86_64": "\tsubq\t$FRAME, %rsp", "arm64": "\tmov\tx10, sp", "riscv64": "\taddi\tsp, sp, -FRAME"}[isa]
    text = source.read_text("utf-8")
    assert first in text
    source.write_text(text.replace(first, f"\t{instruction}\n{first}"), "utf-8")
    monkeypatch.setitem(Kernel.__init__.__kwdefaults__, "guest", guest)
    status, out, err = tramplab("measure", isa, "ops")
    assert (status, out, err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in err


def test_interrupt_is_one_line(tmp_path):
    """Ctrl-C in a long run: one line, status 130, nothing half-written."""
    target = tmp_path / "rows.csv"
    command = [sys.executable, "-m", "tramplab", "run", "single_callback", "--output", str(target)]
    # building the images takes long enough to interrupt
    env = {**os.environ, "TRAMPLAB_CACHE": str(tmp_path / "cache"), "TRAMPLAB_ROWS": ""}
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, encoding="utf-8")
    patience = time.monotonic() + 120  # importing takes its time on a busy machine
    while not (tmp_path / "cache").exists() and time.monotonic() < patience:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and err == "tramplab: interrupted.\n"
    assert not target.exists() and not list((tmp_path / "cache").glob(".building-*"))


def test_the_package_imports_what_is_asked_for():
    """`import tramplab` alone brings no emulator; its names are there all the same, and no others."""
    program = (
        "import sys, tramplab\n"
        "assert not {'numpy', 'unicorn'} & set(sys.modules)\n"
        "assert all(getattr(tramplab, name).__name__ == name for name in tramplab.__all__)\n"
        "assert 'unicorn' in sys.modules and not hasattr(tramplab, 'Kernels')\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_command_waits_for_nothing_that_only_rows_and_charts_need():
    program = "import sys, tramplab.cli, tramplab_book.commands\nassert not {'pandas', 'altair'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
