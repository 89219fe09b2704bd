"""One clear sentence for whatever goes wrong in the native child, and for what it is asked in vain."""

import dataclasses
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.base.children import children, ended, with_processes
from support.complaints import complaint
from support.native.hosts import every_isa, host_isa, runner
from tramplab import isa as isas
from tramplab import native
from tramplab.ftrace import releases
from tramplab.native import host, run, script, states
from tramplab.native.script import TimingPlan

# --- What goes wrong in the child

#: Code that is no instruction, that reads address zero, that writes to itself, and that jumps to itself.
BAD = {
    "x86_64": {"SIGILL": "0f0b", "SIGSEGV": "488b042500000000", "text": "8905faffffff", "hang": "ebfe"},
    "arm64": {"SIGILL": "00000000", "SIGSEGV": "090080d2200140f9", "text": "09000010290100f9", "hang": "00000014"},
    "riscv64": {"SIGILL": "00000000", "SIGSEGV": "03350000", "text": "9702000023b05200", "hang": "6f000000"},
}


def spoilt(isa: str, what: str, hooks=("ops", "direct", "ops:2"), bad="direct"):
    """A subject in which one hook's traced function begins with a bad instruction; and where."""
    record = isas.get(isa)
    subject = states.subject(record, "v7.2", {h: states.hook(h) for h in hooks}, 1)
    at = states.boot(record, "v7.2").function("one_arg").site.body
    code = bytes.fromhex(BAD[isa][what])

    def spoil(s):
        return dataclasses.replace(s, patches=(*s.patches, (at, code))) if s.name == bad else s

    return dataclasses.replace(subject, states=tuple(map(spoil, subject.states)))


@every_isa
@pytest.mark.parametrize("what", ["SIGILL", "SIGSEGV", "text", "hang"])
def test_a_hook_that_dies_is_one_sentence_and_the_others_still_run(isa, what):
    out = run.run(spoilt(isa, what), TimingPlan(limit_ms=600), runner(isa))
    (why,) = out.failures
    assert "\n" not in why and why.startswith("direct ") and "one_arg+0x" in why
    assert {"hang": "hangs", "text": "SIGSEGV"}.get(what, what) in why
    assert list(out.answers.check) == ["none", "ops", "ops:2"] and out.answers.done


def test_a_hook_that_dies_while_it_is_timed():
    """The others are timed in a new child."""
    isa = host_isa()
    subject = spoilt(isa.name, "SIGILL", ("ops", "direct"))
    out = run.run(subject, TimingPlan(rounds=3, batch_ns=1000, warm=5))
    assert len(out.failures) == 1 and list(out.answers.time) == ["none", "ops", "-"]
    assert all(len(v) == 3 for v in out.answers.time.values())


def test_without_a_baseline_there_is_nothing():
    isa = host_isa()
    assert "none crashed natively: SIGILL" in complaint(
        lambda: run.run(spoilt(isa.name, "SIGILL", ("ops",), "none"), TimingPlan())
    )


def test_a_refused_cpu_is_a_warning():
    host_isa()
    result = native.time_hooks(["direct"], rounds=1, windows=1, cpu=8000)
    assert result.provenance["pinned to"] is None and len(result.rows) == 2
    assert any(w.startswith("the run could not be kept on CPU 8000 (") for w in result.warnings)


@pytest.mark.parametrize(
    "words, said",
    [
        (("/nowhere/qemu",), "/nowhere/qemu cannot be started (No such file or directory)"),
        (("sh", "-c", "echo oh no >&2; exit 5"), "ended without an answer (status 5): oh no"),
    ],
)
def test_a_child_that_does_not_start_is_one_sentence(words, said):
    isa = host_isa()
    assert said in complaint(lambda: run.run(states.subject(isa, "v7.2", {}, 1), TimingPlan(), words))


def test_a_child_that_spins_is_ended(monkeypatch):
    """One whose own alarm is an hour away: the parent ends it."""
    isa = host_isa()
    monkeypatch.setattr(run, "PATIENCE", 1)
    before = set(children(os.getpid())[1])
    message = complaint(lambda: run.run(spoilt(isa.name, "hang", ("ops",), "none"), TimingPlan(limit_ms=3_600_000)))
    assert message == "the native run did not end within 1 s; ask for fewer hooks or rounds."
    assert set(children(os.getpid())[1]) <= before


@with_processes
def test_an_interrupt_ends_the_command_and_its_child():
    """Though it reaches the command alone."""
    isa = host_isa()
    assert run.child(isa) and states.boot(isa, releases.LATEST)  # so that the command's only child is the one that runs hooks
    words = [sys.executable, "-m", "tramplab", "native", "--rounds", "20000", "--windows", "1000"]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True)
    with command:
        deadline, started = time.monotonic() + 120, set()
        try:
            while time.monotonic() < deadline and not any(ticks(c) > 5 for c in started):  # until it is in its loop
                time.sleep(0.02)
                started = children(command.pid)[1]
            command.send_signal(signal.SIGINT)
            said = command.communicate(timeout=120)
        finally:
            command.kill()  # or its pipes are waited for as long as it runs
    assert command.returncode == 130 and said == ("", "tramplab: interrupted.\n")
    assert started and ended(started)


def test_no_child_outlives_its_parent(tmp_path):
    """Here, one that hangs for good and has an hour to do so."""
    isa = host_isa()
    words = tmp_path / "words"
    words.write_text(script.script(spoilt(isa.name, "hang", ("ops",), "none"), TimingPlan(limit_ms=3_600_000)), "utf-8")
    popen = "p = subprocess.Popen(sys.argv[1], stdin=open(sys.argv[2]))"
    start = f"import subprocess, sys; {popen}; print(p.pid, flush=True); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", start, run.child(isa), words], stdout=subprocess.PIPE)
    with parent:
        child = int(parent.stdout.readline())
        deadline = time.monotonic() + 120
        while not ticks(child) and time.monotonic() < deadline:  # until it is in the loop
            time.sleep(0.01)
        assert ticks(child)
        parent.kill()
        parent.wait()
        outlived = not ended({child})
        if outlived:
            os.kill(child, signal.SIGKILL)
        assert not outlived


def ticks(process: int) -> int:
    """How long a process has run, in the kernel's ticks; 0 for one that is no more."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rsplit(")", 1)[1].split()[11])


# --- Bad input


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: native.time_hooks(["opps"]), "unknown hook 'opps'; did you mean ops"),
        (lambda: native.time_hooks(["ops:x"]), "not 'ops:x'"),
        (lambda: native.time_hooks(rounds=0), "rounds is a whole number from 1 to 20000, not 0"),
        (lambda: native.time_hooks(args=7), "0 to 6 arguments, not 7"),
    ],
)
def test_bad_input_is_one_sentence(call, said):
    host_isa()
    assert said in complaint(call)


@pytest.mark.parametrize(
    "system, machine, said",
    [
        ("Darwin", "arm64", "native runs need Linux, not Darwin"),
        ("Linux", "armv7l", "no native run for armv7l"),
    ],
)
def test_a_host_without_native_support_is_one_sentence(monkeypatch, system, machine, said):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert said in complaint(native.time_hooks)


@pytest.mark.parametrize("machine, isa", [("x86_64", "x86_64"), ("aarch64", "arm64"), ("riscv64", "riscv64")])
def test_the_hosts_isa(monkeypatch, machine, isa):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host.isa().name == isa
