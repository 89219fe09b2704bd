"""What went wrong in a guest, in one sentence: where, at which instruction, with which registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import GuestFault, StepLimit, TramplabError
from . import decode

if TYPE_CHECKING:
    from .machine import Machine

#: Instructions to watch a run that does not end, to see which loop it is in; names to show of it.
WATCHED, NAMED = 400, 6


def fault(machine: Machine, reason: str) -> GuestFault:
    """The error for a run that the CPU could not go on with; reason is the engine's word for it."""
    what = reason.split("(")[0].strip().lower()
    if machine.invalid_access:
        kind, address = machine.invalid_access
        what = f"{kind} {address:#x}"
        if machine.stack_guard[0] <= address < machine.stack_guard[1]:
            what += " (the stack is exhausted)"
    return GuestFault(f"guest fault on {machine.isa.name}: {what} {_situation(machine)}.")


def halted(machine: Machine) -> GuestFault:
    """The error for a run that ended before it returned, without a fault."""
    return GuestFault(f"the {machine.isa.name} guest stopped by itself {_situation(machine)}.")


def endless(machine: Machine, until: int, budget: int) -> StepLimit:
    """The error for a run that used up its instructions; watches it a little longer to name the loop."""
    where = _situation(machine)
    seen: dict[str, None] = {}
    for _ in range(WATCHED):
        seen.setdefault(_place(machine, machine.register(machine.isa.pc)).split("+")[0])
        if not machine.step(until):
            break
    loop = " -> ".join(list(seen)[:NAMED])
    return StepLimit(
        f"the {machine.isa.name} guest did not return within {budget} instructions and goes round in {loop}: "
        f"stopped {where}. Raise the limit if that is meant."
    )


def _situation(machine: Machine) -> str:
    """symbol+offset, the instruction, and the registers that matter to it.

    Behind a trap or a jump the pc is elsewhere already, so the place is that of the instruction issued last.
    """
    isa = machine.isa
    pc = machine.last_issued
    pc = machine.register(isa.pc) if pc is None else pc
    try:
        text = machine.instruction_at(pc).text
    except TramplabError:
        text = "no instruction there"
    named = decode.registers_in(text, isa)
    shown = dict.fromkeys([isa.pc, isa.sp, *([isa.link] if isa.link else []), *named])
    values = ", ".join(f"{r}={machine.register(r):#x}" for r in shown)
    return f"at {_place(machine, pc)} ({text}); {values}"


def _place(machine: Machine, pc: int) -> str:
    return machine.name_of(pc) or f"{pc:#x}"
