"""The moments of a plan: between two steps everything is as the last one left it, and what a CPU may still have is bounded.

What a wait does for text depends on the ISA. x86-64: any interrupt or exception serialises (SDM volume 3, 9.3). arm64: entering
and leaving an exception is a context synchronisation event (Arm ARM, B2.4.4 and glossary), after which a CPU finds what an IC
IVAU on any CPU has made visible; by itself neither that nor an ISB here does anything for the pipelines elsewhere. riscv64:
only FENCE.I does, on the hart that executes it (unprivileged ISA, Zifencei). """

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...base.errors import TramplabError
from ...ftrace.steps import Free, Scope, Sync, Wait, Write
from ..subject import FixUp, Planned, overlap

#: The waits after which every CPU executes text as it was written before.
SYNCHRONISES = {
    "x86_64": frozenset({Sync.TEXT_POKE, Sync.FTRACE_IPI, Sync.RCU_TASKS, Sync.STOP_MACHINE}),
    "arm64": frozenset({Sync.FTRACE_IPI, Sync.RCU_TASKS, Sync.STOP_MACHINE}),
    "riscv64": frozenset({Sync.FENCE_I, Sync.FLUSH_ICACHE}),
}
#: Where a CPU that looks again finds only what one of these has made visible, to all of them at once: what was written since the
#: one before it, and what was written at the same places earlier.
PUBLISHES = {"arm64": frozenset({Sync.IC_IVAU})}
#: The waits for an interrupt that each CPU takes: none does as long as it has interrupts off.
_INTERRUPTS = frozenset({Sync.TEXT_POKE, Sync.FTRACE_IPI, Sync.FLUSH_ICACHE})
#: Where every CPU does it by itself some day: interrupts do it.
BY_ITSELF = ("x86_64", "arm64")
#: Code that is longer than this was made where nobody is yet, and is written at once.
_LONGEST = 16
#: Who is noted down, and waited for: nobody; threads inside the function or a trampoline; every CPU, until it takes an interrupt.
NOBODY, INSIDE, EVERYBODY = "", "inside", "everybody"


@dataclass(frozen=True)
class Moment:
    """A point in a plan between two steps.

    steps: how many have been done.
    step: the one that led here, None at first.
    why: its reason, for the reader.
    horizon: the moment at which every CPU last refetched: it has text of that moment or a later one.
    unseen: the moments of writes of text that a CPU need not have seen then, as they had not been made visible.
    frozen: are all threads stopped?
    notes: which threads are noted as this moment begins; the next moment does not begin before all of them have left.
    empty: does this moment only begin when no thread is inside at all?
    during: a write of several granules is half done.
    number: of the step in the plan, where it is done here and is no wait.
    """

    steps: int
    step: Planned | None
    why: str
    horizon: int
    unseen: frozenset[int] = frozenset()
    frozen: bool = False
    notes: str = NOBODY
    empty: bool = False
    during: Write | None = None
    number: int | None = None


def moments(isa: str, steps: Sequence[Planned], preemptible: bool, masks: bool, dropped: Collection[int] = ()) -> list[Moment]:
    """The moments of a plan, from before the first step to after the last. preemptible: see Subject. masks: do threads take
    breakpoints with interrupts off? dropped: numbers of steps that are left out. Raises TramplabError for a step whose wait is
    not modelled."""
    moments_so_far = [Moment(0, None, "", 0)]
    hidden = Hidden(isa)
    stopped = False

    def then(steps: int, step: Planned | None, why: str, **more: Any) -> None:
        """The next moment, which a CPU enters with the text that it has, unless more is said."""
        last = moments_so_far[-1]
        given: dict[str, Any] = {"horizon": last.horizon, "unseen": last.unseen, "frozen": last.frozen}
        moments_so_far.append(Moment(steps, step, why, **given | more))

    def refetched(step: Wait, at: int) -> dict[str, Any]:
        """What a CPU may have, once such a wait is over that leads to moment `at`."""
        return {"horizon": at, "unseen": hidden.moments()} if step.sync in SYNCHRONISES[isa] else {}

    for number, step in enumerate(steps):
        if number in dropped and isinstance(step, Write):
            raise TramplabError(f"only a wait, or what gives something back, can be left out of a plan, not: {step.why}.")
        if number in dropped:
            moments_so_far[-1] = replace(moments_so_far[-1], steps=number + 1)
            if isinstance(step, Wait):
                hidden.passed(step)
                if stopped and resumes(step):  # CPUs go on all the same, with what they have
                    then(number + 1, None, "every CPU goes on", frozen=False)
                    stopped = False
            continue
        done = number + 1
        if isinstance(step, Write) and step.text and not step.atomic and len(step.data) <= _LONGEST:
            then(number, step, f"begins to {step.why}", during=step)
        if isinstance(step, (Write, Free, FixUp)):
            if isinstance(step, Write) and step.text:
                hidden.write(len(moments_so_far), step)
            then(done, step, step.why, number=number)
            continue
        at = len(moments_so_far)
        if step.sync.scope is Scope.STOPPED:
            stopped = True
            then(done, step, step.why, frozen=True, empty=not preemptible)
        elif step.sync.scope is Scope.EVERY_TASK or (masks and step.sync in _INTERRUPTS):
            notes = INSIDE if step.sync.scope is Scope.EVERY_TASK else EVERYBODY
            then(number, step, f"begins to wait: {step.why}", notes=notes)
            then(done, step, step.why, **refetched(step, at + 1))
        elif step.sync.scope in (Scope.EVERY_CPU, Scope.THIS_CPU) and step.sync not in (Sync.RCU, Sync.CALL_RCU):
            hidden.publish(step)
            then(done, step, step.why, frozen=moments_so_far[-1].frozen and not resumes(step), **refetched(step, at))
            stopped = stopped and not resumes(step)
        else:
            raise TramplabError(f"the explorer does not know what {step.sync.kernel} waits for: take a plan without it.")
    steps_done = moments_so_far[-1].steps
    if stopped:
        then(steps_done, None, "every CPU goes on", frozen=False)
    if isa in BY_ITSELF:
        why = "every CPU has taken an interrupt since"
        moments_so_far.append(Moment(steps_done, None, why, len(moments_so_far), hidden.moments()))
    return moments_so_far


class Hidden:
    """The writes of text, of a plan that is gone through, that a CPU need not find when it looks again."""

    def __init__(self, isa: str) -> None:
        self._publishes = PUBLISHES.get(isa, frozenset())
        self._writes: dict[int, Write] = {}
        self._since: list[Write] = []  # the last wait of that kind

    def write(self, moment: int, step: Write) -> None:
        """One that leads to a moment."""
        if self._publishes:
            self._writes[moment] = step
            self._since.append(step)

    def publish(self, step: Wait) -> None:
        """A wait that may make visible what was written since the last one."""
        if step.sync in self._publishes:
            made = [(w.address, len(w.data)) for w in self._since]
            self._writes = {n: w for n, w in self._writes.items() if not any(overlap((w.address, len(w.data)), m) for m in made)}
            self._since = []

    def passed(self, step: Wait) -> None:
        """The same wait, left out."""
        if step.sync in self._publishes:
            self._since = []

    def moments(self) -> frozenset[int]:
        """Those that lead to what is hidden now."""
        return frozenset(self._writes)


def resumes(step: Wait) -> bool:
    """Does it end a stop of the machine?"""
    return step.sync is Sync.FENCE_I
