"""Counts of a run: instructions and memory traffic, by component and by symbol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import add, attrgetter, sub

from . import decode
from .machine import Machine
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
        return Counts(*map(add, _VALUES(self), _VALUES(other)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*map(sub, _VALUES(self), _VALUES(other)))

    def as_dict(self) -> dict[str, int]:
        return dict(zip(_NAMES, _VALUES(self), strict=True))


_NAMES = tuple(f.name for f in fields(Counts))
_VALUES = attrgetter(*_NAMES)


@dataclass(frozen=True)
class RunCounts:
    """The counts of one run, split two ways; both sum to `total`."""

    by_component: dict[str, Counts]
    by_symbol: dict[str, Counts]

    @property
    def total(self) -> Counts:
        return sum(self.by_component.values(), Counts())


def count(
    machine: Machine, tally: Tally, component_of: Callable[[int], str], symbol_of: Callable[[int], str]
) -> RunCounts:
    """Weigh a tally with what its instructions do.

    component_of and symbol_of name what an address belongs to. Raises TramplabError at an instruction whose accesses are
    in no table.
    """
    sums: dict[tuple[str, str], list[int]] = {}
    for pc, (times, taken) in tally.issued.items():
        i = machine.instruction_at(pc)
        a = i.accesses or decode.known_accesses(machine.isa, pc, i.data)
        s = sums.setdefault((component_of(pc), symbol_of(pc)), [0] * 6)
        s[0] += times
        s[1] += times * a.loads
        s[2] += times * a.stores
        s[3] += times * a.load_bytes
        s[4] += times * a.store_bytes
        s[5] += taken
    components, symbols = dict.fromkeys(COMPONENTS, Counts()), {}
    for (component, symbol), s in sums.items():
        components[component] = components.get(component, Counts()) + Counts(*s)
        symbols[symbol] = symbols.get(symbol, Counts()) + Counts(*s)
    return RunCounts(components, symbols)
