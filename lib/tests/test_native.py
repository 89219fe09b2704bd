"""The native run: the same guest, the same answers, and one clear sentence for whatever goes wrong in the child.

On the host's own ISA it runs as it is; on the others under an emulator of user programs, where nothing is timed.
"""

import dataclasses
import itertools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tramplab import Kernel, Ops, TramplabError, native
from tramplab import isa as isas
from tramplab.emulate import toolchain
from tramplab.ftrace import shapes
from tramplab.ftrace.measure import FUNCTIONS
from tramplab.ftrace.shapes import Shape
from tramplab.isa import ISAS
from tramplab.native import command, host, run, script, states, timing
from tramplab.native.result import Result
from tramplab.native.script import Answers, Plan
from tramplab.native.states import Region

try:
    HOST = host.isa().name
except TramplabError:
    HOST = None
QEMU = {"x86_64": "qemu-x86_64", "arm64": "qemu-aarch64", "riscv64": "qemu-riscv64"}
SHAPES = (Shape(2, 0, True), Shape(3, 3, True, observe=True), Shape(14, 2, False, observe=True))


def runner(isa: str) -> tuple[str, ...]:
    """What runs a program of an ISA here; the test is skipped where nothing does."""
    if isa == HOST:
        return ()
    if platform.system() != "Linux" or not shutil.which(QEMU[isa]):
        pytest.skip(f"no {QEMU[isa]} (Debian: qemu-user), so nothing runs {isa} programs here")
    return (QEMU[isa],)


def host_isa():
    """The host's ISA; the test is skipped where the lab has no native run."""
    if HOST is None:
        pytest.skip("the lab has no native run for this system")
    return isas.get(HOST)


def error(call) -> str:
    """The message of the TramplabError that a call raises: always one line."""
    with pytest.raises(TramplabError) as e:
        call()
    assert "\n" not in str(e.value)
    return str(e.value)


def guarded(kernel, function):
    """An ops that asks for the recursion guard and the RCU test: the only hook that reads the per-CPU base on arm64."""
    return kernel.attached(function, Ops(recursion=True, rcu=True))


every_isa = pytest.mark.parametrize("isa", ISAS)


# --- The same guest


#: arm64's reads of the per-CPU base, which is in another kind of register there.
_BASE = re.compile(r"mrs x\d+, tpidr_el1|mov x\d+, x18")


@every_isa
@pytest.mark.parametrize("release", ["v5.17", "v6.4", "v7.2"])
def test_the_build_for_a_process_executes_what_the_kernel_does(isa, release):
    """Instruction by instruction the same mnemonics, but for arm64's reads of base registers; the same counts and answers."""
    record = isas.get(isa)
    function = "two_args"
    hooks = {spec: states.hook(spec) for spec in ("none", *native.default_hooks(record, release))}
    for name, attach in {**hooks, "guarded": guarded}.items():
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
                    ["per-CPU base" if _BASE.fullmatch(i.text) else i.mnemonic for i in code],
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
@pytest.mark.parametrize("release", ["v5.17", "v7.2"])
def test_native_calls_do_what_emulated_ones_do(isa, release):
    """Every hook of the release, with 1, 2 and 10 callbacks: the value returned and what each callback counted."""
    record = isas.get(isa)
    hooks = native.default_hooks(record, release)
    variants = {**{h: states.hook(h) for h in hooks}, "ops-guarded": guarded}
    out = native.check(record, variants, release, 3, runner(isa))
    assert not out.failures and list(out.answers.check) == ["none", *variants]
    for name, (value, direct, observed, *hits) in out.answers.check.items():
        count = int(name.partition(":")[2] or 1)
        assert value == 1 * 3 + 2 * 5 + 3 * 7 and observed == 0
        assert direct == name.startswith("direct")
        wanted = count * name.startswith("ops") + count * name.startswith("direct+ops")
        assert sorted(hits, reverse=True)[:wanted] == [1] * wanted and sum(hits) == wanted


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
        message = error(
            lambda wrong=wrong: run.run(dataclasses.replace(subject, states=(subject.states[0], wrong)), Plan())
        )
        assert message.startswith("ops does not do natively what it does in the emulator")


