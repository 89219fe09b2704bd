"""A figure as a block for a mail: its findings, or the rows that are asked for, and what its numbers are."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tramplab.base.errors import TramplabError, unknown

from .. import phrases
from ..cite import cite
from ..findings import findings, rendered
from ..findings.finding import Stated
from ..table import text_table
from .figure import SOURCES, Figure, Study, find, marks
from .fitted import fitted_table

if TYPE_CHECKING:
    import pandas as pd

#: Columns by which rows can be asked for; a table has them as columns, or releases side by side.
CHOICES = ("isa", "hook", "release")
_ISA = re.compile(r"(x86[_-]64|arm64|riscv64)\b")
#: The columns that name rows by what is hooked or attached.
HOOKS = ("hook", "mechanism", "probe", "guard", "way", "scheme")


def citation(study: Study, figure_id: str, full: bool = False, chosen: Mapping[str, str] | None = None) -> str:
    """The citation of a figure, from a run made now.

    full: everything, with the whole table. chosen: a value for some of CHOICES, to print just those rows.
    Raises TramplabError, with near matches, for a figure or value that is not there.
    """
    figure = find(study, figure_id)
    rows = study.rows()
    return block(study, figure, figure.rows(rows), full, chosen, stated(study, figure, rows), titled(study, figure, rows))


def titled(study: Study, figure: Figure, rows: pd.DataFrame) -> str:
    """The heading of a figure: its title with the numbers of these rows; its question where it has none, or a guard of it fails."""
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
    """The citation of a figure with these rows. several: its findings. title: stands above its table, by default its question."""
    title = title or figure.question
    rerun = f"tramplab run {study.NAME}"
    if several and not full and not chosen:
        return rendered.of_several(figure.id, several, figure.limits_of(" ".join(s.says for s in several)), rerun)
    table = chosen_rows(figure, frame, chosen or {})
    text = (fitted_table if figure.measured else text_table)(table, split="isa")
    if not full:
        limits = figure.limits_of(text) if not chosen else replace(figure, hypothetical=False).limits_of(text)
        above = rendered.of_rows(several, [phrases.isa_name(value) for value in (chosen or {}).values()])
        legend = figure.legend if chosen else ""
        return cite.citation(figure.id, "" if above else title, text, f"{legend} {limits}".strip(), rerun, above=above)
    said = [cite.wrapped(rendered.scoped(one)) for one in several]
    body = "\n\n".join([*said, text])
    source = SOURCES[figure.source]
    whose = "" if source in figure.limits else f"{source}."
    limits = " ".join(filter(None, (figure.limits, figure.legend, whose, marks(figure.hypothetical, body))))
    return cite.citation(figure.id, title, body, limits, rerun, full=True)


def chosen_rows(figure: Figure, frame: pd.DataFrame, chosen: Mapping[str, str]) -> pd.DataFrame:
    """A figure's table with just those rows, or those columns, that have the values; of rows without a name for it those that are
    made of what has the value.

    Raises TramplabError where the table is not by such a column, or has no such value.
    """
    attrs = figure.table(frame).attrs
    for what, value in chosen.items():  # first what chooses rows before the table is made of them
        known, table = _known(frame, what), _flat(figure.table(frame))
        if value in known and len(known) > 1 and not _like(table, what, value).any() and not _across(table, known):
            frame = _part(figure, frame, what, value)
    table = _flat(figure.table(frame)) if chosen else figure.table(frame)
    for what, value in chosen.items():
        known, columns = _known(frame, what), _by(table, what)
        across = _across(table, known)
        if (same := _like(table, what, value)).any():
            table = table[same]
        elif value in across.values():
            table = table[[column for column in table if across.get(_name(column), value) == value]]
        elif known != [value]:  # all of it is of that one
            if there := [cell for column in columns for cell in table[column].map(_plain)] or [*across.values()]:
                raise unknown(f"{what} of {figure.id}", value, dict.fromkeys(there))
            by = [w for w in CHOICES if _by(table, w) or _across(table, _known(frame, w)) or len(_known(frame, w)) > 1]
            can = f"its rows can be chosen by: {', '.join(by) or 'nothing'}"
            raise TramplabError(f"the table of {figure.id} is not by {what}; {can}.")
    table.attrs = attrs
    return table


def _part(figure: Figure, frame: pd.DataFrame, what: str, value: str) -> pd.DataFrame:
    """The rows that have a value, if a table can be made of them."""
    part = frame[frame[what].map(_plain) == value]
    try:
        if not figure.table(part).empty:
            return part
    except (LookupError, ValueError, TramplabError):
        pass
    raise TramplabError(f"the table of {figure.id} has no rows of {what} {value} by themselves.")


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    return table.reset_index() if any(table.index.names) else table


def _known(frame: pd.DataFrame, what: str) -> list[str]:
    """The values of a column that rows have, in order; of the ISA without the titles of panels."""
    known = dict.fromkeys(_plain(value) for value in frame.get(what, ()) if isinstance(value, str))
    return [value for value in known if what != "isa" or _ISA.match(value)]


def _by(table: pd.DataFrame, what: str) -> list[Hashable]:
    """The columns of a table whose cells are values of `what`. That of the ISA may have the titles of panels instead, such as
    hooks."""
    names = {_name(column): column for column in table.columns}
    panels = "isa" in names and not any(_ISA.match(str(cell)) for cell in table[names["isa"]])
    there = {"isa": () if panels else ("isa",), "hook": (*HOOKS, *["isa"] * panels), "release": ("release",)}[what]
    return [names[name] for name in there if name in names]


def _across(table: pd.DataFrame, known: Sequence[str]) -> dict[str, str]:
    """Column -> the value that it is of, of columns that are of one of these values."""
    names = filter(None, map(_name, table.columns))
    return {name: value for name in names for value in known if value in (name, _parts(name)[0])}


def _like(table: pd.DataFrame, what: str, value: str) -> pd.Series:
    """Whether each row has the value; where none has, whether it begins with it, or has it in a list."""
    import pandas as pd

    first = _parts(value)[0]
    for cells in (table[column].map(_plain) for column in _by(table, what)):
        begins, has = (cells.map(lambda cell: _parts(cell)[0] == first), cells.map(lambda cell: value in cell.split(" / ")))
        for same in (cells == value, begins, has):
            if same.any():
                return same
    return pd.Series(False, table.index)


def _parts(cell: str) -> list[str]:
    """The words of a cell, an ISA as it is asked for.

    >>> _parts("x86-64, frame pointers"), _parts("arm64 v7.2")
    (['x86_64', 'frame', 'pointers'], ['arm64', 'v7.2'])
    """
    return re.split(r",? +", cell.replace("x86-64", "x86_64"))


def _name(column: object) -> str:
    """A column as it is called, also after a pivot."""
    return next((str(part) for part in column if str(part)), "") if isinstance(column, tuple) else str(column)


def _plain(value: object) -> str:
    """A cell without the mark of what no kernel has."""
    return str(value).removesuffix(phrases.MARK)
