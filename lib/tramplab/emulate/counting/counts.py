"""Counts of a run: instructions and memory traffic, by component and by symbol."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import add, attrgetter, sub

from ...isa import Isa
from .. import decode
from ..decode import Instruction
from .counters import Tally

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
        return Counts(*map(add, _VALUES(self), _VALUES(other)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*map(sub, _VALUES(self), _VALUES(other)))

    def as_dict(self) -> dict[str, int]:
        """The counts by their names."""
        return dict(zip(_NAMES, _VALUES(self), strict=True))


_NAMES = tuple(f.name for f in fields(Counts))
_VALUES = attrgetter(*_NAMES)


class RunCounts:
    """The counts of one run, split two ways; both sum to `total`.

    weights: per address, its share of each field of Counts. component_of and symbol_of name what an address belongs to.
    """

    def __init__(
        self, weights: dict[int, tuple[int, ...]], component_of: Callable[[int], str], symbol_of: Callable[[int], str]
    ) -> None:
        self._weights, self._symbol_of = weights, symbol_of
        self.by_component: dict[str, Counts] = {**dict.fromkeys(COMPONENTS, Counts()), **self.by(component_of)}

    @functools.cached_property
    def by_symbol(self) -> dict[str, Counts]:
        """Counts of each symbol that was executed."""
        return self.by(self._symbol_of)

    @property
    def total(self) -> Counts:
        """Counts of the whole run."""
        return sum(self.by_component.values(), Counts())

    @property
    def outside(self) -> Counts:
        """Counts of all but the traced function, and of what is called in its place: what a hook can change."""
        return self.total - self.by_component["function"]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunCounts):
            return NotImplemented
        return (self.by_component, self.by_symbol) == (other.by_component, other.by_symbol)

    def __repr__(self) -> str:
        return f"RunCounts(by_component={self.by_component}, by_symbol={self.by_symbol})"

    def by(self, name_of: Callable[[int], str]) -> dict[str, Counts]:
        """Name -> counts of all addresses that name_of gives this name."""
        parts: dict[str, list[tuple[int, ...]]] = {}
        for pc, weight in self._weights.items():
            parts.setdefault(name_of(pc), []).append(weight)
        return {name: Counts(*map(sum, zip(*weights, strict=True))) for name, weights in parts.items()}


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
    weights: dict[int, tuple[int, ...]] = {}
    for pc, (times, taken) in tally.issued.items():
        a = decode.accesses_of(isa, instructions[pc])
        if instructions[pc].repeated:  # each round led back to it, and the end of the last one did not
            issued, rounds, left = times - taken, taken, 0
        else:
            issued, rounds, left = times, times, taken
        weights[pc] = (issued, rounds * a.loads, rounds * a.stores, rounds * a.load_bytes, rounds * a.store_bytes, left)
    return RunCounts(weights, component_of, symbol_of)