def test_every_timed_call_is_accounted_for():
    """Callbacks that were not all called while the clock ran, or too often, are an error."""
    isa = host_isa()
    (_, ops) = states.subject(isa, "v7.2", {"ops": states.hook("ops")}, 1).states
    run._compare(ops, Answers(total={"ops": [10, 0, 0, 10]}), isa)
    assert "in 10 native calls" in error(lambda: run._compare(ops, Answers(total={"ops": [10, 0, 0, 9]}), isa))


def test_a_hook_that_the_release_never_had_is_refused():
    arm64 = isas.get("arm64")
    assert "has no ops-regs hook" in error(lambda: native.check(arm64, {"x": states.hook("ops-regs")}))


def test_the_child_is_built_once_per_source(tmp_path, monkeypatch):
    """One more byte in any of its sources gives another program; those of the other ISAs do not matter."""
    isa = isas.get("riscv64")
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run, "CHILD", Path(shutil.copytree(run.CHILD, tmp_path / "child")))
    first = run.child(isa)
    changed = {}
    for file in (run.CHILD / n for n in ("text.h", "riscv64.S", "x86_64.S")):
        before = file.read_bytes()
        file.write_bytes(before + b"\n")
        changed[file.name] = run.child(isa) != first
        file.write_bytes(before)
    assert changed == {"text.h": True, "riscv64.S": True, "x86_64.S": False}
    monkeypatch.setattr(toolchain, "run_tool", lambda *_, **__: pytest.fail("a tool was run"))
    assert run.child(isa) == first


# --- Times


@pytest.fixture(scope="module")
def timed() -> Result:
    host_isa()
    return native.measure(["ops", "ops:2", "direct"], rounds=40)


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
    result = native.time_shapes(SHAPES[:1], rounds=2)
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
    assert facts["isa"] == HOST and facts["rounds"] == 40 and facts["kernel"].endswith(platform.release())
    assert 0.05 < facts["GHz"] < 10


def test_rows_are_worked_out_by_hand():
    """Three rounds of two calls: minimum, quartiles, difference, ratio, cycles of half a nanosecond."""
    out = Answers(time={"none": [4, 2, 6], "ops": [10, 14, 12], "direct": [8, 6, 7]})
    none, ops, direct = timing._rows(out, Plan(calls=2), 0.5, {"ops": {"instructions": 7.0}})
    assert list(none.values()) == ["none", 1, 1.5, 2, 2.5, 0, 0, 0]
    assert (ops["ns_min"], ops["ns_q3"], ops["ns_over"], ops["cycles_over"], ops["ratio_direct"]) == (5, 6.5, 4, 8, 2)
    assert ops["instructions"] == 7 and "instructions" not in direct
    alone = timing._rows(Answers(time={"none": [4], "ops": [10]}), Plan(calls=2), 0.5, {})
    assert alone[1]["ratio_direct"] is None and alone[1]["ns_q1"] == alone[1]["ns_q3"] == 5


def test_counts_are_those_of_the_quickest_batch():
    """Per call; a counter that is not permitted is named; counters that ran only part of the time are left out."""
    batches = [[10, 900, 900, 500, 300, 20], [10, 800, 800, 500, 250, 10]]
    assert timing._counts(Answers(counters=[0, 0, 0], count={"ops": batches})) == (
        {"ops": {"instructions": 50, "cycles": 25, "branch_misses": 1}},
        [],
    )
    counts, why = timing._counts(Answers(counters=[0, 2, 0], count={"ops": [[10, 9, 9, 500, 20]]}))
    assert counts == {"ops": {"instructions": 50, "branch_misses": 2}} and why[0].startswith("no cycles counter: ")
    counts, why = timing._counts(Answers(counters=[13, 13, 13]))
    assert counts == {} and "perf_event_paranoid" in why[0]
    counts, why = timing._counts(Answers(counters=[0, 0, 0], count={"ops": [[10, 900, 450, 500, 300, 20]]}))
    assert counts == {} and "part of the time" in why[0]


