"""A program with a core's numbers filled in: slots, ports and latencies instead of names, ready to be timed."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

from . import operations as op
from .cores import Core
from .operations import Operation
from .program import Item, Program, Source

#: The operations that need a port besides those of their accesses.
_USES = {
    op.MOVE: "alu",
    op.CONSTANT: "alu",
    op.ALU: "alu",
    op.READ: "alu",
    op.MULTIPLY: "multiply",
    op.DIVIDE: "divide",
    op.BRANCH: "branch",
}
_LATENCIES = {op.MULTIPLY: "multiply", op.DIVIDE: "divide", op.ATOMIC: "atomic", op.READ: "read"}
_WAITS = {op.BARRIER: "barrier", op.EXCEPTION: "exception"}
_KEEPS = {op.PUSH_FLAGS: "push_flags", op.POP_FLAGS: "pop_flags"}
#: An in-order core with a late stage runs these there if their operands were not there earlier.
_CAN_BE_LATE = {op.NONE, op.MOVE, op.CONSTANT, op.ALU, op.BRANCH}


class Load(NamedTuple):
    """A load: the stores its bytes are from (see program.Source), cycles from their data, cycles from the address."""

    stores: tuple[int, ...]
    forward: int
    latency: int


class Lowered(NamedTuple):
    """An operation with the numbers of one core filled in.

    bubble: cycles without slots after a taken branch, -1 for an instruction that is none.
    keeps: cycles for which the front end stalls.
    load_cycles, store_cycles: how many cycles a port is busy with its accesses.
    barrier: cycles that it waits for everything older.
    """

    step: int | None
    slots: int
    bubble: int
    keeps: int
    address: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    bumps: tuple[int, ...]
    ports: int
    latency: int
    loads: tuple[Load, ...]
    load_cycles: int
    stores: int
    store_cycles: int
    barrier: int
    atomic: bool
    can_be_late: bool


@dataclass(frozen=True)
class LoweredProgram:
    """A program with the numbers of one core filled in.

    values: the core's parameters.
    accesses: the ports of loads, stores, store data and the additions that move a base register.
    numbers: register -> number.
    stores: how many a repetition makes.
    asked: per item, the names of the parameters that were filled in. Other parameters do not affect this program, except those that
        the pipeline itself looks up.
    """

    items: tuple[Lowered, ...]
    values: dict[str, int]
    accesses: dict[str, int]
    numbers: dict[str, int]
    stores: int
    asked: tuple[frozenset[str], ...]

    @functools.cached_property
    def asking(self) -> dict[str, list[int]]:
        """Every parameter that was filled in -> the items, by number, in which it was."""
        items_by_name: dict[str, list[int]] = {}
        for n, names in enumerate(self.asked):
            for name in names:
                items_by_name.setdefault(name, []).append(n)
        return items_by_name


def lower(program: Program, core: Core, values: dict[str, int]) -> LoweredProgram:
    """Fill in a core's parameters, with the values given for them."""
    lowering = _Lowering(program, core, values, {})
    items, asked = zip(*map(lowering.item, range(len(program.items))), strict=True)
    accesses: dict[str, int] = {use: lowering.ports[use] for use in ("load", "store", "store_data", "alu") if use in lowering.ports}
    return LoweredProgram(items, values, accesses, lowering.numbers, program.stores, asked)


def changed(lowered: LoweredProgram, program: Program, core: Core, parameter: str, value: int) -> LoweredProgram:
    """What lower() makes with another value of one parameter, from `lowered`; items that do not ask for it are kept."""
    lowering = _Lowering(program, core, {**lowered.values, parameter: value}, lowered.numbers)
    items, asked = list(lowered.items), list(lowered.asked)
    for n in lowered.asking.get(parameter, ()):
        items[n], asked[n] = lowering.item(n, items[n])
    return replace(lowered, items=tuple(items), values=lowering.values, asked=tuple(asked))


class _Registers(NamedTuple):
    """The registers of a Lowered operation."""

    address: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    bumps: tuple[int, ...]


