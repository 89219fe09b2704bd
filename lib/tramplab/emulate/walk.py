"""One call, watched from outside after every instruction: registers that changed, memory that was read and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..base.errors import TramplabError
from . import trouble
from .counting.counters import INSTRUCTION, STORE
from .machine import RECORD, Machine

LONGEST = 5_000  # steps: a walk is for reading

#: An access: address, size in bytes, value (None for a load of what the same instruction then overwrote).
Access = tuple[int, int, int | None]


@dataclass(frozen=True)
class Moment:
    """One instruction: its address, the registers it changed with their new values, its stores, and its loads."""

    pc: int
    changed: dict[str, int]
    stores: tuple[Access, ...]
    loads: tuple[Access, ...]


def walk(
    machine: Machine, address: int, registers: dict[str, int], stack: Sequence[int] = ()
) -> tuple[dict[str, int], list[Moment]]:
    """Call a function as Machine.call does, an instruction at a time: the registers at its start, and the moments.

    Needs the meter "record". Raises GuestFault, and TramplabError for a call of more than 5000 instructions.
    """
    if machine.meter != RECORD:
        raise TramplabError("to walk through a call, make the Kernel with meter='record'.")
    states = stepping(machine, address, registers, stack)
    start = before = next(states)
    pc_name = machine.isa.pc
    moments: list[Moment] = []
    for after in states:
        if len(moments) == LONGEST:
            raise TramplabError(f"the call has more than {LONGEST} instructions; walk through a shorter one.")
        changed = {name: value for name, value in after.items() if name != pc_name and value != before[name]}
        moments.append(Moment(before[pc_name], changed, *accesses(machine)))
        before = after
    return start, moments


def stepping(
    machine: Machine, address: int, registers: dict[str, int], stack: Sequence[int] = ()
) -> Iterator[dict[str, int]]:
    """Call a function as Machine.call does, an instruction at a time: the registers before each, and those at the end.

    Needs a meter. Raises GuestFault.
    """
    machine.enter(registers, stack)
    pc_name = machine.isa.pc
    now = {**machine.registers(), pc_name: address}
    yield now
    while now[pc_name] != machine.return_to:
        if not machine.step(machine.return_to, now[pc_name]):
            raise trouble.fault(machine.situation(), "the walk ended")
        now = machine.registers()
        yield now


def accesses(machine: Machine) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
    """Stores and loads of the instruction just stepped over."""
    events = [event for event in machine.events().tolist() if event[4] != INSTRUCTION]
    overwritten = {a + n for _, a, _, size, kind in events if kind == STORE for n in range(size)}
    stores, loads = [], []
    for _, address, _, size, kind in events:
        value = int.from_bytes(machine.read(address, size), "little")
        if kind == STORE:
            stores.append((address, size, value))
        else:
            kept = overwritten.isdisjoint(range(address, address + size))
            loads.append((address, size, value if kept else None))
    return tuple(stores), tuple(loads)
