"""A heat map: a table whose cells are coloured by what they say, a number or a word that a letter stands for."""

import json
from collections.abc import Callable

import altair as alt
import pandas as pd

from .....base.errors import TramplabError
from ....table import require_columns
from .. import panels
from ..drawing import Drawing
from ..panels import Names
from ..text import fit, longest_piece, number, widest, width
from ..theme import CHARACTER, HEAT, INK, LINE, QUIET, STATES, ink

ROW, WIDEST = 24, 76  # pixels: the height of a cell, and its width where there is room
LETTER_ROW, LETTER_WIDEST = 20, 60  # the same for a letter
ROW_LABELS = 18, 12  # characters of a row's name in one line, where its words allow; on a phone, or beside letters
EDGE = 8  # pixels of a cell that its text leaves free
KEY = 60  # pixels of an entry of the key beside its word: the ground, the letter, and the gap to the next
MISSING = "\N{EN DASH}"


def heat_map(
    value: str,
    rows: Names = ("hook",),
    columns: Names = ("release",),
    facet: str = "isa",
    per_row: bool = False,
    abreast: int = 3,
    letters: dict[str, str] | None = None,
    quiet: tuple[str, ...] = (),
    link: str = "",
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a cell with its number for each of `rows` and `columns`, a panel per `facet`.

    The further a colour is from that of the page, the larger the number: in the whole chart, or with `per_row` among
    the numbers of the same row of all panels. What has no row of the frame, or no number, is an empty cell with a dash.
    Up to `abreast` panels stand side by side. Raises TramplabError if there are more columns than fit.

    letters: `value` is one of these words, and a cell has its letter, explained above the panels, and a colour of its own
    by its place among them; those in `quiet` are grey. A panel then has only its own rows. Raises TramplabError for
    another word.

    link: the column with the id on the page that a cell leads to, "" where it leads nowhere; book.js makes the links.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, row=rows, column=columns, panel=facet)
        look = _Words(data, letters, quiet) if letters else _Numbers(frame, data, value, per_row)
        name = panels.title(frame, value)
        if link:
            require_columns(frame, [link])
            data["leads"] = frame[link].tolist()
        return panels.drawing(
            data, look.role, lambda whole, narrow: _layout(data, look, name, whole, narrow, 1 if narrow else abreast)
        )

    return draw


class _Numbers:
    """Cells of numbers: the further from the page's colour, the larger. Adds `value` and `shade` to the data."""

    role, row, widest, side, letters = "cell", ROW, WIDEST, ROW_LABELS, None

    def __init__(self, frame: pd.DataFrame, data: pd.DataFrame, value: str, per_row: bool) -> None:
        data["value"] = panels.numbers(frame, value, missing=True)
        data["shade"] = _shades(data, per_row)
        self.width = max([width(number(value)) for value in data["value"].dropna()], default=0)
        self.sides = dict.fromkeys(panels.order(data["panel"]), panels.order(data["row"])), True

    def color(self, _whole: int) -> alt.Color:
        ramp = alt.Scale(domain=list(range(len(HEAT) + 1)), range=["transparent", *HEAT])
        return alt.Color("shade:O", scale=ramp, legend=None)

    def label(self, value: float, shade: int) -> dict[str, str]:
        return {"label": number(value), "ink": ink(shade)}


