"""The moments of a plan: between two steps everything is as the last one left it, and what a CPU may still have is bounded.

What a wait does for text depends on the ISA. x86-64: any interrupt or exception serialises (SDM volume 3, 9.3). arm64: entering
and leaving an exception is a context synchronisation event (Arm ARM, B2.4.4 and glossary), after which a CPU finds what an IC
IVAU on any CPU has made visible; by itself neither that nor an ISB here does anything for the pipelines elsewhere. riscv64:
only FENCE.I does, on the hart that executes it (unprivileged ISA, Zifencei). """

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ...errors import TramplabError
from ...ftrace.steps import Free, Sync, Wait, Whom, Write
from .subject import FixUp, Planned

#: The waits after which every CPU executes text as it was written before.
SYNCHRONISES = {
    "x86_64": frozenset({Sync.TEXT_POKE, Sync.FTRACE_IPI, Sync.RCU_TASKS, Sync.STOP_MACHINE}),
    "arm64": frozenset({Sync.FTRACE_IPI, Sync.RCU_TASKS, Sync.STOP_MACHINE}),
    "riscv64": frozenset({Sync.FENCE_I, Sync.FLUSH_ICACHE}),
}
#: Where a CPU that looks again finds only what one of these has made visible: to all of them at once.
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
    """The time after a step, or in the middle of one.

    steps: how many have been done. step: the one that led here, None at first. why: what it is, for the reader. horizon: the
    earliest moment whose text a CPU may still execute. frozen: do all threads stand still? notes: who is noted down as this
    moment begins; the next one does not begin before all of them are gone. empty: does this moment only begin when no thread is
    inside at all? during: a write of several granules is half done. number: of the step in the plan, where it is done here and
    is no wait. """

    steps: int
    step: Planned | None
    why: str
    horizon: int
    frozen: bool = False
    notes: str = NOBODY
    empty: bool = False
    during: Write | None = None
    number: int | None = None


def moments(isa: str, steps: Sequence[Planned], preemptible: bool, masks: bool, dropped: Collection[int] = ()) -> list[Moment]:
    """From before the first step to behind the last one. preemptible: see Subject. masks: do threads take breakpoints, with
    interrupts off? dropped: numbers of steps that are left out. Raises TramplabError for a step whose wait is not modelled."""
    found = [Moment(0, None, "", 0)]
    stopped, visible = False, 0  # the latest moment whose text a CPU finds that looks again

    def anew(step: Wait, at: int) -> int:
        """From which moment on a CPU may have its text, once such a wait is over that leads to moment `at`."""
        return (visible if isa in PUBLISHES else at) if step.sync in SYNCHRONISES[isa] else found[-1].horizon

    for number, step in enumerate(steps):
        if number in dropped and isinstance(step, Write):
            raise TramplabError(f"only a wait, or what gives something back, can be left out of a plan, not: {step.why}.")
        if number in dropped:
            found[-1] = replace(found[-1], steps=number + 1)
            if stopped and isinstance(step, Wait) and resumes(step):  # CPUs go on all the same, with what they have
                found.append(Moment(number + 1, None, "every CPU goes on", found[-1].horizon))
                stopped = False
            continue
        last, done = found[-1], number + 1
        if isinstance(step, Write) and step.text and not step.atomic and len(step.data) <= _LONGEST:
            found.append(Moment(number, step, f"begins to {step.why}", last.horizon, last.frozen, during=step))
        if isinstance(step, (Write, Free, FixUp)):
            found.append(Moment(done, step, step.why, last.horizon, last.frozen, number=number))
            continue
        at = len(found)
        if step.sync.whom is Whom.STOPPED:
            stopped = True
            found.append(Moment(done, step, step.why, last.horizon, True, empty=not preemptible))
        elif step.sync.whom is Whom.EVERY_TASK or (masks and step.sync in _INTERRUPTS):
            notes = INSIDE if step.sync.whom is Whom.EVERY_TASK else EVERYBODY
            found.append(Moment(number, step, f"begins to wait: {step.why}", last.horizon, last.frozen, notes=notes))
            found.append(Moment(done, step, step.why, anew(step, at + 1), last.frozen))
        elif step.sync.whom in (Whom.EVERY_CPU, Whom.THIS_CPU) and step.sync not in (Sync.RCU, Sync.CALL_RCU):
            if step.sync in PUBLISHES.get(isa, ()):
                visible = at
            found.append(Moment(done, step, step.why, anew(step, at), last.frozen and not resumes(step)))
            stopped = stopped and not resumes(step)
        else:
            raise TramplabError(f"the explorer does not know what {step.sync.kernel} waits for: take a plan without it.")
    last = found[-1]
    if stopped:
        found.append(Moment(last.steps, None, "every CPU goes on", last.horizon))
    if isa in BY_ITSELF:
        horizon = visible if isa in PUBLISHES else len(found)
        found.append(Moment(last.steps, None, "every CPU has taken an interrupt since", horizon))
    return found


def resumes(step: Wait) -> bool:
    """Does it end a stop of the machine?"""
    return step.sync is Sync.FENCE_I
