"""A heat map: a table whose cells are coloured by what they say, a number or a word that a letter stands for."""

import json
from collections.abc import Callable, Mapping

import altair as alt
import pandas as pd

from tramplab.base.errors import TramplabError

from ....table import require_columns
from .. import panels
from ..drawing import Drawing
from ..panels import Names
from ..text import fit, longest_piece, number, widest, width
from ..theme import CHARACTER, HEAT, INK, LINE, MEANINGS, ink

ROW, WIDEST = 24, 76  # pixels: the height of a cell, and its width where there is room
LETTER_ROW, LETTER_WIDEST = 20, 72  # the same for a letter
ALONE, PHONE = 30, 22  # characters of a row's name in one line beside a single panel, and the most on a phone
CELL = 36  # pixels of a cell on a phone that names of rows leave free
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
    meanings: Mapping[str, str] | None = None,
    letters: Mapping[str, str] | None = None,
    signs: bool = False,
    link: str = "",
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a cell with its number for each of `rows` and `columns`, a panel per `facet`.

    The further a colour is from that of the page, the larger the number: in the whole chart, or with `per_row` among
    the numbers of the same row of all panels. What has no row of the frame, or no number, is an empty cell with a dash.
    Up to `abreast` panels stand side by side. Raises TramplabError if there are more columns than fit.

    meanings: `value` is one of these words, each with one of theme.MEANINGS, and a cell has the ground of what its word means.
    Words of one meaning differ by their `letters`. A panel then has only its own rows. Raises TramplabError for another word, and
    for two of one meaning without letters. signs: every word has its letter, so that none is told by its ground alone; the panels,
    with few columns, stand side by side on a phone, too.

    link: the column with the id on the page that a cell leads to, "" where it leads nowhere.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, row=rows, column=columns, panel=facet)
        look = _Words(data, meanings, letters or {}, signs) if meanings else _Numbers(frame, data, value, per_row)
        name = panels.title(frame, value)
        if link:
            require_columns(frame, [link])
            data["leads"] = [name and f"#{name}" for name in frame[link]]
        return panels.drawing(
            data, look.role, lambda whole, narrow: _layout(data, look, name, whole, narrow, 1 if narrow and not signs else abreast)
        )

    return draw


class _Numbers:
    """Cells of numbers: the further from the page's colour, the larger. Adds `value` and `shade` to the data."""

    role, row, widest, side, words = "cell", ROW, WIDEST, ROW_LABELS, False

    def __init__(self, frame: pd.DataFrame, data: pd.DataFrame, value: str, per_row: bool) -> None:
        data["value"] = panels.numbers(frame, value, missing=True)
        data["shade"] = _shades(data, per_row)
        self.width = max([width(number(value)) for value in data["value"].dropna()], default=0)
        self.sides = dict.fromkeys(panels.order(data["panel"]), panels.order(data["row"])), True

    def color(self, _whole: int) -> alt.Color:
        ramp = alt.Scale(domain=list(range(len(HEAT) + 1)), range=["transparent", *HEAT])
        return alt.Color("shade:O", scale=ramp, legend=None)

    def label(self, value: float, shade: int) -> dict[str, str]:
        return {"label": number(value), "ink": ink(shade), "ground": HEAT[shade - 1]}