# --- What goes wrong in the child

#: Code that is no instruction, that reads address zero, and that jumps to itself.
BAD = {
    "x86_64": {"SIGILL": "0f0b", "SIGSEGV": "488b042500000000", "hang": "ebfe"},
    "arm64": {"SIGILL": "00000000", "SIGSEGV": "090080d2200140f9", "hang": "00000014"},
    "riscv64": {"SIGILL": "00000000", "SIGSEGV": "03350000", "hang": "6f000000"},
}


def spoilt(isa: str, what: str, hooks=("ops", "direct", "ops:2"), bad="direct"):
    """A subject in which one hook's traced function begins with a bad instruction; and where."""
    record = isas.get(isa)
    subject = states.subject(record, "v7.2", {h: states.hook(h) for h in hooks}, 1)
    at = states.boot(record, "v7.2").function("one_arg").site.body
    code = bytes.fromhex(BAD[isa][what])
    text = next(r for r in subject.regions if r.address <= at < r.address + len(r.data))
    before = text.data[at - text.address :][: len(code)]

    def spoil(s):
        return dataclasses.replace(s, patches=(*s.patches, (at, before, code))) if s.name == bad else s

    return dataclasses.replace(subject, states=tuple(map(spoil, subject.states)))


@every_isa
@pytest.mark.parametrize("what", ["SIGILL", "SIGSEGV", "hang"])
def test_a_hook_that_dies_is_one_sentence_and_the_others_still_run(isa, what):
    out = run.run(spoilt(isa, what), Plan(limit_ms=600), runner(isa))
    (why,) = out.failures
    assert "\n" not in why and why.startswith("direct ") and "one_arg+0x" in why
    assert ("hangs" if what == "hang" else what) in why
    assert list(out.answers.check) == ["none", "ops", "ops:2"] and out.answers.done


def test_a_hook_that_dies_while_it_is_timed():
    """The others are timed in a new child."""
    isa = host_isa()
    subject = spoilt(isa.name, "SIGILL", ("ops", "direct"))
    out = run.run(subject, Plan(rounds=3, calls=10, warm=5))
    assert len(out.failures) == 1 and list(out.answers.time) == ["none", "ops", "-"]
    assert all(len(v) == 3 for v in out.answers.time.values())


def test_without_a_baseline_there_is_nothing():
    isa = host_isa()
    assert "none crashed natively: SIGILL" in error(
        lambda: run.run(spoilt(isa.name, "SIGILL", ("ops",), "none"), Plan())
    )


def test_a_failed_hook_is_the_commands_error_after_its_table(monkeypatch, capsys, tmp_path):
    """What ran is printed and saved all the same."""
    fake = Result(({**ROW, "hook": "none"},), ("careful",), ("direct crashed natively: SIGILL at x.",), {"cpu": "a"})
    monkeypatch.setattr(command, "measure", lambda *_, **__: fake)
    file = tmp_path / "r.json"
    assert error(lambda: main("native", "--save", str(file))) == "direct crashed natively: SIGILL at x."
    assert "careful" in capsys.readouterr().out and native.load(file).failures == fake.failures


def test_memory_that_may_not_be_executed_is_one_sentence():
    """A kernel that refuses mprotect(PROT_EXEC) for memory that was writable (PR_SET_MDWE, Linux 6.3)."""
    isa = host_isa()
    refuse = "ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) and sys.exit(77)"
    hardened = f"import ctypes, os, sys; {refuse}; os.execv(sys.argv[1], sys.argv[1:])"
    subject = states.subject(isa, "v7.2", {}, 1)
    message = error(lambda: run.run(subject, Plan(), (sys.executable, "-c", hardened)))
    if "status 77" in message:
        pytest.skip("this kernel cannot refuse executable memory (PR_SET_MDWE needs Linux 6.3)")
    assert message.startswith(
        "this system does not let a process execute memory that it has written (Permission denied at 0x"
    )


