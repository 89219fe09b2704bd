"""Which cores' models are usable: each is compared with what was timed on such a core.

data/cores/*.yml names the measured sets by which a core is judged, and of each the cases that set some of the core's parameters;
data/core-cases.json has every case, measured and estimated (see studies.time.core_cases, which makes it). Only the cases that set
no parameter judge. Whatever prints estimated cycles asks usable() first.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from ..errors import TramplabError
from ..schema import facts
from . import cores
from .cycles import BAND

FILE = "core-cases.json"
#: A core is usable where at least this part of the cases lies in the band, and ranks are at least so well correlated.
INSIDE, RANKED = 0.8, 0.9
#: Fewer cases of a set than these are not ranked.
FEWEST = 5


@dataclass(frozen=True)
class Case:
    """One comparison. measured, estimate: of what a hook adds, in cycles, or in multiples of what another hook adds. sets: did it
    set a parameter of the core?"""

    core: str
    set: str
    case: str
    measured: float
    estimate: float
    sets: bool

    @property
    def inside(self) -> bool:
        """Is what was measured in the estimate's band?"""
        return abs(self.measured - self.estimate) <= BAND * self.estimate

    @property
    def off(self) -> float:
        """How far off the estimate is, as a part of what was measured."""
        return self.estimate / self.measured - 1


@dataclass(frozen=True)
class Verdict:
    """What the cases say of one core.

    cases: how many judge it. inside: how many of these lie in the band. error: the median of what estimates are off. rank: the
    least rank correlation of its sets; None where no set has FEWEST cases.
    """

    core: str
    cases: int
    inside: int
    error: float | None
    rank: float | None

    @property
    def usable(self) -> bool:
        """May its estimates be shown?"""
        return self.rank is not None and self.rank >= RANKED and self.inside >= INSIDE * self.cases

    @property
    def why(self) -> str:
        """The verdict in a sentence."""
        if not self.cases:
            return f"nothing was timed on a core of the kind of {self.core}."
        said = f"{self.inside} of {self.cases} measured times lie within {BAND:.0%} of what the model of {self.core} says"
        return said + (f", and the rank correlation is {self.rank:.2f}." if self.rank is not None else ", too few to rank them.")


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation; equal numbers share their mean rank.

    >>> spearman([1, 2, 3, 4], [10, 20, 30, 40]), spearman([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    """
    ranks = [pd.Series(list(values)).rank() for values in (a, b)]
    return float(ranks[0].corr(ranks[1]))


@functools.cache
def cases() -> tuple[Case, ...]:
    """All of data/core-cases.json."""
    return tuple(Case(**row) for row in facts(FILE, "core-cases"))


def judge(core: str, found: Iterable[Case]) -> Verdict:
    """The verdict of some cases on a core; those that set its parameters are left out."""
    own = [c for c in found if c.core == core and not c.sets]
    sets = [[c for c in own if c.set == name] for name in dict.fromkeys(c.set for c in own)]
    ranks = [spearman([c.measured for c in part], [c.estimate for c in part]) for part in sets if len(part) >= FEWEST]
    error = statistics.median(abs(c.off) for c in own) if own else None
    return Verdict(core, len(own), sum(c.inside for c in own), error, min(ranks) if ranks else None)


def verdict(core: str) -> Verdict:
    """What the saved cases say of a core."""
    return judge(cores.get(core).name, cases())


def usable(isa: str) -> list[cores.Core]:
    """The cores of an ISA whose estimates may be shown."""
    return [core for core in cores.cores().values() if core.isa == isa and verdict(core.name).usable]


def require(name: str, isa: str) -> cores.Core:
    """A core whose estimates may be shown; raises TramplabError for any other, with the reason."""
    core = cores.get(name, isa)
    if (found := verdict(name)).usable:
        return core
    good = ", ".join(c.name for c in usable(isa)) or "no core"
    raise TramplabError(f"no cycles are estimated for {name}: {found.why} Usable for {isa}: {good} (see `tramplab cores`).")
