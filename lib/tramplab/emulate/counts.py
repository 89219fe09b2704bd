"""Counts of a run: instructions and memory traffic, by component and by symbol."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields

from ..isa import Isa
from . import decode
from .decode import Instruction
from .meter import Tally

#: The order of components everywhere: what a call meets on its way.
COMPONENTS = ("site", "trampoline", "core", "callback", "function")


@dataclass(frozen=True)
class Counts:
    """Instructions, accesses of at most 8 bytes, bytes moved, and branches that were taken."""

    instructions: int = 0
    loads: int = 0
    stores: int = 0
    load_bytes: int = 0
    store_bytes: int = 0
    branches_taken: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class RunCounts:
    """The counts of one run, split two ways; both sum to `total`."""

    by_component: dict[str, Counts]
    by_symbol: dict[str, Counts]

    @property
    def total(self) -> Counts:
        return sum(self.by_component.values(), Counts())


def count(
    isa: Isa,
    tally: Tally,
    instructions: dict[int, Instruction],
    component_of: Callable[[int], str],
    symbol_of: Callable[[int], str],
) -> RunCounts:
    """Weigh a tally with what its instructions do.

    component_of and symbol_of name what an address belongs to. Raises TramplabError at an instruction whose accesses are
    in no table.
    """
    components: dict[str, list[int]] = {c: [0] * 6 for c in COMPONENTS}
    symbols: dict[str, list[int]] = {}
    for pc, (times, taken) in tally.issued.items():
        a = decode.accesses_of(isa, instructions[pc])
        row = (times, times * a.loads, times * a.stores, times * a.load_bytes, times * a.store_bytes, taken)
        for sums in (components.setdefault(component_of(pc), [0] * 6), symbols.setdefault(symbol_of(pc), [0] * 6)):
            sums[:] = map(operator.add, sums, row)
    return RunCounts({c: Counts(*s) for c, s in components.items()}, {n: Counts(*s) for n, s in symbols.items()})
