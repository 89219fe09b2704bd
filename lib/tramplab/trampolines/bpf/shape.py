"""The order of things in a BPF trampoline, the same on every ISA; what each of them takes is the ISA's module's.

Stands for __arch_prepare_bpf_trampoline() of x86-64, arm64 and riscv64: save the arguments as an array, run the fentry
programs on it; if there are fmod_ret or fexit programs, run the fmod_ret ones, then the function itself, unless one of them
forbade it, past its patch site, then the fexit programs, and return to the caller; otherwise restore the arguments and go
on to the function.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from .code import Address, Call, Item, Label
from .plan import BpfProgram, TrampolinePlan
from .protocol import BpfArch

AFTER = "fexit"


def items(plan: TrampolinePlan, own: BpfArch) -> Iterator[Item]:
    """The trampoline in pieces; own: the ISA's module."""
    frame = own.frame(plan)
    yield from own.enter(plan, frame)
    if plan.calls_function and plan.guards:
        yield Address(own.FIRST, plan.image)
        yield Call(plan.guards.hold)
    skips = (f"skip{n}" for n in itertools.count(1))  # a label for each program
    for p in plan.fentry:
        yield from _run(plan, own, frame, p, next(skips))
    if plan.fmod_ret:
        yield own.clear_result(frame)
    for p in plan.fmod_ret:
        yield from _run(plan, own, frame, p, next(skips), keeps_result=True)
        yield from own.unless_zero(frame, AFTER)
    if plan.calls_function:
        yield from own.call_function(plan, frame)
        if not plan.program_nops:
            yield own.ROOM
    if plan.fmod_ret:
        yield from own.ALIGNED
    yield Label(AFTER)
    for p in plan.fexit:
        yield from _run(plan, own, frame, p, next(skips))
    if plan.calls_function and plan.guards:
        yield Address(own.FIRST, plan.image)
        yield Call(plan.guards.release)
    yield from own.leave(plan, frame)


def _run(plan: TrampolinePlan, own: BpfArch, frame: Any, p: BpfProgram, skip: str, keeps_result: bool = False) -> Iterator[Item]:
    """One program with the calls around it; it is skipped if the first of these says so."""
    if plan.program_nops:
        yield own.NOP
    if plan.guards:
        yield from own.cookie(plan, frame, p.cookie)
        yield from own.prog(p.struct, True)
        yield own.run_ctx(frame, own.SECOND)
        yield Call(plan.guards.enter)
        yield from own.started(skip)
    yield own.context(frame)
    yield Call(p.code)
    if keeps_result:
        yield own.keep_result(frame)
    if plan.guards:
        yield Label(skip)
        yield from own.prog(p.struct, False)
        yield own.start_time()
        yield own.run_ctx(frame, own.THIRD)
        yield Call(plan.guards.exit)
