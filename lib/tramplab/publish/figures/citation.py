"""A figure as a block for a mail: its answer, or the rows that are asked for, and what its numbers are."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...base.errors import TramplabError, unknown
from ...base.width import WIDTH
from .. import phrases
from ..cite import cite
from ..findings import findings, rendered
from ..findings.findings import Stated
from ..table import text_table
from .figure import SOURCES, Figure, Study, find, marks
from .fitted import fitted_table

if TYPE_CHECKING:
    import pandas as pd

#: What rows can be asked for by; a table has them as columns, or releases side by side.
CHOICES = ("isa", "hook", "release")


def citation(study: Study, figure_id: str, full: bool = False, chosen: Mapping[str, str] | None = None) -> str:
    """The citation of a figure, from a run made now.

    full: everything, with the whole table. chosen: a value for some of CHOICES, to print just those rows under its question.
    Raises TramplabError, with near matches, for a figure or value that is not there.
    """
    figure = find(study, figure_id)
    rows = study.rows()
    title = "" if chosen else titled(study, figure, rows)
    return block(study, figure, figure.rows(rows), full, chosen, stated(study, figure, rows), title)


def titled(study: Study, figure: Figure, rows: pd.DataFrame) -> str:
    """What a figure is headed with: what these rows of its study show; its question where no title says that or its guards fail."""
    title = findings.titles().get(figure.id)
    return (title.filled(study.numbers(rows)) if title and hasattr(study, "numbers") else "") or figure.question


def stated(study: Study, figure: Figure, rows: pd.DataFrame) -> list[Stated]:
    """The findings of a figure, from these rows of its study; those that are verdicts are shown with their claims."""
    there = [finding for finding in findings.of_figure(figure.id) if not finding.claims]
    if not there or not hasattr(study, "numbers"):
        return []
    numbers = study.numbers(rows)
    return [findings.stated(finding, numbers) for finding in there]


def block(
    study: Study,
    figure: Figure,
    frame: pd.DataFrame,
    full: bool = False,
    chosen: Mapping[str, str] | None = None,
    several: Sequence[Stated] = (),
    title: str = "",
) -> str:
    """The citation of a figure whose rows are these. several: its findings. title: said above its table, else its question."""
    title = title or figure.question
    rerun = f"tramplab run {study.NAME}"
    if several and not full and not chosen:
        return rendered.of_several(figure.id, several, figure.limits_of(" ".join(s.says for s in several)), rerun)
    answer = figure.answer(frame) if figure.answer and (full or not chosen) else ""
    answer = " ".join(part for word in answer.split() for part in textwrap.wrap(word, WIDTH))  # a machine may be called anything
    if answer and not full:
        return cite.citation(figure.id, answer, "", figure.limits_of(answer), rerun)
    table = chosen_rows(figure, frame, chosen or {})
    text = (fitted_table if figure.measured else text_table)(table, split="isa")
    if not full:
        limits = figure.limits_of(text) if not chosen else replace(figure, hypothetical=False).limits_of(text)
        return cite.citation(figure.id, title, text, limits, rerun)
    body = f"{cite.wrapped(answer)}\n\n{text}" if answer else text
    source = SOURCES[figure.source]
    whose = "" if source in figure.limits else f"{source}."
    limits = " ".join(filter(None, (figure.limits, whose, marks(figure.hypothetical, body))))
    return cite.citation(figure.id, title, body, limits, rerun, full=True)


def chosen_rows(figure: Figure, frame: pd.DataFrame, chosen: Mapping[str, str]) -> pd.DataFrame:
    """A figure's table with just those rows, or those columns of releases, that have the values.

    Raises TramplabError where the table is not by such a column, or has no such value.
    """
    table = figure.table(frame)
    if not chosen:
        return table
    attrs, table = table.attrs, table.reset_index() if any(table.index.names) else table
    names = {_name(column): column for column in table.columns}
    across = {what: [v for v in dict.fromkeys(map(_plain, frame.get(what, ()))) if v in names] for what in CHOICES}
    for what, value in chosen.items():
        if what in names:
            table = table[_like(table[names[what]].map(_plain), what, value, figure)]
        elif across[what]:
            if value not in across[what]:
                raise unknown(f"{what} of {figure.id}", value, across[what])
            table = table[[column for name, column in names.items() if name not in across[what] or name == value]]
        elif [*map(_plain, dict.fromkeys(frame.get(what, ())))] != [value]:  # all of it is of that one
            kinds = ", ".join(choice for choice in CHOICES if choice in names or across[choice])
            raise TramplabError(f"the table of {figure.id} is not by {what}; its rows can be chosen by: {kinds or 'nothing'}.")
    table.attrs = attrs
    return table


def _like(cells: pd.Series, what: str, value: str, figure: Figure) -> pd.Series:
    """Which cells are the value; where none is, which begin with it as a word."""
    for same in (cells == value, cells.str.split().str[0] == value):
        if same.any():
            return same
    raise unknown(f"{what} of {figure.id}", value, dict.fromkeys(cells))


def _name(column: object) -> str:
    """A column as it is called, also after a pivot."""
    return next((str(part) for part in column if str(part)), "") if isinstance(column, tuple) else str(column)


def _plain(value: object) -> str:
    """A cell without the mark of what no kernel has."""
    return str(value).removesuffix(phrases.MARK)