class _Words:
    """Cells with the ground of what their word means, and a letter where several words have the same. Adds `shade` to the data."""

    role, row, widest, side, words = "letter", LETTER_ROW, LETTER_WIDEST, ROW_LABELS[1:] * 2, True

    def __init__(self, data: pd.DataFrame, meanings: Mapping[str, str], letters: Mapping[str, str], signs: bool) -> None:
        there = panels.order(data["value"])
        if strange := [word for word in there if word not in meanings]:
            raise TramplabError(f"nothing is said of what {', '.join(map(repr, strange))} means; add it to meanings=.")
        self._grounds = {word: MEANINGS[meaning] for word, meaning in meanings.items() if word in there}
        grounds = list(self._grounds.values())
        self._letters = {word: letters.get(word, "") for word, one in self._grounds.items() if signs or grounds.count(one) > 1}
        for one in set(grounds):
            same = [self._letters[word] for word in self._letters if self._grounds[word] == one]
            if len(set(same)) < len(same):
                raise TramplabError("words of one meaning need different letters; add them to letters=.")
        data["shade"] = 1
        self.width = width("W")
        self.sides = panels.lines_of(data, "row")

    def color(self, whole: int) -> alt.Color:
        said = {word: f"{letter} = {word}" if (letter := self._letters.get(word)) else word for word in self._grounds}
        columns = max(1, int(whole // (width(max(self._grounds, key=len)) + KEY)))
        printed = f"{json.dumps(said)}[datum.label]"
        colours = alt.Scale(domain=list(self._grounds), range=[ground for ground, _ in self._grounds.values()])
        outline = {"symbolStrokeColor": "currentColor", "symbolStrokeWidth": 0.5}
        legend = alt.Legend(orient="top", title=None, columns=columns, labelExpr=printed, labelLimit=0, **outline)
        return alt.Color("value:N", scale=colours, legend=legend)

    def label(self, value: str, _shade: int) -> dict[str, str]:
        ground, text = self._grounds[value]
        return {"label": self._letters.get(value, ""), "ink": text, "ground": ground}


def _shades(data: pd.DataFrame, per_row: bool) -> pd.Series:
    """1 for the smallest numbers to len(HEAT) for the largest; 0 where there is none."""
    among = data["value"].groupby(data["row"] if per_row else lambda _: 0)
    low, high = among.transform("min"), among.transform("max")
    share = ((data["value"] - low) / (high - low).where(high > low, 1)).fillna(-1)
    return (share * len(HEAT)).astype(int).clip(0, len(HEAT) - 1).add(1).where(share >= 0, 0)


def _cell_width(
    look: _Numbers | _Words, columns: list[str], labels_width: float, whole: int, shown: int, abreast: int
) -> tuple[float, int]:
    """Of a cell, and how many panels stand side by side, up to `abreast`; raises TramplabError where its text is wider."""
    for_values = look.width + EDGE
    for_names = max(longest_piece(column) for column in columns) * CHARACTER + EDGE / 2
    free = whole - 5  # for the outlines at the edges
    beside = 0 if look.sides[1] else labels_width  # of each panel; else only the first has labels
    least = max(for_values, 0 if look.words else for_names) * len(columns) + beside
    abreast = panels.abreast(free - (labels_width - beside), shown, least, abreast)
    sized = (free - (labels_width - beside) - panels.GAP * (abreast - 1)) / abreast - beside
    cell = min(sized / len(columns), look.widest)
    if cell < for_values:
        raise TramplabError(
            f"a heat map of {len(columns)} columns of {for_values:.0f} pixels does not fit into {whole}; "
            "show fewer columns, or swap rows and columns."
        )
    return cell, abreast


def _layout(data: pd.DataFrame, look: _Numbers | _Words, name: str, whole: int, narrow: bool, abreast: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    shown, columns = panels.order(data["panel"]), panels.order(data["column"])
    sides, shared = look.sides
    spare = int((whole - CELL * len(columns)) // CHARACTER)  # of a phone's width, where a panel is alone in its line
    room = min(max(spare, look.side[1]), PHONE) if narrow else ALONE if len(shown) == 1 else look.side[0]
    row_lines = {row: fit(row, room) for rows in sides.values() for row in rows}
    labels_width = widest(row_lines.values()) + 8
    cell, abreast = _cell_width(look, columns, labels_width, whole, len(shown), abreast)
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
        marks = _cells(look, data, name, x, y, whole).transform_filter(panels.only(panel))
        marks = marks.encode(href="leads:N") if "leads" in data else marks
        texts = _texts(look, data[data["panel"] == panel], rows, columns, x, y)
        title = panel if look.words else alt.Title(panel, subtitle=name)
        charts.append(
            panels.layers(marks, *texts, title=title, width=int(cell * len(columns)), height=height * len(rows))
        )
    return panels.spec(charts, abreast)


def _cells(look: _Numbers | _Words, data: pd.DataFrame, name: str, x: alt.X, y: alt.Y, whole: int) -> alt.Chart:
    """A cell for every row of the frame."""
    line = {"stroke": "currentColor", "strokeOpacity": 0.3, "strokeWidth": 0.5} if look.words else {}  # some grounds are the page's
    return (
        alt.Chart()
        .mark_rect(**line, **panels.mark(look.role, name, "panel", "row", "column"))
        .encode(
            x=x,
            y=y,
            color=look.color(whole),
            **panels.faint(data),
        )
    )


def _texts(
    look: _Numbers | _Words, here: pd.DataFrame, rows: list[str], columns: list[str], x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    """The numbers or letters of one panel, a dash in an outline where there is none, and outlines of hollow cells."""
    cells = {
        (row, column): look.label(value, shade)
        for row, column, value, shade in here[["row", "column", "value", "shade"]].itertuples(index=False, name=None)
        if shade
    }
    faint = here[here["hollow"]] if "hollow" in here else here.iloc[:0]
    hollow = set(faint[["row", "column"]].itertuples(index=False, name=None))
    records = [
        {"row": row, "column": column, "label": label["label"], "ink": INK if (row, column) in hollow else label["ink"]}
        for (row, column), label in cells.items()
        if label["label"]
    ]
    lines = [
        {"row": row, "column": column, "ground": cells[row, column]["ground"]}
        for row, column in cells
        if (row, column) in hollow
    ]
    empty = [
        {"row": row, "column": column, "label": MISSING}
        for row in rows
        for column in columns
        if (row, column) not in cells
    ]
    texts = panels.decoration(records).mark_text(aria=False)
    layers = [texts.encode(x=x, y=y, text=alt.Text("label:N"), color=alt.Color("ink:N", scale=None))] if records else []
    if lines:
        outlines = panels.decoration(lines).mark_rect(fill=None, strokeWidth=1.5, aria=False)
        layers.append(outlines.encode(x=x, y=y, stroke=alt.Stroke("ground:N", scale=None)))
    if empty:
        base = panels.decoration(empty).encode(x=x, y=y)
        outline = base.mark_rect(fill="transparent", stroke="currentColor", strokeOpacity=0.3, aria=False)
        layers += [outline, base.mark_text(aria=False).encode(text=alt.Text("label:N"))]
    return layers
