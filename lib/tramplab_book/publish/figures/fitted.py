"""Tables of what was measured: they take any number and any name, and always fit.

A golden table that is too wide is an error, because its author can fix it. What a machine measures or is called
cannot be fixed, so here digits are chosen, columns go into several tables, and at the worst every row becomes lines of its own.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from tramplab.base.errors import TramplabError
from tramplab.base.width import WIDTH

from ..table import text_table

if TYPE_CHECKING:
    import pandas as pd


def digits(value: object) -> str:
    """A measured number with three digits, more before the point where it has them; a dash for none.

    >>> digits(0.1234), digits(12.34), digits(1234.5), digits(float("nan")), digits(-0.001)
    ('0.12', '12.3', '1234', '-', '0.00')
    """
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return "-"
    size = abs(value)
    text = f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"
    return text.removeprefix("-") if not any(c in "123456789" for c in text) else text


def fitted_table(frame: pd.DataFrame, width: int = WIDTH, split: str | None = None) -> str:
    """The frame as text_table() has it where that fits; else in parts, and never wider than `width`.

    The first column names the rows: it is repeated where the others go into several tables. A part per value of the
    column `split`, under that value, as text_table() does it where it must; here always, where there is such a column. A column
    with nothing but dashes is left out of such a part.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"isa": ["a", "a"], "hook": ["ops", "direct"], "nanoseconds": [1.5, 2], "cycles": [3, 4]})
    >>> print(fitted_table(rows, 20, split="isa"), end="")
    a
    hook    nanoseconds
    ops            1.50
    direct            2
    <BLANKLINE>
    hook    cycles
    ops          3
    direct       4
    """
    if split not in frame.columns:
        return _part(frame, width)
    parts = []
    for value, lines in frame.groupby(split, sort=False):
        empty = [column for column in lines.columns[1:] if (lines[column] == "-").all()]
        part = lines.drop(columns=[split, *(column for column in empty if column != split)])
        part.attrs = frame.attrs
        parts.append("\n".join(textwrap.wrap(str(value), width)) + "\n" + _part(part, width))
    return "\n".join(parts) if parts else _part(frame.drop(columns=split), width)


def _part(frame: pd.DataFrame, width: int) -> str:
    """One table, or several with the same first column, or rows as lines."""
    first, *others = frame.columns
    tables: list[list[str]] = [[]]
    for column in others:
        if _text(frame, [first, *tables[-1], column], width) is None and tables[-1]:
            tables.append([])
        tables[-1].append(column)
    texts = [_text(frame, [first, *columns], width) for columns in tables]
    whole = [text for text in texts if text is not None]
    return "\n".join(whole) if len(whole) == len(texts) else _lines(frame, width)


def _text(frame: pd.DataFrame, columns: list[str], width: int) -> str | None:
    """The table of some columns; None if it is too wide."""
    chosen = frame[columns]
    chosen.attrs = frame.attrs
    try:
        return text_table(chosen, width)
    except TramplabError:
        return None


def _lines(frame: pd.DataFrame, width: int) -> str:
    """Every row as a paragraph: its name, and below it each column's title and cell."""
    out = []
    for row in frame.astype(str).to_dict("records"):
        name, *cells = row.items()
        out += textwrap.wrap(name[1], width) or [""]
        for title, cell in cells:
            out += textwrap.wrap(f"{title}: {cell}", width, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(out or ["(no rows)"]) + "\n"