def test_memory_that_cannot_be_mapped_is_one_sentence():
    """Where something lies already: here, the child itself."""
    isa = host_isa()
    subject = states.subject(isa, "v7.2", {}, 1)
    taken = dataclasses.replace(subject, regions=(*subject.regions, Region(run.CHILD_BASE, False, bytes(8))))
    assert error(lambda: run.run(taken, Plan())).startswith(
        f"the lab kernel cannot be mapped at {run.CHILD_BASE:#x} (File exists)"
    )


def test_a_refused_cpu_is_a_warning():
    host_isa()
    result = native.measure(["direct"], rounds=1, cpu=8000)
    assert result.provenance["pinned to"] is None and len(result.rows) == 2
    assert any(w.startswith("the run could not be kept on CPU 8000 (") for w in result.warnings)


def test_too_much_for_the_child_is_one_sentence():
    isa = host_isa()
    subject = states.subject(isa, "v7.2", {}, 1)
    many = tuple(dataclasses.replace(subject.states[0], name=f"n{i}") for i in range(300))
    assert "ask for fewer hooks" in error(lambda: run.run(dataclasses.replace(subject, states=many), Plan()))


@pytest.mark.parametrize(
    "words, said",
    [
        (("/nowhere/qemu",), "/nowhere/qemu cannot be started (No such file or directory)"),
        (("sh", "-c", "kill -9 $$"), "ended without an answer (by SIGKILL)"),
        (("sh", "-c", "echo oh no >&2; exit 5"), "ended without an answer (status 5): oh no"),
    ],
)
def test_a_child_that_does_not_start_is_one_sentence(words, said):
    isa = host_isa()
    assert said in error(lambda: run.run(states.subject(isa, "v7.2", {}, 1), Plan(), words))


def test_a_child_that_is_deaf_is_ended(monkeypatch):
    isa = host_isa()
    monkeypatch.setattr(run, "PATIENCE", 0.2)
    assert "did not end within 0.2 s" in error(
        lambda: run.run(states.subject(isa, "v7.2", {}, 1), Plan(), ("sh", "-c", "exec sleep 9"))
    )


def test_no_child_outlives_its_parent(tmp_path):
    """Here, one that hangs for good and has an hour to do so."""
    isa = host_isa()
    words = tmp_path / "words"
    words.write_text(script.script(spoilt(isa.name, "hang", ("ops",), "none"), Plan(limit_ms=3_600_000)))
    popen = "p = subprocess.Popen(sys.argv[1], stdin=open(sys.argv[2]))"
    start = f"import subprocess, sys; {popen}; print(p.pid, flush=True); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", start, run.child(isa), words], stdout=subprocess.PIPE)
    with parent:
        child = Path("/proc") / parent.stdout.readline().decode().strip()
        deadline = time.monotonic() + 10
        while not ticks(child) and time.monotonic() < deadline:  # until it is in the loop
            time.sleep(0.01)
        assert ticks(child)
        parent.kill()
        parent.wait()
        while running(child) and time.monotonic() < deadline:
            time.sleep(0.01)
        outlived = running(child)
        if outlived:
            os.kill(int(child.name), signal.SIGKILL)
        assert not outlived


def ticks(process: Path) -> int:
    """How long a process has run, in the kernel's ticks."""
    return int((process / "stat").read_text().rsplit(")", 1)[1].split()[11])


def running(process: Path) -> bool:
    """A dead one that nobody has asked about yet does not run."""
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


# --- Bad input


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: native.measure(["opps"]), "unknown hook 'opps'; did you mean ops"),
        (lambda: native.measure(["ops:x"]), "not 'ops:x'"),
        (lambda: native.measure(["ops:0"]), "0 callbacks cannot be attached"),
        (lambda: native.measure(["direct:2"]), "takes one callback, not 2"),
        (lambda: native.measure(release="v9.9"), "unknown release"),
        (lambda: native.measure(rounds=0), "1 to 20000 rounds, not 0"),
        (lambda: native.measure(args=7), "0 to 6 arguments, not 7"),
    ],
)
def test_bad_input_is_one_sentence(call, said):
    host_isa()
    assert said in error(call)