class _Lowering:
    def __init__(self, program: Program, core: Core, values: dict[str, int], numbers: dict[str, int]) -> None:
        self.program, self.values, self.numbers = program, values, numbers
        self.looked_up: set[str] = set()
        bits = {port: 1 << n for n, port in enumerate(core.ports)}
        self.ports: dict[str, int] = {use: sum(bits[p] for p in ports) for use, ports in core.uses.items()}

    def item(self, n: int, known: Lowered | None = None) -> tuple[Lowered, frozenset[str]]:
        """The nth item, and the names of the parameters that were filled in. known: the item with other values, whose registers
        are kept, as they depend on no parameter."""
        self.looked_up = set()
        item, previous = self.program.items[n], self.program.items[n - 1].operation if n else Operation()
        fused = self._has("fused_compare") and item.operation.conditional and previous.compares
        return self._item(item, fused, self._registers(item.operation) if known is None else known), frozenset(self.looked_up)

    def _item(self, item: Item, fused: bool, registers: _Registers | Lowered) -> Lowered:
        o, v = item.operation, self._value
        free = fused or (o.unit == op.MOVE and self._has("moves_free"))
        far = o.call or o.returns or o.indirect
        atomic = o.unit == op.ATOMIC
        return Lowered(
            step=item.step,
            slots=0 if fused else self._slots(item),
            bubble=v("call_bubble" if far else "taken_bubble") if item.taken else -1,
            keeps=v(_KEEPS[o.unit]) if o.unit in _KEEPS else 0,
            address=registers.address,
            reads=registers.reads,
            writes=registers.writes,
            bumps=registers.bumps,
            ports=0 if free or o.unit not in _USES else self.ports[_USES[o.unit]],
            latency=0 if free else self._latency(o.unit),
            loads=tuple(self._load(source, atomic) for source in item.loads),
            load_cycles=min(len(item.loads), 1) if atomic else self._port_cycles("pair_load", len(item.loads)),
            stores=item.stores,
            store_cycles=0 if atomic else self._port_cycles("pair_store", item.stores),
            barrier=v(_WAITS[o.unit]) if o.unit in _WAITS else 0,
            atomic=atomic,
            can_be_late=o.unit in _CAN_BE_LATE,
        )

    def _latency(self, unit: str) -> int:
        if unit in _LATENCIES:
            return self._value(_LATENCIES[unit])
        return 0 if unit in (op.NONE, op.BARRIER, op.EXCEPTION) else 1

    def _port_cycles(self, of_a_pair: str, accesses: int) -> int:
        return self._value(of_a_pair) if accesses == 2 else accesses

    def _slots(self, item: Item) -> int:
        o, v = item.operation, self._value
        if o.call:
            slots = v("slots_call")
        elif o.returns:
            slots = v("slots_return")
        elif len(item.loads) == 2 or item.stores == 2:
            slots = v("slots_pair")
        elif item.loads and item.stores and o.unit != op.ATOMIC:
            slots = v("slots_update")
        else:
            slots = 1
        return slots + (v("slots_writeback") if o.bumps else 0) + (v("stack_sync") if item.unsynced else 0)

    def _load(self, source: Source, atomic: bool) -> Load:
        v = self._value
        if atomic:
            return Load(source.stores, 0, 0)  # `atomic` is all it takes
        if not source.whole:
            return Load(source.stores, v("forward_failed"), v("load"))
        if source.exact and "forward_renamed" in self.values:
            return Load(source.stores, v("forward_renamed"), min(v("load"), v("forward_renamed")))
        return Load(source.stores, v("forward"), v("load"))

    def _has(self, name: str) -> bool:
        return name in self.values and bool(self._value(name))

    def _value(self, name: str) -> int:
        self.looked_up.add(name)
        return self.values[name]

    def _registers(self, o: Operation) -> _Registers:
        address = (*o.address, self.program.call.isa.sp) if o.stack else o.address
        return _Registers(*map(self._numbers, (address, o.reads, o.writes, o.bumps)))

    def _numbers(self, registers: tuple[str, ...]) -> tuple[int, ...]:
        return tuple([self.numbers.setdefault(r, len(self.numbers)) for r in registers])