class _Words:
    """Cells of letters, each with the colour of what it stands for. Adds `shade` to the data."""

    role, row, widest, side = "letter", LETTER_ROW, LETTER_WIDEST, ROW_LABELS[1:] * 2

    def __init__(self, data: pd.DataFrame, letters: dict[str, str], quiet: tuple[str, ...]) -> None:
        if strange := [word for word in panels.order(data["value"]) if word not in letters]:
            raise TramplabError(f"no letter stands for {', '.join(map(repr, strange))}; add it to letters=.")
        loud = [word for word in letters if word not in quiet]
        self._colours = {word: STATES[i % len(STATES)] for i, word in enumerate(loud)} | dict.fromkeys(quiet, QUIET)
        self._letters = letters
        self.letters = {word: letter for word, letter in letters.items() if word in set(data["value"])}
        data["shade"] = 1
        self.width = width("W")
        self.sides = panels.lines_of(data, "row")

    def color(self, whole: int) -> alt.Color:
        shown = {word: self._colours[word] for word in self.letters}
        said = json.dumps({word: f"{letter} = {word}" for word, letter in self.letters.items()})
        columns = max(1, int(whole // (width(max(self.letters, key=len)) + KEY)))
        legend = alt.Legend(orient="top", title=None, columns=columns, labelExpr=f"{said}[datum.label]", labelLimit=0)
        return alt.Color("value:N", scale=alt.Scale(domain=list(shown), range=list(shown.values())), legend=legend)

    def label(self, value: str, _shade: int) -> dict[str, str]:
        return {"label": self._letters[value], "ink": INK}


def _shades(data: pd.DataFrame, per_row: bool) -> pd.Series:
    """1 for the smallest numbers to len(HEAT) for the largest; 0 where there is none."""
    among = data["value"].groupby(data["row"] if per_row else lambda _: 0)
    low, high = among.transform("min"), among.transform("max")
    share = ((data["value"] - low) / (high - low).where(high > low, 1)).fillna(-1)
    return (share * len(HEAT)).astype(int).clip(0, len(HEAT) - 1).add(1).where(share >= 0, 0)


def _layout(data: pd.DataFrame, look: _Numbers | _Words, name: str, whole: int, narrow: bool, abreast: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    shown, columns = panels.order(data["panel"]), panels.order(data["column"])
    sides, shared = look.sides
    row_lines = {row: fit(row, look.side[narrow]) for rows in sides.values() for row in rows}
    labels_width = widest(row_lines.values()) + 8
    for_values = look.width + EDGE
    for_names = max(longest_piece(column) for column in columns) * CHARACTER + EDGE / 2
    free = whole - 2  # for the outlines at the edges
    beside = 0 if shared else labels_width  # of each panel; else only the first has labels
    least = max(for_values, for_names if look.letters is None else 0) * len(columns) + beside
    abreast = panels.abreast(free - (labels_width - beside), len(shown), least, abreast)
    sized = (free - (labels_width - beside) - panels.GAP * (abreast - 1)) / abreast - beside
    cell = min(sized / len(columns), look.widest)
    if cell < for_values:
        raise TramplabError(
            f"a heat map of {len(columns)} columns of {for_values:.0f} pixels does not fit into {whole}; "
            "show fewer columns, or swap rows and columns."
        )
    column_lines, turned = panels.above(columns, cell - EDGE / 2)
    height = max(look.row, LINE * max(map(len, row_lines.values())) + 4)
    x = alt.X(
        "column:N",
        scale=alt.Scale(domain=columns, paddingInner=0.05, paddingOuter=0),
        title=None,
        axis=panels.named(column_lines, False, **turned),
    )
    charts = []
    for position, panel in enumerate(shown):
        rows = sides[panel]
        labelled = not shared or position % abreast == 0
        y = alt.Y(
            "row:N",
            scale=alt.Scale(domain=rows, paddingInner=0.08, paddingOuter=0),
            title=None,
            axis=panels.named({row: row_lines[row] for row in rows}, True, **panels.side(labelled, labels_width)),
        )
        marks = _cells(look, name, x, y, whole).transform_filter(panels.only(panel))
        texts = _texts(look, data[data["panel"] == panel], rows, columns, x, y)
        title = alt.Title(panel, subtitle=name) if look.letters is None else panel
        charts.append(
            panels.layers(marks, *texts, title=title, width=int(cell * len(columns)), height=height * len(rows))
        )
    return panels.spec(charts, abreast)


def _cells(look: _Numbers | _Words, name: str, x: alt.X, y: alt.Y, whole: int) -> alt.Chart:
    """A cell for every row of the frame."""
    return (
        alt.Chart()
        .mark_rect(**panels.mark(look.role, name, "panel", "row", "column"))
        .encode(
            x=x,
            y=y,
            color=look.color(whole),
            tooltip=[
                alt.Tooltip("row:N", title="row"),
                alt.Tooltip("column:N", title="column"),
                alt.Tooltip("value:Q" if look.letters is None else "value:N", title=name),
            ],
        )
    )


def _texts(
    look: _Numbers | _Words, here: pd.DataFrame, rows: list[str], columns: list[str], x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    """The numbers or letters of one panel, and a dash in an outline where there is none."""
    cells = {
        (row, column): (value, shade)
        for row, column, value, shade in here[["row", "column", "value", "shade"]].itertuples(index=False, name=None)
        if shade
    }
    records = [
        {"row": row, "column": column, **look.label(value, shade)} for (row, column), (value, shade) in cells.items()
    ]
    empty = [
        {"row": row, "column": column, "label": MISSING}
        for row in rows
        for column in columns
        if (row, column) not in cells
    ]
    texts = panels.decoration(records).mark_text(aria=False)
    layers = [texts.encode(x=x, y=y, text=alt.Text("label:N"), color=alt.Color("ink:N", scale=None))] if records else []
    if empty:
        base = panels.decoration(empty).encode(x=x, y=y)
        outline = base.mark_rect(fill="transparent", stroke="currentColor", strokeOpacity=0.3, aria=False)
        layers += [outline, base.mark_text(aria=False).encode(text=alt.Text("label:N"))]
    return layers
