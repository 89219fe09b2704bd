"""A recorded call made ready for a pipeline: one item per instruction, and where each load's bytes come from.

The call is repeated by the loop that a native run has: constants into all argument registers, the call, count, branch
back. Every repetition touches the same addresses, so which store a load gets its bytes from is known before anything is
timed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..base.errors import TramplabError
from ..emulate.counting.trace import Issued
from ..emulate.decode import Instruction
from ..isa import Isa
from ..lab.call import RecordedCall
from .operations import ALU, BRANCH, CONSTANT, FLAGS, Operation, arm64, riscv64, x86_64

_TABLES = {
    name: functools.lru_cache(1 << 14)(module.operation)
    for name, module in (("x86_64", x86_64), ("arm64", arm64), ("riscv64", riscv64))
}

#: The loop's counter, as a register that no ISA has.
_COUNT = "loop count"


class Source(NamedTuple):
    """The stores that a load depends on.

    stores: the last to write any of its bytes, by number among the stores of a repetition, -1 - number if of the repetition before;
        none if memory has held them for longer.
    whole: one store wrote all of them, or none wrote any.
    exact: they are all that the store wrote.
    """

    stores: tuple[int, ...]
    whole: bool
    exact: bool


class Item(NamedTuple):
    """One instruction of a program.

    loads: a Source per load.
    stores: how many.
    taken: does execution continue elsewhere than at the next instruction?
    step: its index in the call, None for the loop's own.
    unsynced: the stack pointer is named after pushes, pops, calls or returns have moved it.
    """

    operation: Operation
    loads: tuple[Source, ...]
    stores: int
    taken: bool
    step: int | None
    unsynced: bool


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
    unsynced = _unsynced(operations, isa.sp)
    items, stores, first = [], 0, len(before) + 1
    for n, operation in enumerate(operations):
        accesses = steps[n].accesses if n < len(steps) else ()
        loads = tuple([next(sources) for _, _, is_store in accesses if not is_store]) if accesses else ()
        written = len(accesses) - len(loads)
        items.append(Item(operation, loads, written, taken[n], n - first if first <= n < len(steps) else None, next(unsynced)))
        stores += written
    return Program(call, tuple(items), stores)


def operation_of(isa: Isa, i: Instruction) -> Operation:
    """The operation that an instruction is to a pipeline; raises TramplabError if it is in no table."""
    operation = _TABLES[isa.name](i.mnemonic, i.operands)
    if operation is None:
        raise TramplabError(
            f"cannot estimate {f'{i.mnemonic} {i.operands}'.strip()!r} at {i.address:#x}: it is in no table of "
            f"{Operation.__module__}.{isa.name}; add it there."
        )
    return operation


def _sources(steps: list[Issued]) -> Iterator[Source]:
    """The source of every load of a repetition, in order, found in the second of two: of the first its stores matter."""
    accesses = [access for s in steps for access in s.accesses]
    extents = [(address, size) for address, size, is_store in accesses if is_store]
    writers: dict[int, int] = {}  # byte -> its last store; those of the first repetition are -1 and less
    for n, (address, size) in enumerate(extents):
        writers.update(dict.fromkeys(range(address, address + size), -1 - n))
    stores = 0
    for address, size, is_store in accesses:
        span = range(address, address + size)
        if is_store:
            writers.update(dict.fromkeys(span, stores))
            stores += 1
        else:
            of = set(map(writers.get, span))
            numbers = sorted([n for n in of if n is not None], key=lambda n: (n >= 0, abs(n)))
            exact = len(numbers) == 1 and extents[max(numbers[0], ~numbers[0])] == (address, size)
            yield Source(tuple(numbers), len(of) == 1, exact)


def _unsynced(operations: Iterable[Operation], sp: str) -> Iterator[bool]:
    """For each operation, whether it names the stack pointer after an access has moved that."""
    moved = False
    for o in operations:
        names = not o.stack and (sp in o.reads or sp in o.address or sp in o.writes or sp in o.bumps)
        yield names and moved
        moved = o.stack or (moved and not names)
