"""One call, watched from outside after every instruction: which registers changed, and what was written to memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import TramplabError
from . import trouble
from .machine import RECORD, Machine
from .meter import INSTRUCTION, STORE

LONGEST = 5_000  # steps: a walk is for reading


@dataclass(frozen=True)
class Moment:
    """One instruction: its address, the registers it changed, and its stores as (address, size, value)."""

    pc: int
    changed: dict[str, int]
    stores: tuple[tuple[int, int, int], ...]


def walk(
    machine: Machine, address: int, registers: dict[str, int], stack: list[int] = ()
) -> tuple[dict[str, int], list[Moment]]:
    """Call a function as Machine.call does, an instruction at a time: the registers at its start, and the moments.

    Needs the meter "record". Raises GuestFault, and TramplabError for a call of more than 5000 instructions.
    """
    if machine.meter != RECORD:
        raise TramplabError("to walk through a call, make the Kernel with meter='record'.")
    machine.enter(registers, stack)
    pc_name = machine.isa.pc
    start = before = {**machine.registers(), pc_name: address}
    moments: list[Moment] = []
    while before[pc_name] != machine.return_to:
        if len(moments) == LONGEST:
            raise TramplabError(f"the call has more than {LONGEST} instructions; walk through a shorter one.")
        if not machine.step(machine.return_to, before[pc_name]):
            raise trouble.fault(machine, "the walk ended")
        after = machine.registers()
        changed = {name: value for name, value in after.items() if name != pc_name and value != before[name]}
        moments.append(Moment(before[pc_name], changed, _stores(machine)))
        before = after
    return start, moments


def _stores(machine: Machine) -> tuple[tuple[int, int, int], ...]:
    """What the instruction just stepped over left in memory; what the next one would do is not in the recording."""
    events = machine.events().tolist()
    issued = [i for i, event in enumerate(events) if event[4] == INSTRUCTION]
    own = events[: issued[1]] if len(issued) > 1 else events
    found = []
    for _, address, _, size, kind in own:
        if kind == STORE:
            found.append((address, size, int.from_bytes(machine.read(address, size), "little")))
    return tuple(found)
