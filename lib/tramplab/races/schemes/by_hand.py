"""Plans that no kernel carries out, for sites of two instructions on riscv64: what could go wrong, and two ways out.

All were sketched in <ZfBbxPDd0rz6FN2T@FVFF77S0Q05N>. For the ways out, the writes of an AUIPC and a JALR at once, which the kernel
makes with the machine stopped, to a site or to the call in its trampoline, are replaced by other steps; all else in the plan stays.
The mail has a breakpoint replace the JALR first, and several stop_machine() with synchronize_rcu_tasks() between them if text may
not change while it is executed; what its handler does, and how the other parts follow, is the lab's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeGuard

from ...build.assemble import assemble
from ...ftrace.arch.riscv64 import flush
from ...ftrace.steps import INSTRUCTION, Step, Sync, Wait, Write, pointer, text, word
from ...isa.riscv64 import C_EBREAK, CALL_T0, EBREAK
from ..subject import FixUp, Planned, Subject, replanned

_PARCEL, _HALF, _PAIR = 2, 4, 8
#: From the first byte of the module area to the target of a direct call: not where ftrace_caller lies in its 4 KiB.
_ELSEWHERE = 0x940
_GOES_ON = "jr t0"


def leading_elsewhere(subject: Subject) -> Subject:
    """A plan by which a site that calls ftrace_caller comes to call a direct call's target in the module area."""
    machine = subject.machine
    target, code = machine.places.modules.address + _ELSEWHERE, assemble(machine.isa, _GOES_ON)
    machine.poke(target, code)
    pair = CALL_T0.encode(subject.entry, target)
    steps: list[Planned] = [
        Wait(Sync.STOP_MACHINE, "every other hart waits"),
        text(subject.entry, pair, "the site calls the direct call's target", INSTRUCTION),
        Wait(Sync.FENCE_I, "every hart refetches and continues"),
    ]
    ops = [dataclasses.replace(o, off=0) for o in subject.ops]  # the plan drops it without unregistering it
    made = [*subject.made, (target, len(code), "direct_trampoline")]
    return dataclasses.replace(subject, steps=steps, ops=ops, made=made, targets=subject.targets | {target})


def trapping(subject: Subject) -> Subject:
    """A plan with C.EBREAK, a parcel of two bytes, in place of the second instruction, then of the first. What changes later is
    written in parcels, too: a fetch that finds parts of two instructions finds a breakpoint, the old instruction or the new one.
    The guest's handler goes on behind the pair. Before the second one changes, every task has left the place between the two."""

    def steps(site: Write) -> list[Planned]:
        first, second = site.data[:_HALF], site.data[_HALF:]
        at, behind = site.address, site.address + _HALF
        return [
            *_announced(subject, site),
            _trap(behind, "second"),
            *flush("every hart executes the breakpoint"),
            _trap(at, "first"),
            *flush("every hart executes both breakpoints"),
            text(at + _PARCEL, first[_PARCEL:], f"the first instruction's second parcel, {site.why}", INSTRUCTION),
            *flush("every hart finds the first instruction's tail"),
            text(at, first[:_PARCEL], f"the first instruction's first parcel, {site.why}", INSTRUCTION),
            *flush("every hart executes the first instruction"),
            Wait(Sync.RCU_TASKS, "nobody stands between the two"),
            text(behind + _PARCEL, second[_PARCEL:], f"the second instruction's second parcel, {site.why}", INSTRUCTION),
            *flush("every hart finds the second instruction's tail"),
            text(behind, second[:_PARCEL], f"the second instruction's first parcel, {site.why}", INSTRUCTION),
            *flush("every hart executes the second instruction"),
        ]

    return _trapped(subject, steps)


def trapping_whole(subject: Subject) -> Subject:
    """The plan of trapping() with an EBREAK of four bytes in place of the second instruction only, and whole instructions
    written."""

    def steps(site: Write) -> list[Planned]:
        first, second = site.data[:_HALF], site.data[_HALF:]
        behind = site.address + _HALF
        return [
            *_announced(subject, site),
            text(behind, EBREAK, "a breakpoint in place of the second instruction", INSTRUCTION),
            *flush("every hart executes the breakpoint"),
            text(site.address, first, f"the first instruction of {site.why}", INSTRUCTION),
            *flush("every hart executes the first instruction"),
            Wait(Sync.RCU_TASKS, "nobody stands between the two"),
            text(behind, second, f"the second instruction of {site.why}", INSTRUCTION),
            *flush("every hart executes the second instruction"),
        ]

    return _trapped(subject, steps)


def trapping_stopped(subject: Subject) -> Subject:
    """The plan as the mail has it: each step with the machine stopped; the wait for tasks, impossible then, is between two
    stops."""

    def stopped(step: Write) -> list[Planned]:
        return [Wait(Sync.STOP_MACHINE, "every other hart waits"), step, Wait(Sync.FENCE_I, "every hart refetches and continues")]

    def steps(site: Write) -> list[Planned]:
        first, second = site.data[:_HALF], site.data[_HALF:]
        behind = site.address + _HALF
        return [
            *_announced(subject, site),
            *stopped(_trap(behind, "second")),
            *stopped(text(site.address, first, f"the first instruction of {site.why}", INSTRUCTION)),
            Wait(Sync.RCU_TASKS, "nobody stands between the two"),
            *stopped(text(behind, second, f"the second instruction of {site.why}", INSTRUCTION)),
        ]

    return _trapped(subject, steps)


def putting_back(subject: Subject) -> Subject:
    """A plan with stop_machine() as it is, and a thread that would resume at the second instruction resumes at the first: in every
    set of registers that it has saved, as the handler of an exception that interrupted it there may be there again."""
    return _put_back(subject, every=True)


def putting_back_newest(subject: Subject) -> Subject:
    """The plan of putting_back(), in the newest set of registers only."""
    return _put_back(subject, every=False)


def _put_back(subject: Subject, every: bool) -> Subject:
    def steps(site: Write) -> list[Planned]:
        why = "threads between the two are put back before both"
        return [site, FixUp(site.address + _HALF, site.address, why, every)]

    return dataclasses.replace(_replaced(subject, steps, stops=True), nests=1)


def _trap(address: int, which: str) -> Write:
    return text(address, C_EBREAK, f"a breakpoint in place of the {which} instruction", INSTRUCTION)


def _announced(subject: Subject, site: Write) -> list[Planned]:
    """The steps before a breakpoint: they tell the guest's handler in which pair it is."""
    if not subject.vector:
        return []
    at = subject.machine.image.address("lab_pair")
    why = "the handler finds the pair before its breakpoint is met"
    return [word(at, site.address, f"the pair that changes, {site.why}"), Wait(Sync.WMB, why)]


def _trapped(subject: Subject, steps: Callable[[Write], list[Planned]]) -> Subject:
    """A plan with these steps, whose breakpoints the guest's handler takes and goes on behind the pair; a real kernel has no such
    handler, so a thread there goes on at once."""
    pairs = [s for s in subject.steps if _is_pair(s)]
    skips = {s.address + at: s.address + _PAIR for s in pairs for at in (0, _HALF)}
    if subject.vector:
        address = subject.machine.image.address
        subject.machine.write(address("lab_trap_handler"), pointer(address("lab_trap_pair")))
    return dataclasses.replace(_replaced(subject, steps, stops=False), skips=skips)


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
