"""Stacked bars: what a total is made of."""

from collections.abc import Callable, Mapping

import altair as alt
import pandas as pd

from ....table import require_columns
from .. import panels
from ..drawing import Drawing
from ..panels import Names
from ..series import legend
from ..text import number, width
from ..theme import MEANINGS, colour

ROW = 18  # pixels: one bar with its gap
LEAST = 90  # pixels: the narrowest panel worth reading


def stacked_bars(
    value: str,
    bars: Names = ("hook",),
    stack: str = "component",
    facet: str = "isa",
    shared: bool = True,
    columns: int = 3,
    note: str = "",
    meanings: Mapping[str, str] | None = None,
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a bar per value of `bars`, stacked by `stack`, a panel per `facet`.

    `shared=False` gives each panel its own scale; up to `columns` panels stand side by side, one on a phone. Order is
    that of the rows. Every row is one mark; two rows for one mark are refused, since a bar of their sum would show a
    number that is in no row.

    note: the column with what stands beside the total at the end of a bar, the same in all rows of it.
    meanings: part -> one of theme.MEANINGS, whose ground it has instead of a colour of its own.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, bar=bars, part=stack, panel=facet)
        data["value"] = panels.numbers(frame, value)
        parts = panels.order(data["part"])
        data["rank"] = data["part"].map(parts.index)
        if note:
            require_columns(frame, [note])
            data["note"] = frame[note].tolist()
        colours = [MEANINGS[meanings[part]][0] if meanings else colour(part, parts) for part in parts]
        scale = alt.Scale(domain=parts, range=colours)
        name = panels.title(frame, value)
        return panels.drawing(
            data, "bar", lambda width, narrow: _layout(data, scale, name, shared, width, 1 if narrow else columns)
        )

    return draw


def _layout(data: pd.DataFrame, colours: alt.Scale, name: str, shared: bool, whole: int, columns: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide; colours: of the parts."""
    bars, labels_once = panels.lines_of(data, "bar")
    ends = data.assign(note=data.get("note", "")).groupby(["panel", "bar"], sort=False).agg({"value": "sum", "note": "first"})
    totals = ends.reset_index()
    totals["label"] = [f"{number(r.value)} {r.note}".strip() for r in totals.itertuples()]
    labels_width = max(map(width, data["bar"])) + 8
    total_width = max(map(width, totals["label"])) + 6
    once, each = (labels_width, total_width) if labels_once else (0, labels_width + total_width)
    columns = panels.abreast(whole - once, len(bars), LEAST + each, columns)
    free = whole - once - each * columns - panels.GAP * (columns - 1)
    parts = panels.order(data["part"])
    above = legend(parts, int(whole - labels_width)) if len(parts) > 1 else None
    charts = []
    for position, panel in enumerate(bars):
        axis_title = name if columns > 1 or position == len(bars) - 1 else None
        side = alt.Axis(**panels.side(position % columns == 0 or not labels_once, labels_width))
        one = _panel(data, panel, bars[panel], colours, name, axis_title, side, above)
        here = totals[totals["panel"] == panel]
        records = [
            {"bar": bar, "total": max(total, 0), "label": label}
            for bar, total, label in zip(here["bar"], here["value"].tolist(), here["label"], strict=True)
        ]
        y = alt.Y("bar:N", sort=bars[panel], scale=alt.Scale(domain=bars[panel]), title=None)
        texts = panels.decoration(records).mark_text(align="left", dx=4, aria=False)
        texts = texts.encode(x=alt.X("total:Q", title=axis_title), y=y, text=alt.Text("label:N"))
        charts.append(panels.layers(one, texts, title=panel, width=int(free / columns), height=alt.Step(ROW)))
    return panels.spec(charts, columns, shared)


def _panel(
    data: pd.DataFrame,
    panel: str,
    bars: list[str],
    colours: alt.Scale,
    name: str,
    axis_title: str | None,
    side: alt.Axis,
    above: alt.Legend | None,
) -> alt.Chart:
    """Bars of one panel."""
    chart = alt.Chart().mark_bar(height=ROW - 5, **panels.mark("bar", name, "panel", "bar", "part"))
    chart = chart.transform_filter(panels.only(panel))
    return chart.encode(
        x=alt.X("value:Q", stack="zero", title=axis_title),
        y=alt.Y("bar:N", sort=bars, scale=alt.Scale(domain=bars), title=None, axis=side),
        order=alt.Order("rank:Q"),
        color=alt.Color("part:N", title=None, scale=colours, legend=above),
        **panels.hollow(data, "part:N", colours),
    )
