"""A heat map: a table whose cells are coloured by what they say."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from tramplab.errors import TramplabError
from tramplab.publish.chart import panels
from tramplab.publish.chart.drawing import Drawing
from tramplab.publish.chart.panels import Names
from tramplab.publish.chart.text import fit, longest_piece, number, widest, width
from tramplab.publish.chart.theme import CHARACTER, HEAT, LINE, ink

ROW, WIDEST = 24, 76  # pixels: the height of a cell, and its width where there is room
ROW_LABELS = 18, 12  # characters of a row's name in one line, where its words allow; on a phone
EDGE = 8  # pixels of a cell that its text leaves free
MISSING = "\N{EN DASH}"


def heat_map(
    value: str,
    rows: Names = ("hook",),
    columns: Names = ("release",),
    facet: str = "isa",
    per_row: bool = False,
    abreast: int = 3,
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a cell with its number for each of `rows` and `columns`, a panel per `facet`.

    The further a colour is from that of the page, the larger the number: in the whole chart, or with `per_row` among
    the numbers of the same row of all panels. What has no row of the frame, or no number, is an empty cell with a dash.
    Up to `abreast` panels stand side by side. Raises TramplabError if there are more columns than fit.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, row=rows, column=columns, panel=facet)
        data["value"] = panels.numbers(frame, value, missing=True)
        data["shade"] = _shades(data, per_row)
        name = panels.title(frame, value)
        return panels.drawing(
            data, "cell", lambda whole, narrow: _layout(data, name, whole, narrow, 1 if narrow else abreast)
        )

    return draw


def _shades(data: pd.DataFrame, per_row: bool) -> pd.Series:
    """1 for the smallest numbers to len(HEAT) for the largest; 0 where there is none."""
    among = data["value"].groupby(data["row"] if per_row else lambda _: 0)
    low, high = among.transform("min"), among.transform("max")
    share = ((data["value"] - low) / (high - low).where(high > low, 1)).fillna(-1)
    return (share * len(HEAT)).astype(int).clip(0, len(HEAT) - 1).add(1).where(share >= 0, 0)


def _layout(data: pd.DataFrame, name: str, whole: int, narrow: bool, abreast: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    shown, rows, columns = (panels.order(data[key]) for key in ("panel", "row", "column"))
    row_lines = {row: fit(row, ROW_LABELS[narrow]) for row in rows}
    labels_width = widest(row_lines.values()) + 8
    for_numbers = max([width(number(value)) for value in data["value"].dropna()], default=0) + EDGE
    for_names = max(longest_piece(column) for column in columns) * CHARACTER + EDGE / 2
    free = whole - labels_width - 2  # for the outlines at the edges
    abreast = panels.abreast(free, len(shown), max(for_numbers, for_names) * len(columns), abreast)
    cell = min((free - panels.GAP * (abreast - 1)) / abreast / len(columns), WIDEST)
    if cell < for_numbers:
        raise TramplabError(
            f"a heat map of {len(columns)} columns of {for_numbers:.0f} pixels does not fit into {whole}; "
            "show fewer columns, or swap rows and columns."
        )
    column_lines, turned = panels.above(columns, cell - EDGE / 2)
    height = max(ROW, LINE * max(map(len, row_lines.values())) + 4)
    x = alt.X(
        "column:N",
        scale=alt.Scale(domain=columns, paddingInner=0.05, paddingOuter=0),
        title=None,
        axis=panels.named(column_lines, False, **turned),
    )
    charts = []
    for position, panel in enumerate(shown):
        y = alt.Y(
            "row:N",
            scale=alt.Scale(domain=rows, paddingInner=0.08, paddingOuter=0),
            title=None,
            axis=panels.named(row_lines, True, **panels.side(position % abreast == 0, labels_width)),
        )
        marks = _cells(name, x, y).transform_filter(panels.only(panel))
        texts = _texts(data[data["panel"] == panel], rows, columns, x, y)
        size = {"width": int(cell * len(columns)), "height": height * len(rows)}
        charts.append(panels.layers(marks, *texts, title=alt.Title(panel, subtitle=name), **size))
    return panels.spec(charts, abreast)


def _cells(name: str, x: alt.X, y: alt.Y) -> alt.Chart:
    """A cell for every row of the frame."""
    ramp = alt.Scale(domain=list(range(len(HEAT) + 1)), range=["transparent", *HEAT])
    return (
        alt.Chart()
        .mark_rect(**panels.mark("cell", name, "panel", "row", "column"))
        .encode(
            x=x,
            y=y,
            color=alt.Color("shade:O", scale=ramp, legend=None),
            tooltip=[
                alt.Tooltip("row:N", title="row"),
                alt.Tooltip("column:N", title="column"),
                alt.Tooltip("value:Q", title=name),
            ],
        )
    )


def _texts(here: pd.DataFrame, rows: list[str], columns: list[str], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """The numbers of one panel, and a dash in an outline where there is none."""
    cells = {
        (row, column): (value, shade)
        for row, column, value, shade in here[["row", "column", "value", "shade"]].itertuples(index=False, name=None)
        if shade
    }
    records = [
        {"row": row, "column": column, "label": number(value), "ink": ink(shade)}
        for (row, column), (value, shade) in cells.items()
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
