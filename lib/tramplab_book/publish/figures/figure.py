"""What a study declares of a figure: its id, its question, and how rows become a chart and a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tramplab.base.arguments import of_name
from tramplab.base.errors import TramplabError

from .. import phrases
from ..cite.cite import LAB

if TYPE_CHECKING:
    import pandas as pd

    from .chart import Drawing


class Body(Protocol):
    """Something shown in place of a chart: HTML for a page, text for a terminal."""

    @property
    def html(self) -> str:
        """The HTML for a page."""

    @property
    def text(self) -> str:
        """The text for a terminal."""


#: Source of a figure's numbers -> its words.
SOURCES = {
    "lab": LAB,
    "image": "Debian's kernels, emulated from their images",
    "booted": "Debian's kernels, booted under QEMU",
    "tried": "The lab beside Debian's kernels, booted under QEMU",
    "both": "The lab beside Debian's kernels, both emulated",
    "published": f"{LAB}, beside published times",
    "layout": f"Computed from memory layouts and Debian's images, not run. {LAB}",
    "sites": f"Sites counted in Debian's images; alignment computed. {LAB}",
    "sources": f"From sources of each release and Debian's images, not run. {LAB}",
}
#: Kind of a figure's numbers -> its words.
KINDS = {
    "count": "counts, not time",
    "search": "every order of steps searched, not time",
    "bytes": "bytes, not time",
    "distance": "distances, not time",
    "tried": "what kernels did, not time",
    "fact": "facts and bytes, not time",
    "beside": "counts beside published times",
    "measured": "counts, and native cycles in user mode",
    "native": "native times in user mode, estimates with their band",
    "estimate": "cycles are estimates with their band, by models of cores",
}


@dataclass(frozen=True)
class Figure:
    """A citable figure of a study.

    id: fig- and lower-case words.
    question: the title; what the figure answers.
    rows, table: functions of the study's rows: which of them the figure shows, and in what shape they are printed.
    chart: rows -> drawing, or None where there is nothing to draw.
    behind: rows -> what its marks lead to, folded below the table.
    body: rows -> what is shown in place of a chart, for what no chart can show.
    alt: a sentence for readers who cannot see the chart.
    limits: what must be said of the numbers, in full.
    legend: what marks and pairs in its cells mean, said with every choice of rows.
    source: whose numbers they are, one of SOURCES.
    kind: what the numbers are, one of KINDS.
    hypothetical: some numbers are of what no kernel has.
    machine: what measured the times among the numbers.
    caveat: a sentence that a citation never goes without.
    tabs: a column; the rows of each of its values have a chart or body of their own, under a tab.
    measured: its table has what machines measured or are called, and must fit whatever that is.
    own: it shows the machine that builds the book, so that every build has another.
    """

    id: str
    question: str
    rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    table: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    chart: Callable[[pd.DataFrame], Drawing | None] | None = None
    behind: Callable[[pd.DataFrame], Body] | None = None
    body: Callable[[pd.DataFrame], Body] | None = None
    alt: str = ""
    limits: str = f"{LAB}; counts, not time."
    legend: str = ""
    source: str = "lab"
    kind: str = "count"
    hypothetical: bool = False
    machine: str = ""
    caveat: str = ""
    tabs: str = ""
    measured: bool = False
    own: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"fig-[a-z0-9]+(-[a-z0-9]+)*", self.id):
            raise TramplabError(f"a figure id is fig- and lower-case words joined by hyphens, not {self.id!r}.")
        of_name("source", self.source, SOURCES)
        of_name("kind", self.kind, KINDS)
        if self.chart and not self.alt:
            raise TramplabError(f"{self.id}: a chart needs alt=, a sentence for readers who cannot see it.")
        if self.chart and self.body:
            raise TramplabError(f"{self.id}: a figure has a chart or a body, not both.")

    def limits_of(self, shown: str) -> str:
        """The line or two on what is true of the figure's numbers, for below the text `shown`, which has them."""
        machine = f" ({self.machine})" if self.machine else ""
        parts = [f"{SOURCES[self.source]}; {KINDS[self.kind]}{machine}.", self.caveat, marks(self.hypothetical, shown)]
        return " ".join(filter(None, parts))


def marks(hypothetical: bool, shown: str) -> str:
    """The words on names of what no kernel has: what their mark means, if the text `shown`, below which this stands, has one.

    >>> marks(True, "ops-live *  24"), marks(True, "ops  44"), marks(False, "ops  44")
    ('* hypothetical: no kernel has it.', 'In part hypothetical: no kernel has it.', '')
    """
    if phrases.MARK in shown:
        return phrases.HYPOTHETICAL
    return "In part hypothetical: no kernel has it." if hypothetical else ""


@runtime_checkable
class Study(Protocol):
    """A question and the run that answers it: what a module must have to be a study. Where findings depend on its rows, and by
    them claims, it has numbers() besides."""

    @property
    def NAME(self) -> str:
        """The study's name in commands and files."""

    @property
    def TITLE(self) -> str:
        """The question, in a line."""

    @property
    def FIGURES(self) -> Sequence[Figure]:
        """The figures in which pages show the rows."""

    def rows(self) -> pd.DataFrame:
        """The results as a tidy frame, with units in its attributes."""


def golden(study: Study, frame: pd.DataFrame) -> pd.DataFrame:
    """The part of a study's rows that data/expected keeps, the same on every machine: its table, where it has no golden()."""
    of: Callable[[pd.DataFrame], pd.DataFrame] = getattr(study, "golden", None) or study.table  # type: ignore[attr-defined]
    return of(frame)


def find(study: Study, figure_id: str) -> Figure:
    """A figure of a study by id; raises TramplabError with near matches."""
    return of_name(f"figure of the study {study.NAME}", figure_id, {figure.id: figure for figure in study.FIGURES})
