"""Which cores' models are usable: each is compared with what was timed on such a core.

data/cores/*.yml names the measured sets by which a core is judged, and of each the cases that set some of the core's parameters;
data/core-cases.json has every case, measured and estimated (tramplab_book's studies.time.core_cases makes it). Only the cases that
set no parameter judge. Whatever prints estimated cycles asks usable() first.
"""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ..base.entries import Entry, Text, facts
from ..base.errors import TramplabError
from ..isa import ISAS
from . import cores
from .cycles import BAND

FILE = "core-cases.json"
#: A core is usable where at least this part of the cases lies in the band, and ranks are at least so well correlated.
INSIDE, RANKED = 0.8, 0.9
#: The rule in a sentence, for tables of verdicts.
RULE = (
    f"A case is a time that was measured on such a core and set none of the model's parameters. In band: within {BAND:.0%} of "
    "the estimate. Error: the median. Rank: the least rank correlation of a set of times. A model is usable, and its estimates "
    "are shown, where "
    f"{INSIDE:.0%} of the cases are in the band and the rank correlation is at least {RANKED}."
)
#: The columns of a summary that are numbers.
NUMBERS = ("cases", "in band", "error", "rank")
#: Fewer cases of a set than these are not ranked.
FEWEST = 5


class Case(Entry, frozen=True):
    """One comparison of an estimate with a measurement.

    measured, estimate: what a hook adds, in cycles, or in multiples of what another hook adds.
    sets: was it used to set a parameter of the core?
    """

    core: Text
    set: Text
    case: Text
    measured: Annotated[float, Meta(gt=0, description="what is measured is more than 0")]
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
    """The result of all cases of one core.

    cases: how many judge it.
    inside: how many of these lie in the band.
    error: the median relative error of the estimates.
    rank: the lowest rank correlation of its sets; None where no set has FEWEST cases.
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
        share = f"{self.inside} of {self.cases} measured times lie within {BAND:.0%} of what the model of {self.core} says"
        return share + (f", and the rank correlation is {self.rank:.2f}." if self.rank is not None else ", too few to rank them.")


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation; equal numbers share their mean rank.

    >>> spearman([1, 2, 3, 4], [10, 20, 30, 40]), spearman([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    """
    return statistics.correlation(*(_ranks(list(values)) for values in (a, b)))


def _ranks(values: list[float]) -> list[float]:
    return [(sum(v < other for v in values) + sum(v <= other for v in values)) / 2 for other in values]


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases of data/core-cases.json."""
    return facts(FILE, tuple[Case, ...])


def judge(core: str, found: Iterable[Case]) -> Verdict:
    """The verdict of some cases on a core; those that set its parameters are left out."""
    judging = [c for c in found if c.core == core and not c.sets]
    sets = [[c for c in judging if c.set == name] for name in dict.fromkeys(c.set for c in judging)]
    ranks = [spearman([c.measured for c in part], [c.estimate for c in part]) for part in sets if len(part) >= FEWEST]
    error = statistics.median(abs(c.off) for c in judging) if judging else None
    return Verdict(core, len(judging), sum(c.inside for c in judging), error, min(ranks) if ranks else None)


def verdict(core: str) -> Verdict:
    """The verdict of the saved cases on a core."""
    return judge(cores.get(core).name, cases())


def summary(found: Iterable[Case]) -> list[dict[str, str]]:
    """A line per core, by ISA: how many cases judge it, how many of these lie in the band, the median error, the least rank
    correlation, and whether its estimates are shown."""
    found, every = tuple(found), sorted(cores.cores().values(), key=lambda core: [*ISAS].index(core.isa))
    lines = []
    for v, core in ((judge(core.name, found), core) for core in every):
        lines.append(
            {
                "isa": core.isa,
                "core": core.name,
                "cases": f"{v.cases}",
                "in band": f"{v.inside}" if v.cases else "-",
                "error": "-" if v.error is None else f"{v.error:.0%}",
                "rank": "-" if v.rank is None else f"{v.rank:.2f}",
                "usable": "yes" if v.usable else "no",
            }
        )
    return lines


def aligned(lines: list[dict[str, str]]) -> str:
    """The summary as a table of text."""
    cells = [[*lines[0]], *([*line.values()] for line in lines)]
    sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
    put = [str.rjust if name in NUMBERS else str.ljust for name in lines[0]]
    texts = ("  ".join(where(c, n) for where, c, n in zip(put, line, sizes, strict=True)) for line in cells)
    return "".join(f"{text.rstrip()}\n" for text in texts)


def usable(isa: str) -> list[cores.Core]:
    """The cores of an ISA whose estimates may be shown."""
    return [core for core in cores.cores().values() if core.isa == isa and verdict(core.name).usable]


def nearest(cpu: str, vendor: str, isa: str) -> cores.Core | None:
    """The usable core that is a CPU's own, or else the maker's latest, or else any; None where the ISA has none. cpu, vendor: see
    native.host.cpu_model() and vendor()."""
    modelled = cores.of_cpu(cpu)
    latest_first = reversed(usable(isa))  # files of a maker's cores are in order of their years
    return min(latest_first, key=lambda core: (core is not modelled, not re.fullmatch(core.vendor, vendor)), default=None)


def require(name: str, isa: str) -> cores.Core:
    """A core whose estimates may be shown; raises TramplabError for any other, with the reason."""
    core = cores.get(name, isa)
    if (judgement := verdict(name)).usable:
        return core
    good = ", ".join(c.name for c in usable(isa)) or "no core"
    raise TramplabError(f"no cycles are estimated for {name}: {judgement.why} Usable for {isa}: {good} (see `tramplab cores`).")
