"""The native run: the same guest, the same answers, times as rows, and the words and bytes in between.

On the host's own ISA it runs as it is; on the others under an emulator of user programs, where nothing is timed.
"""

import dataclasses
import itertools
import platform
import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.complaints import complaint
from support.native.hosts import HOST, every_isa, host_isa, runner
from tramplab import Kernel, Ops, native
from tramplab import isa as isas
from tramplab.build import toolchain
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.measure import FUNCTIONS
from tramplab.native import run, script, states
from tramplab.native.result import Result
from tramplab.native.script import Answers, TimingPlan
from tramplab.native.states import Region
from tramplab.trampolines.shapes import Shape

SHAPES = (Shape(2, 0, True), Shape(3, 3, True, observe=True), Shape(14, 2, False, observe=True))


def guarded(kernel, function):
    """An ops that asks for the recursion guard and the RCU test: the only hook that reads the per-CPU base on arm64."""
    return kernel.attached(function, Ops(recursion=True, rcu=True))


# --- The same guest

#: What a process does by another instruction: arm64's reads of the per-CPU base, which is in another kind of register there,
#: x86-64's and riscv64's ways to turn interrupts off and on, and x86-64's question whether a stack is at an address of the
#: kernel's. In the kernel's text and in the process's.
_OTHER = {
    "per-CPU base": re.compile(r"mrs x\d+, tpidr_el1|mov x\d+, x18"),
    "interrupts": re.compile(r"cli|sti|cld"),
    "address of the kernel's": re.compile(r"jn?s \S+"),
    "interrupts off": re.compile(r"csrrci \w+, sstatus, 2|li \w+, 2|addi \w+, zero, 2"),
    "interrupts on": re.compile(r"csrs sstatus, \w+|andi (\w+), \1, 2"),
}


def _named(instruction) -> str:
    """What an instruction is called here: the same for what stands for each other."""
    found = (name for name, either in _OTHER.items() if either.fullmatch(instruction.text))
    return next(found, instruction.mnemonic)


@every_isa
@pytest.mark.parametrize("release", ["v5.17", "v6.4", "v7.2"])
def test_the_build_for_a_process_executes_what_the_kernel_does(isa, release):
    """Instruction by instruction the same mnemonics, but for what a process may not do; the same counts and answers."""
    record = isas.get(isa)
    function = "two_args"
    attaching = {spec: states.hook(spec) for spec in ("none", *native.default_hooks(record, release))}
    for name, attach in {**attaching, "guarded": guarded}.items():
        seen = []
        for kernel in (Kernel(isa, release), states.boot(record, release)):
            kernel.machine.set_meter("record")
            f = kernel.function(function)
            with attach(kernel, f):
                r = kernel.call(f, 5, 7)
                code = [kernel.machine.instruction_at(pc) for pc in sorted({s.pc for s in r.steps})]
            seen.append(
                (
                    r.value,
                    r.hits,
                    r.counts.by_component,
                    [_named(i) for i in code],
                )
            )
        assert seen[0] == seen[1], name


@every_isa
def test_all_distances_are_the_kernels(isa):
    """Text, modules and the far stub lie as far apart as in the kernel, below it by one shift, in whole pages."""
    kernel, user = isas.get(isa), isas.get(isa).in_user_space
    shifts = {getattr(kernel, n) - getattr(user, n) for n in ("text_base", "module_base", "far_base")}
    assert shifts == {kernel.user_space.shift} and user.text_base % user.page == 0
    assert user.text_base >= 1 << 16 and user.far_base < 1 << 32 <= run.CHILD_BASE
    assert user is isas.get(isa).in_user_space


@every_isa
def test_text_and_data_share_no_page(isa):
    """Not even on a kernel with pages of 64 KiB; and every byte of every region is in exactly one map."""
    subject = states.subject(isas.get(isa), "v7.2", {}, 1)
    page = isas.get(isa).in_user_space.page
    maps = script._maps(subject.regions, page)
    for r in subject.regions:
        (only,) = [m for m in maps if m[0] <= r.address < m[0] + m[1]]
        assert r.address + len(r.data) <= only[0] + only[1] and only[2] == r.text
    ends = [(at, at + size) for at, size, _ in maps]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))
    assert all(at % page == size % page == 0 for at, size, _ in maps)


# --- The same answers


