"""Rows as a chart: one theme, stacked bars in small multiples. The only module that imports Altair.

A drawing has two layouts of the same bars, side by side for a page and one column for a phone; colours are CSS
variables of the page (book/_static/book.css), so a chart follows the light or dark theme without being redrawn.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import altair as alt
import pandas as pd

from tramplab.publish import vega
from tramplab.publish.table import require_columns, require_unique

# Okabe-Ito, told apart by colour-blind readers; `function` is grey because it is no part of a hook's cost.
COLOURS = {
    "site": "#d55e00",
    "trampoline": "#0072b2",
    "core": "#009e73",
    "callback": "#cc79a7",
    "function": "#8c8c8c",
}
SPARE_COLOURS = ["#e69f00", "#56b4e9", "#f0e442"]  # for components that are not in the list above
TEXT = "#333333"  # text and axes in a static SVG; on a page they have the colour of the text around them

WIDE, NARROW = 670, 340  # pixels: the text column of the book on a desktop, and on a 390 pixel phone
ROW, CHARACTER = 18, 5.6  # pixels: one bar with its gap, one character of a label
TOTAL_LABEL = 34  # pixels right of the longest bar, for its total
ROWS = alt.NamedData(name="rows")  # specs name their data; the rows are added once, where a chart is drawn


@dataclass(frozen=True)
class Drawing:
    """A chart ready for a page: the rows it shows and a Vega-Lite spec for each layout."""

    rows: list[dict]
    wide: dict
    narrow: dict
    role: str = "bar"  # what assistive technology calls a mark; every row is one

    def svg(self, layout: str = "wide") -> str:
        """A static SVG with plain colours."""
        spec = {**getattr(self, layout), "datasets": {"rows": self.rows}}
        text = vega.svg(spec).replace("currentColor", TEXT)
        return re.sub(r"var\(--[\w-]+, *(#[0-9a-f]{6})\)", r"\1", text)


def stacked_bars(
    value: str,
    bars: tuple[str, ...] = ("hook",),
    stack: str = "component",
    facet: str = "isa",
    shared: bool = True,
    columns: int = 3,
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a bar per value of `bars`, stacked by `stack`, a panel per `facet`.

    `shared=False` gives each panel its own scale; `columns` panels stand side by side where there is room, one on a
    phone. Order is that of the rows. Every row is one mark; two rows for one mark are refused, since a bar of their
    sum would show a number that is in no row.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        require_columns(frame, [*bars, stack, facet, value])
        require_unique(frame, [*bars, stack, facet])
        data = pd.DataFrame(
            {
                "bar": frame[list(bars)].astype(str).agg(" ".join, axis="columns"),
                "part": frame[stack].astype(str),
                "panel": frame[facet].astype(str),
                "value": frame[value],
            }
        )
        parts = _order(data["part"])
        data["rank"] = data["part"].map(parts.index)
        unit = frame.attrs.get("units", {}).get(value)
        title = f"{value.replace('_', ' ')} ({unit})" if unit else value.replace("_", " ")
        wide = _spec(data, parts, title, shared, WIDE, columns)
        narrow = _spec(data, parts, title, shared, NARROW, 1)
        return Drawing(data.to_dict("records"), wide, narrow)

    return draw


def colour(part: str, parts: list[str]) -> str:
    """The CSS colour of a component: a variable of the page with the Okabe-Ito colour as its default."""
    if part in COLOURS:
        return f"var(--tl-{part}, {COLOURS[part]})"
    others = [name for name in parts if name not in COLOURS]
    return SPARE_COLOURS[others.index(part) % len(SPARE_COLOURS)]


def _spec(data: pd.DataFrame, parts: list[str], title: str, shared: bool, width: int, columns: int) -> dict:
    """The Vega-Lite spec of one layout; `columns` panels stand side by side."""
    panels = _order(data["panel"])
    columns = min(columns, len(panels))
    bars = {panel: _order(data.loc[data["panel"] == panel, "bar"]) for panel in panels}
    most = max(bars.values(), key=len)
    labels_once = all(set(names) <= set(most) for names in bars.values())
    if (
        labels_once
    ):  # then a bar stands in the same line of every panel, and a panel that lacks it leaves the line empty
        bars = dict.fromkeys(panels, most)
    labels_width = CHARACTER * data["bar"].str.len().max() + 8
    free = width - labels_width * (1 if labels_once else columns) - TOTAL_LABEL * columns
    charts = []
    for number, panel in enumerate(panels):
        labels = number % columns == 0 or not labels_once
        axis_title = title if columns > 1 or number == len(panels) - 1 else None
        one = _panel(
            panel, bars[panel], parts, title, axis_title, labels, legend_columns=len(parts) if columns > 1 else 3
        )
        charts.append(one.properties(width=int(free / columns), height=alt.Step(ROW)))
    chart = alt.concat(*charts, data=ROWS, columns=columns, spacing={"row": 12, "column": TOTAL_LABEL})
    chart = chart.resolve_scale(x="shared" if shared else "independent", y="independent")
    return chart.properties(background="transparent", padding=0).configure(**_theme()).to_dict()


def _panel(
    panel: str, bars: list[str], parts: list[str], title: str, axis_title: str | None, labels: bool, legend_columns: int
) -> alt.LayerChart:
    """Bars of one panel, with their totals at the ends."""
    y = alt.Y("bar:N", sort=bars, scale=alt.Scale(domain=bars), title=None, axis=alt.Axis(labels=labels))
    marks = (
        alt.Chart()
        .mark_bar(height=ROW - 5)
        .encode(
            x=alt.X("value:Q", stack="zero", title=axis_title),
            y=y,
            order=alt.Order("rank:Q"),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=parts, range=[colour(part, parts) for part in parts]),
                legend=alt.Legend(orient="top", columns=legend_columns),
            ),
            tooltip=[
                alt.Tooltip("bar:N", title=panel),
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("value:Q", title=title),
            ],
        )
    )
    totals = (
        alt.Chart()
        .transform_aggregate(total="sum(value)", groupby=["bar"])
        .mark_text(align="left", dx=4, fontSize=11)
        .encode(x=alt.X("total:Q", title=axis_title), y=y, text="total:Q")
    )
    only = alt.FieldEqualPredicate(field="panel", equal=panel)
    return alt.layer(marks, totals).transform_filter(only).properties(title=panel)


def _theme() -> dict:
    """Quiet axes in the colour of the surrounding text; the bars are what is coloured."""
    return {
        "font": "sans-serif",
        "axis": alt.AxisConfig(
            labelColor="currentColor",
            titleColor="currentColor",
            tickColor="currentColor",
            domainColor="currentColor",
            gridColor="currentColor",
            gridOpacity=0.15,
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
            labelLimit=220,
        ),
        "axisX": alt.AxisConfig(tickCount=4, format="d"),
        "axisY": alt.AxisConfig(grid=False, ticks=False, domain=True),
        "title": alt.TitleConfig(color="currentColor", fontSize=12, anchor="start", frame="group"),
        "legend": alt.LegendConfig(labelColor="currentColor", labelFontSize=11, symbolType="square"),
        "text": alt.MarkConfig(color="currentColor"),
        "view": alt.ViewConfig(stroke=None),
    }


def _order(values: pd.Series) -> list[str]:
    return list(dict.fromkeys(values))
