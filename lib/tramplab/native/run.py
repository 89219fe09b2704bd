"""Run a subject in a child process, and say in one sentence what went wrong there."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from ..base.errors import TramplabError
from ..build import toolchain
from ..isa import Isa
from .script import Answers, TimingPlan, answers, script
from .states import BASELINE, NativeKernel, State

CHILD = Path(__file__).resolve().parent / "child"
#: Where the child itself lies: far from every guest, and inside the smallest address space (riscv64 Sv39: 256 GiB).
CHILD_BASE = 1 << 36
#: Seconds after which a child that does not even answer its own alarm is ended.
PATIENCE = 120

_REFUSED = {
    "map": "the lab kernel cannot be mapped at {address:#x} ({why}): something lies there, or vm.mmap_min_addr forbids it; "
    "run it again, or without what loads itself into every process.",
    "protection": "this system does not let a process execute memory that it has written ({why} at {address:#x}), as "
    "SELinux, a sandbox or a hardened kernel may: there are no native times here; counts and estimates need none.",
    "buffer": "there is no memory for the native run ({why}).",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: answers for the hooks that ran, a sentence for each that did not, and the subject without these."""

    answers: Answers
    failures: tuple[str, ...]
    subject: NativeKernel


def child(isa: Isa) -> Path:
    """The program that runs the guest, built if need be."""
    return toolchain.program(isa.in_user_space, CHILD, CHILD_BASE)


def run(subject: NativeKernel, plan: TimingPlan, runner: tuple[str, ...] = ()) -> Outcome:
    """Run all states; a hook that crashes or hangs is left out, and the others run again.

    runner: words put before the child's path, such as an emulator of user programs. Raises TramplabError where nothing can
    run at all, and where a native call and the emulated call of the same bytes do not agree.
    """
    failures: list[str] = []
    while True:
        answered = _once(subject, plan, runner)
        for s in subject.states:
            _compare(s, answered, subject.isa, plan.calls)
        if answered.done:
            return Outcome(answered, tuple(failures), subject)
        why, name = _trouble(subject, answered)
        if name in (None, BASELINE):
            raise TramplabError(why)
        failures.append(why)
        subject = replace(subject, states=tuple(s for s in subject.states if s.name != name))


def _once(subject: NativeKernel, plan: TimingPlan, runner: tuple[str, ...]) -> Answers:
    command = [*runner, str(child(subject.isa))]
    try:
        done = subprocess.run(
            command,
            check=False,
            input=script(subject, plan),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
        )
    except OSError as e:
        raise TramplabError(
            f"{e.filename or command[0]} cannot be started ({e.strerror}); if its folder may hold no programs, set "
            "TRAMPLAB_CACHE to one that may."
        ) from None
    except subprocess.TimeoutExpired:
        raise TramplabError(f"the native run did not end within {PATIENCE} s; ask for fewer hooks or rounds.") from None
    answered = answers(done.stdout)
    if not (answered.done or answered.died or answered.refused):
        errors = " ".join(done.stderr.split())
        raise TramplabError(
            f"the native run ended without an answer ({_status(done.returncode)}): {errors or 'no word'}."
        )
    return answered


def _status(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"status {code}"


def _trouble(subject: NativeKernel, out: Answers) -> tuple[str, str | None]:
    """A sentence, and the hook it is about."""
    if out.refused:
        what, address, errno = out.refused
        if what not in _REFUSED:
            return f"the native run does not take this much: {what} {address:#x}; ask for fewer hooks.", None
        return _REFUSED[what].format(address=address, why=os.strerror(errno)), None
    assert out.died is not None  # it came to no end, and refused nothing
    number, pc, address, name = out.died
    state = next((s for s in subject.states if s.name == name), None)
    if state is None:
        return f"the native run crashed before any hook did: {signal.Signals(number).name} at {pc:#x}.", None
    place = state.where(pc) or f"{pc:#x}"
    if number == signal.SIGALRM:
        return f"{name} hangs natively: it did not return in time and was last seen at {place}.", name
    access = f", address {address:#x}" if number in (signal.SIGSEGV, signal.SIGBUS) else ""
    return f"{name} crashed natively: {signal.Signals(number).name} at {place}{access}.", name


def _compare(state: State, out: Answers, isa: Isa, calls: int = 1) -> None:
    """Native against emulated: the value of the first calls and what callbacks counted in them, and the count over all calls."""
    if state.name in out.check:
        value, *seen = out.check[state.name]
        if (value, seen) != (state.value, [calls * n for n in state.seen]):
            raise TramplabError(
                f"{state.name} does not do natively what it does in the emulator on {isa.name}: it returned {value:#x} and "
                f"callbacks counted {seen} in {calls} {'call' if calls == 1 else 'calls'}, not {state.value:#x} and "
                f"{list(state.seen)} in each."
            )
    if state.name in out.total:
        calls, *seen = out.total[state.name]
        if seen != [calls * n for n in state.seen]:
            raise TramplabError(
                f"{state.name}: callbacks counted {seen} in {calls} native calls, not {state.seen} in each."
            )