@every_isa
@pytest.mark.parametrize("release", ["v5.17", "v6.7", "v7.2"])
def test_native_calls_do_what_emulated_ones_do(isa, release):
    """Every hook of the release but breakpoints, with 1, 2 and 10 callbacks: the value returned and what each callback counted.
    A hook that hangs is ended by the child, and is a failure."""
    record = isas.get(isa)
    variants = {**{h: states.hook(h) for h in native.default_hooks(record, release)}, "ops-guarded": guarded}
    out = native.check(record, variants, release, 3, runner(isa))
    assert not out.failures and list(out.answers.check) == ["none", *variants]
    for name, (value, direct, observed, *hits) in out.answers.check.items():
        count = int(name.partition(":")[2] or 1)
        assert value == 1 * 3 + 2 * 5 + 3 * 7 and observed == 0
        assert direct == name.startswith("direct")
        if name == "fgraph":
            assert hits == [2]  # an entry and a return
        elif any(program in name for program in ("bpf", "multi", "session")):
            continue  # programs count in one place, which is not among these
        elif name.startswith(("ops", "direct+ops", "fprobe", "kprobe", "kretprobe")):
            assert sorted(hits, reverse=True)[:count] == [1] * count and sum(hits) == count


@every_isa
@pytest.mark.parametrize("release", ["v5.17", "v6.7", "v7.2"])
def test_all_hooks_but_breakpoints_run_by_default(isa, release):
    """Those of the common list that the release has, whatever kind they are of."""
    record = isas.get(isa)
    had = {h.name for h in hooks.HOOKS.values() if h.there(releases.features(record, release, {})) and not h.traps}
    assert {spec.partition(":")[0] for spec in native.default_hooks(record, release)} == had - {"none"}


@every_isa
def test_shapes_run_natively(isa):
    """Leaves that spoil every register they may, too: they are called as often as the shape says, and the result is right."""
    variants = {str(s): states.shape(s) for s in SHAPES}
    out = native.check(isas.get(isa), variants, "v7.2", 2, runner(isa))
    for s in SHAPES:
        assert out.answers.check[str(s)] == [1 * 3 + 2 * 5, 0, s.nested * s.observe, 0]


@pytest.mark.parametrize("args", range(states.MAX_ARGS + 1))
def test_every_number_of_arguments(args):
    isa = host_isa()
    out = native.check(isa, {"ops": states.hook("ops")}, "v7.2", args)
    idle = Kernel(isa.name).call(FUNCTIONS[args], *range(1, args + 1)).value
    assert {name: value for name, (value, *_) in out.answers.check.items()} == {"none": idle, "ops": idle}


def test_a_difference_is_an_error():
    """Another value, or another count, than the emulated call had."""
    isa = host_isa()
    subject = states.subject(isa, "v7.2", {"ops": states.hook("ops")}, 1)
    for change in ({"value": 4}, {"seen": (0, 0, 2)}, {"seen": (1, 0, 1)}):
        wrong = dataclasses.replace(subject.states[1], **change)
        message = complaint(
            lambda wrong=wrong: run.run(dataclasses.replace(subject, states=(subject.states[0], wrong)), TimingPlan())
        )
        assert message.startswith("ops does not do natively what it does in the emulator")


def test_every_timed_call_is_accounted_for():
    """Callbacks that were not all called while the clock ran, or too often, are an error."""
    isa = host_isa()
    (_, ops) = states.subject(isa, "v7.2", {"ops": states.hook("ops")}, 1).states
    run._compare(ops, Answers(total={"ops": [10, 0, 0, 10]}), isa)
    assert "in 10 native calls" in complaint(lambda: run._compare(ops, Answers(total={"ops": [10, 0, 0, 9]}), isa))


def test_a_hook_that_the_release_never_had_is_refused():
    arm64 = isas.get("arm64")
    assert "has no ops-regs hook" in complaint(lambda: native.check(arm64, {"x": states.hook("ops-regs")}))


def test_the_child_is_built_once_per_source(tmp_path, monkeypatch):
    """One more byte in any of its sources gives another program; those of the other ISAs do not matter."""
    isa = isas.get("riscv64")
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run, "CHILD", Path(shutil.copytree(run.CHILD, tmp_path / "child")))
    monkeypatch.setattr(toolchain, "PROCESS", Path(shutil.copytree(toolchain.PROCESS, tmp_path / "process")))
    first = run.child(isa)
    changed = {}
    for folder in (run.CHILD, toolchain.PROCESS):
        for file in (folder / n for n in ("memory.h", "text.h", "riscv64.S", "x86_64.S") if (folder / n).exists()):
            before = file.read_bytes()
            file.write_bytes(before + b"\n")
            changed[f"{folder.name}/{file.name}"] = run.child(isa) != first
            file.write_bytes(before)
    assert changed == {name: not name.endswith("x86_64.S") for name in changed} and len(changed) == 6
    monkeypatch.setattr(toolchain, "run_tool", lambda *_, **__: pytest.fail("a tool was run"))
    assert run.child(isa) == first


# --- Times


