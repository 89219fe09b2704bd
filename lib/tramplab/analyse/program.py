"""A recorded call made ready for a pipeline: one item per instruction, and where each load's bytes come from.

The call is repeated by the loop that a native run has: constants into all argument registers, the call, count, branch
back. Every repetition touches the same addresses, so which store a load gets its bytes from is known before anything is
timed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..emulate.decode import Instruction
from ..emulate.trace import Issued
from ..errors import TramplabError
from ..isa import Isa
from .call import RecordedCall
from .operations import ALU, BRANCH, CONSTANT, FLAGS, Operation, arm64, riscv64, x86_64

_TABLES = {"x86_64": x86_64.operation, "arm64": arm64.operation, "riscv64": riscv64.operation}

#: The loop's counter, as a register that no ISA has.
_COUNT = "loop count"


class Source(NamedTuple):
    """Where a load's bytes come from.

    stores: the last to write any of them, by number among the stores of a repetition, -1 - number if of the repetition
    before; none if memory has held them for longer. whole: one store wrote them all, or none wrote any. exact: they are
    all that it wrote.
    """

    stores: tuple[int, ...]
    whole: bool
    exact: bool


@dataclass(frozen=True)
class Item:
    """One instruction of a repetition.

    loads: a source per load. stores: how many. taken: does it end up elsewhere than at the next instruction? step: its
    index in the call, None for the loop's own. unsynced: the stack pointer is used by name after having been moved by
    pushes, pops, calls or returns.
    """

    operation: Operation
    loads: tuple[Source, ...]
    stores: int
    taken: bool
    step: int | None
    unsynced: bool = False


@dataclass(frozen=True, eq=False)
class Program:
    """One repetition: its items, how many stores they make, and the call they are of."""

    call: RecordedCall
    items: tuple[Item, ...]
    stores: int


@functools.lru_cache(maxsize=256)
def program(call: RecordedCall) -> Program:
    """Prepare a call; raises TramplabError at an instruction that is in no table."""
    isa = call.isa
    known = {pc: operation_of(isa, i) for pc, i in call.instructions.items()}
    pushed = ((call.steps[0].sp, isa.call_pushes, True),) if isa.call_pushes else ()
    before = [Operation(CONSTANT, writes=(register,)) for register in isa.args]
    steps = [*(Issued(0, 0, ()) for _ in before), Issued(0, 0, pushed), *call.steps]
    operations = [
        *before,
        Operation(BRANCH, writes=(isa.link,) if isa.link else (), stack=isa.link is None, call=True),
        *(known[s.pc] for s in call.steps),
        Operation(ALU, (_COUNT,), (), (_COUNT, FLAGS), compares=True),
        Operation(BRANCH, (FLAGS,), conditional=True),
    ]
    behind = [s.pc + call.instructions[s.pc].size for s in call.steps]
    taken = [False] * len(before) + [
        True,
        *(b != d for b, d in zip(behind, call.destinations(), strict=True)),
        False,
        True,
    ]
    sources = _sources(steps)
    items, stores = [], 0
    for n, operation in enumerate(operations):
        accesses = steps[n].accesses if n < len(steps) else ()
        loads = tuple(next(sources) for _, _, is_store in accesses if not is_store)
        written = sum(is_store for *_, is_store in accesses)
        step = n - len(before) - 1
        items.append(Item(operation, loads, written, taken[n], step if 0 <= step < len(call.steps) else None))
        stores += written
    return Program(call, tuple(_synced(items, isa)), stores)


def operation_of(isa: Isa, i: Instruction) -> Operation:
    """What an instruction is to a pipeline; raises TramplabError if it is in no table."""
    found = _TABLES[isa.name](i.mnemonic, i.operands)
    if found is None:
        raise TramplabError(
            f"cannot estimate {f'{i.mnemonic} {i.operands}'.strip()!r} at {i.address:#x}: it is in no table of "
            f"{Operation.__module__}.{isa.name}; add it there."
        )
    return found


def _sources(steps: list[Issued]) -> Iterator[Source]:
    """The source of every load of a repetition, in order, found in the second of two."""
    writers: dict[int, int] = {}  # byte -> its last store, counted over both
    extents: list[tuple[int, int]] = []  # address and size of each store
    per_repetition = sum(is_store for s in steps for *_, is_store in s.accesses)
    found: list[Source] = []
    for _ in range(2):
        found.clear()
        for address, size, is_store in (access for s in steps for access in s.accesses):
            span = range(address, address + size)
            if is_store:
                writers.update(dict.fromkeys(span, len(extents)))
                extents.append((address, size))
            else:
                of = {writers.get(byte) for byte in span}
                known = sorted(n for n in of if n is not None)
                numbers = tuple(n - per_repetition if n >= per_repetition else -1 - n for n in known)
                found.append(Source(numbers, len(of) == 1, [extents[n] for n in known] == [(address, size)]))
    return iter(found)


def _synced(items: list[Item], isa: Isa) -> Iterator[Item]:
    """The items, with those marked that name the stack pointer after it was moved by an access."""
    moved = False
    for item in items:
        o = item.operation
        names = not o.stack and isa.sp in (*o.reads, *o.address, *o.writes, *o.bumps)
        yield Item(item.operation, item.loads, item.stores, item.taken, item.step, names and moved)
        moved = o.stack or (moved and not names)