@pytest.mark.parametrize(
    "system, machine, said",
    [
        ("Darwin", "arm64", "native runs need Linux, not Darwin"),
        ("Windows", "AMD64", "native runs need Linux, not Windows"),
        ("Linux", "armv7l", "no native run for armv7l"),
        ("Linux", "i686", "no native run for i686"),
    ],
)
def test_a_host_without_native_support_is_one_sentence(monkeypatch, system, machine, said):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert said in error(native.measure)


@pytest.mark.parametrize("machine, isa", [("x86_64", "x86_64"), ("aarch64", "arm64"), ("riscv64", "riscv64")])
def test_the_hosts_isa(monkeypatch, machine, isa):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host.isa().name == isa


# --- The circumstances


@pytest.mark.parametrize(
    "cpuinfo, model",
    [
        ("processor\t: 0\nmodel name\t: A CPU\ncpu family\t: 25\nmodel\t\t: 1\n", "A CPU, family 25, model 1"),
        ("processor\t: 0\nhart\t\t: 1\nuarch\t\t: sifive,u74-mc\n", "uarch sifive,u74-mc"),
        ("nothing\n", "unknown"),
    ],
)
def test_cpu_models(monkeypatch, cpuinfo, model):
    monkeypatch.setattr(host, "_read", lambda _: "")
    assert host.cpu_model(cpuinfo) == model


def test_every_circumstance_has_its_warning():
    quiet = {"virtualised": "no", "governor": "performance", "smt": "off", "load": 0.1, "cpus": 2}
    assert host.warnings(quiet) == []
    for change, word in (
        ({"virtualised": "KVM"}, "(KVM)"),
        ({"governor": "powersave"}, "powersave"),
        ({"governor": "unknown"}, "not to be seen"),
        ({"smt": "on"}, "sibling"),
        ({"load": 1.5}, "load was 1.5"),
    ):
        (said,) = host.warnings({**quiet, **change})
        assert word in said


# --- Saved results

ROW = {"hook": "ops", "ns_min": 1.5, "ns_q1": 2, "ns_median": 2, "ns_q3": 3, "ns_over": 0.5, "ratio_direct": None}


def test_a_saved_result_comes_back(tmp_path):
    result = Result((ROW,), ("a warning",), ("a failure",), {"cpu": "x", "pinned to": None})
    result.save(tmp_path / "r.json")
    assert native.load(tmp_path / "r.json") == result and [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "cannot read"),
        ("{", "is not JSON"),
        ("[]", "is no native result of this edition"),
        ('{"format": 0}', "is no native result of this edition"),
        ('{"format": 1}', "damaged"),
        ('{"format": 1, "rows": [], "warnings": [], "failures": [], "provenance": {}}', "damaged"),
        ('{"format": 1, "rows": [{"hook": "a"}], "warnings": [], "failures": [], "provenance": {}}', "damaged"),
        ('{"format": 1, "rows": 3, "warnings": [], "failures": [], "provenance": {}}', "damaged"),
    ],
)
def test_a_file_that_is_no_result_is_one_sentence(tmp_path, text, said):
    file = tmp_path / "r.json"
    if text is not None:
        file.write_text(text)
    assert said in error(lambda: native.load(file))


def test_a_result_that_cannot_be_saved_is_one_sentence(tmp_path):
    assert "cannot write" in error(lambda: Result((ROW,), (), (), {}).save(tmp_path / "nowhere" / "r.json"))


# --- The command


def main(*words: str) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    args = parser.parse_args(words)
    args.command(args)


