"""Plans that no kernel carries out, for sites of two instructions on riscv64: what could go wrong, and two ways out.

All were sketched in <ZfBbxPDd0rz6FN2T@FVFF77S0Q05N>. For the ways out, the writes of an AUIPC and a JALR at once, which the kernel
makes with the machine stopped, to a site or to the call in its trampoline, are replaced by other steps; all else in the plan stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeGuard

from ...build.assemble import assemble
from ...ftrace.steps import INSTRUCTION, Step, Sync, Wait, Write, text
from ...isa.riscv64 import CALL_T0, EBREAK
from ..subject import FixUp, Planned, Subject, replanned

_HALF, _PAIR = 4, 8
#: From the first byte of the module area to the target of a direct call: not where ftrace_caller lies in its 4 KiB.
_ELSEWHERE = 0x940
_GOES_ON = "jr t0"


def leading_elsewhere(subject: Subject) -> Subject:
    """A site that calls ftrace_caller is to call a direct call's target in the module area, which goes on to the function."""
    machine = subject.machine
    target, code = machine.places.modules.address + _ELSEWHERE, assemble(machine.isa, _GOES_ON)
    machine.poke(target, code)
    pair = CALL_T0.encode(subject.entry, target)
    steps: list[Planned] = [
        Wait(Sync.STOP_MACHINE, "every other hart waits"),
        text(subject.entry, pair, "the site calls the direct call's target", INSTRUCTION),
        Wait(Sync.FENCE_I, "every hart refetches and continues"),
    ]
    ops = [dataclasses.replace(o, off=0) for o in subject.ops]  # the plan takes it away without a word
    made = [*subject.made, (target, len(code), "direct_trampoline")]
    return dataclasses.replace(subject, steps=steps, ops=ops, made=made, targets=subject.targets | {target})


def trapping(subject: Subject) -> Subject:
    """The second instruction becomes a breakpoint, then the first changes, then the second, with a wait after each; before the
    last one also for every task that was preempted between the two. The handler goes on behind the site."""

    def steps(site: Write) -> list[Planned]:
        first, second = site.data[:_HALF], site.data[_HALF:]
        behind = site.address + _HALF
        every = Wait(Sync.FLUSH_ICACHE, "every hart executes the breakpoint")
        return [
            text(behind, EBREAK, "a breakpoint in place of the second instruction", INSTRUCTION),
            every,
            text(site.address, first, f"the first instruction of {site.why}", INSTRUCTION),
            Wait(Sync.FLUSH_ICACHE, "every hart executes the first instruction"),
            Wait(Sync.RCU_TASKS, "nobody stands between the two"),
            text(behind, second, f"the second instruction of {site.why}", INSTRUCTION),
            Wait(Sync.FLUSH_ICACHE, "every hart executes the second instruction"),
        ]

    skips = {s.address + _HALF: s.address + _PAIR for s in subject.steps if _is_pair(s)}
    return dataclasses.replace(_replaced(subject, steps, stops=False), skips=skips)


def putting_back(subject: Subject) -> Subject:
    """stop_machine() as it is, and a thread that would resume at the second instruction resumes at the first."""

    def steps(site: Write) -> list[Planned]:
        return [site, FixUp(site.address + _HALF, site.address, "threads between the two are put back before both")]

    return _replaced(subject, steps, stops=True)


def _replaced(subject: Subject, steps: Callable[[Write], list[Planned]], stops: bool) -> Subject:
    """A plan with other steps where it writes the function's site; stops: does it still stop the machine?"""

    def instead(number: int) -> list[Planned]:
        step = subject.steps[number]
        if _is_pair(step):
            return steps(step)
        return [step] if stops or not _stopping(step) else []

    return replanned(subject, instead)


def _is_pair(step: Planned) -> TypeGuard[Write]:
    return isinstance(step, Write) and step.text and len(step.data) == _PAIR and step.granule == INSTRUCTION


def _stopping(step: Step | FixUp) -> bool:
    return isinstance(step, Wait) and step.sync in (Sync.STOP_MACHINE, Sync.FENCE_I)
