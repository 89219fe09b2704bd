"""Rows as an aligned plain-text table: what a terminal, a mail and the golden files in data/expected show."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tramplab.base.errors import TramplabError
from tramplab.base.width import WIDTH

if TYPE_CHECKING:
    import pandas as pd  # code that has a frame has imported it; a command that shows none starts without

GAPS = (2, 1)  # spaces between columns: two where they fit


def text_table(frame: pd.DataFrame, width: int = WIDTH, split: str | None = None) -> str:
    """The frame as text: header, units below it, one line per row, no line longer than `width`.

    A frame that was pivoted works too: named index levels come first, column levels stand above each other.
    To fit, headers are broken at underscores, then the gaps are narrowed, then the table is made into one per
    value of the column `split`. What still does not fit is refused: a cut or wrapped table could be misread.
    attrs: units by column, and under "right" the columns of text that hold numbers.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"isa": ["arm64", "riscv64"], "load_bytes": [88, 104]})
    >>> rows.attrs["units"] = {"load_bytes": "B"}
    >>> print(text_table(rows), end="")
    isa      load_bytes
                      B
    arm64            88
    riscv64         104
    >>> print(text_table(rows, width=12, split="isa"), end="")
    arm64
    load_bytes
             B
            88
    <BLANKLINE>
    riscv64
    load_bytes
             B
           104
    """
    columns = _columns(frame)
    everything = list(range(len(frame)))
    gap = _fit(columns, width)
    if gap:
        return _render(columns, everything, gap)
    by = next((column for column in columns if column.name == (split,)), None)
    columns = [column for column in columns if column is not by]
    gap = _fit(columns, width)
    if by is None or not gap or by.width > width:
        raise _too_wide(columns, width)
    parts = {value: [i for i in everything if by.cells[i] == value] for value in by.cells}
    return "\n".join(f"{value}\n{_render(columns, lines, gap)}" for value, lines in parts.items())


def pivot(
    value: str, across: str = "component", index: tuple[str, ...] = ("isa", "release", "hook"), total: bool = True
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function from rows to a wide table: one column per value of `across`, in order of first appearance.

    Nothing is aggregated: two rows for one cell are an error. The unit of `value` is kept for every column.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"hook": ["ops", "ops"], "component": ["site", "core"], "loads": [0, 7]})
    >>> print(text_table(pivot("loads", index=("hook",))(rows)), end="")
    hook  site  core  total
    ops      0     7      7
    """

    def apply(rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        keys = list(index)
        require_columns(rows, [*keys, across, value])
        require_unique(rows, [*keys, across])
        wide = rows.pivot(index=keys, columns=across, values=value)
        lines = pd.MultiIndex.from_frame(rows[keys].drop_duplicates()) if len(keys) > 1 else rows[keys[0]].unique()
        wide = wide.reindex(index=lines, columns=list(dict.fromkeys(rows[across])))
        if total:
            wide["total"] = wide.sum(axis="columns")
        table = wide.reset_index()
        table.columns.name = None
        unit = rows.attrs.get("units", {}).get(value)
        table.attrs["units"] = dict.fromkeys(wide.columns, unit) if unit else {}
        return table

    return apply


def require_columns(rows: pd.DataFrame, names: list[str]) -> None:
    """Refuse rows that lack a column, naming those there are."""
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise TramplabError(
            f"the rows have no column {', '.join(missing)}; they have {', '.join(map(str, rows.columns))}"
        )


def require_unique(rows: pd.DataFrame, keys: list[str]) -> None:
    """Refuse rows in which the key columns do not tell every row apart: a sum would hide one of them."""
    twice = rows[rows.duplicated(keys)]
    if len(twice):
        first = ", ".join(f"{key}={twice.iloc[0][key]}" for key in keys)
        raise TramplabError(f"several rows for {first}: name one more column that tells them apart, or filter the rows")


class _Column:
    """One printed column: header lines, unit, cells."""

    def __init__(self, name: tuple[str, ...], unit: str, cells: list[str], right: bool):
        self.name, self.unit, self.cells, self.right = name, unit, cells, right
        self.narrowest = max(map(len, [unit, *cells]))
        self.break_header(False)

    def break_header(self, broken: bool) -> None:
        self.header = [part for level in self.name for part in (re.split(r"[_\s]+", level) if broken else [level])]
        self.width = max(self.narrowest, *map(len, self.header))

    def line(self, text: str) -> str:
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def _render(columns: list[_Column], rows: list[int], gap: int) -> str:
    height = max(len(column.header) for column in columns)
    headers = [[""] * (height - len(column.header)) + column.header for column in columns]
    lines = [[column.line(header[i]) for column, header in zip(columns, headers, strict=True)] for i in range(height)]
    if any(column.unit for column in columns):
        lines.append([column.line(column.unit) for column in columns])
    lines += [[column.line(column.cells[i]) for column in columns] for i in rows]
    text = [(" " * gap).join(line).rstrip() for line in lines]
    return "\n".join(text + ([] if rows else ["(no rows)"])) + "\n"


def _fit(columns: list[_Column], width: int) -> int | None:
    """Break headers as needed; the gap with which the columns fit, or None."""
    for broken, gap in ((False, GAPS[0]), (True, GAPS[0]), (True, GAPS[1])):
        for column in columns:
            column.break_header(broken)
        if _total(columns, gap) <= width:
            return gap
    return None


def _too_wide(columns: list[_Column], width: int) -> TramplabError:
    wide = ", ".join(f"{'/'.join(c.name)} ({c.width})" for c in sorted(columns, key=lambda c: -c.width)[:4])
    needs = f"a table of {_total(columns, min(GAPS))} columns of text does not fit into {width}"
    return TramplabError(f"{needs}; widest: {wide}. Leave columns out, or split it")


def _total(columns: list[_Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def _columns(frame: pd.DataFrame) -> list[_Column]:
    """All columns ready to print; named index levels first, one header line per level of the column index."""
    import pandas as pd

    levels = [level for level in frame.index.names if level is not None]
    names: list[tuple[str, ...]] = [(str(level),) for level in levels]
    names += [tuple(map(str, name)) if isinstance(name, tuple) else (str(name),) for name in frame.columns]
    data = [pd.Series(frame.index.get_level_values(level)) for level in levels]
    data += [frame.iloc[:, i] for i in range(frame.shape[1])]
    if not names:
        raise TramplabError("a table needs at least one column")
    units, right = frame.attrs.get("units", {}), frame.attrs.get("right", ())
    return [
        _Column(name, _unit(name, units), [_cell(value) for value in values], _is_number(values) or name[0] in right)
        for name, values in zip(names, data, strict=True)
    ]


def _unit(name: tuple[str, ...], units: dict[str, str]) -> str:
    """The unit of a column; after a pivot the value's name is one of the column levels."""
    return next((units[level] for level in name if level in units), "")


def _is_number(values: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def _cell(value: Any) -> str:
    """One cell: '-' for nothing, whole numbers without a point, others with two decimals, text on one line."""
    import pandas as pd

    if pd.isna(value):
        return "-"
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    if pd.api.types.is_integer(value):
        return str(int(value))
    if pd.api.types.is_float(value):
        return str(int(value)) if value == int(value) else f"{value:.2f}"
    return " ".join(str(value).split())