def test_the_command_prints_a_narrow_table(capsys):
    host_isa()
    main("native", "direct", "direct+ops:10", "--rounds", "2")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 72
    assert [line.split()[0] for line in lines[2:5]] == ["none", "direct", "direct+ops:10"]
    assert lines[3].split()[-1] == "1.00" and any(line.startswith("cpu: ") for line in lines)


def test_the_command_saves_and_prints_json(capsys, tmp_path):
    host_isa()
    main("native", "--shapes", "--rounds", "1", "--json", "--save", str(tmp_path / "r.json"))
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "r.json").read_text()) and len(printed["rows"]) == 1 + len(shapes.GRID)
    assert printed["provenance"]["command"].startswith("tramplab ")


@pytest.mark.parametrize(
    "words, said", [(("--rounds", "many"), "--rounds is a whole number"), (("ops", "--shapes"), "leave the hooks out")]
)
def test_the_commands_bad_input(words, said):
    assert said in error(lambda: main("native", *words))


# --- The bytes in between


@given(st.binary(max_size=200), st.data())
def test_patches_are_exactly_what_differs(old, data):
    """Applied to the old bytes they give the new ones, taken back they give the old ones, and none is empty."""
    changes = data.draw(st.lists(st.integers(0, max(len(old) - 1, 0)), max_size=5)) if old else []
    new = bytearray(old)
    for i in changes:
        new[i] ^= data.draw(st.integers(0, 255))
    patches = list(states._differences(Region(1000, False, old), bytes(new)))
    there = bytearray(old)
    for at, before, after in patches:
        assert there[at - 1000 : at - 1000 + len(before)] == before and before and len(before) == len(after)
        assert before[0] != after[0] and before[-1] != after[-1]
        there[at - 1000 : at - 1000 + len(after)] = after
    assert there == new
    gaps = [b[0] - (a[0] + len(a[1])) for a, b in itertools.pairwise(patches)]
    assert all(g >= states.GAP for g in gaps)


def test_near_changes_are_one_patch():
    """Changes 16 bytes apart are one patch, 17 bytes apart two."""
    now = bytearray(100)
    for i in (3, 19, 36):
        now[i] = 1
    patches = list(states._differences(Region(1000, False, bytes(100)), bytes(now)))
    assert [(at, len(before)) for at, before, _ in patches] == [(1003, 17), (1036, 1)]


@given(st.binary(max_size=400).map(lambda b: bytes(x if x > 200 else 0 for x in b)))
def test_what_is_put_is_the_region(data):
    """The words for memory leave out zeros only."""
    subject = dataclasses.replace(SUBJECT, regions=(Region(0x1000, False, data),))
    memory = np.zeros(len(data), np.uint8)
    for line in script.script(subject, Plan()).splitlines():
        word, *rest = line.split()
        if word == "put":
            at, filled = int(rest[0], 16) - 0x1000, bytes.fromhex(rest[1])
            memory[at : at + len(filled)] = np.frombuffer(filled, np.uint8)
    assert memory.tobytes() == data


SUBJECT = states.Subject(ISAS["arm64"], "v7.2", "one_arg", (), (), 1, 2, 3, 4, 5)


def test_answers_are_read_as_far_as_they_go():
    """A line that is cut short is where the child ended."""
    said = "pinned 0\ncounter d\ncheck 3 0 1 ops\ncount a 5 5 64 ops\ncount a 6 6 65 ops\ndied b 10 20 direct\nchec"
    out = script.answers(said)
    assert out.pinned == 0 and out.counters == [13] and out.check == {"ops": [3, 0, 1]} and not out.done
    assert out.count == {"ops": [[10, 5, 5, 100], [10, 6, 6, 101]]} and out.died == (11, 16, 32, "direct")
    assert script.answers("refused map 1000 11\n").refused == ("map", 0x1000, 17)


def test_the_baseline_comes_first_and_once():
    subject = states.subject(ISAS["arm64"], "v7.2", {"extra": lambda *_: nullcontext()}, 1)
    assert [s.name for s in subject.states] == ["none", "extra"]
    assert subject.states[0].patches == subject.states[1].patches