@pytest.fixture(scope="module")
def timed() -> Result:
    host_isa()
    return native.time_hooks(["ops", "ops:2", "direct"], rounds=40, windows=2)


def test_times_are_rows_over_the_unhooked_call(timed):
    """The baseline first; quartiles in order; the hooks that do more take longer; the ratio is to the direct call."""
    assert [r["hook"] for r in timed.rows] == ["none", "ops", "ops:2", "direct"] and not timed.failures
    base = timed.rows[0]["ns_min"]
    for r in timed.rows:
        assert 0 < r["ns_min"] <= r["ns_q1"] <= r["ns_median"] <= r["ns_q3"]
        assert r["ns_over"] == pytest.approx(r["ns_min"] - base, abs=2e-4)
        assert r["cycles_over"] == pytest.approx(r["ns_over"] * timed.provenance["GHz"], rel=0.01, abs=0.01)
        assert r["ratio_direct"] == pytest.approx(r["ns_over"] / timed.row("direct")["ns_over"], rel=0.01, abs=0.01)
    assert timed.row("ops:2")["ns_over"] > timed.row("ops")["ns_over"] > 0 < timed.row("direct")["ns_over"]


def test_the_hardware_retires_what_the_emulator_counts(timed):
    """Instructions per call by the CPU's own counter, where it has one, are those of the loop and the call in the emulator."""
    if "instructions" not in timed.rows[0]:
        pytest.skip("no hardware counters here")
    isa = host_isa()
    for row in timed.rows:
        kernel = states.boot(isa, "v7.2")
        f = kernel.function("one_arg")
        kernel.apply(kernel.slowpath.arch.patch_call(kernel.image.address("lab_repeat_call"), f.address, "the loop"))
        with states.hook(row["hook"])(kernel, f):
            loop = kernel.image.address("lab_repeat")
            one, eleven = (kernel.machine.call(loop, {isa.args[0]: n}).tally.instructions for n in (1, 11))
        assert row["instructions"] == pytest.approx((eleven - one) / 10, abs=0.1)


def test_shapes_are_timed():
    host_isa()
    result = native.time_shapes(SHAPES[:1], rounds=2, windows=1)
    assert [r["hook"] for r in result.rows] == ["none", str(SHAPES[0])]
    assert [(r["saves"], r["nested"], r["balanced"]) for r in result.rows] == [(None, None, None), (2, 0, True)]


def test_provenance_says_where_and_how(timed):
    facts = timed.provenance
    assert {
        "date",
        "commit",
        "cpu",
        "kernel",
        "virtualised",
        "governor",
        "smt",
        "load",
        "pinned to",
        "GHz",
    } <= facts.keys()
    assert facts["isa"] == HOST and facts["rounds"] == 40 and timed.clock and facts["kernel"].endswith(platform.release())
    assert 0.05 < facts["GHz"] < 10


# --- The words for memory


@given(st.binary(max_size=400).map(lambda b: bytes(x if x > 200 else 0 for x in b)))
def test_what_is_put_is_the_region(data):
    """The words for memory leave out zeros only."""
    subject = dataclasses.replace(SUBJECT, regions=(Region(0x1000, False, data),))
    memory = np.zeros(len(data), np.uint8)
    for line in script.script(subject, TimingPlan()).splitlines():
        word, *rest = line.split()
        if word == "put":
            at, filled = int(rest[0], 16) - 0x1000, bytes.fromhex(rest[1])
            memory[at : at + len(filled)] = np.frombuffer(filled, np.uint8)
    assert memory.tobytes() == data


SUBJECT = states.NativeKernel(ISAS["arm64"], "v7.2", "one_arg", (), (), 1, 2, 3, 4, 5)


def test_answers_are_read_as_far_as_they_go():
    """A line that is cut short is where the child ended."""
    said = "pinned 0\ncounter d\ncheck 3 0 1 ops\nbatch 1f ops\ncount a 5 5 64 ops\ncount a 6 6 65 ops\ndied b 10 20 direct\nchec"
    out = script.answers(said)
    assert out.pinned == 0 and out.counters == [13] and out.check == {"ops": [3, 0, 1]} and not out.done
    assert out.batch == {"ops": [31]}
    assert out.count == {"ops": [[10, 5, 5, 100], [10, 6, 6, 101]]} and out.died == (11, 16, 32, "direct")
    assert script.answers("refused map 1000 11\n").refused == ("map", 0x1000, 17)


def test_the_baseline_comes_first_and_once():
    subject = states.subject(ISAS["arm64"], "v7.2", {"extra": lambda *_: nullcontext()}, 1)
    assert [s.name for s in subject.states] == ["none", "extra"]
    assert subject.states[0].patches == subject.states[1].patches
