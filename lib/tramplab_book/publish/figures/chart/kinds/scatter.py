"""Pairs: what was predicted, with its band, against what was measured."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from .. import panels
from ..axis import PLAIN, Axis
from ..drawing import Drawing
from ..panels import Names
from ..series import legend, require_bands, require_ends, style, told_apart
from ..text import number, width

LEAST, MOST = 150, 210  # pixels of a panel, which is a square
EDGE = 8  # pixels between the outermost point and the axis
ROOM = 0.02  # of an axis, beyond the largest number and below the smallest


def scatter(
    value: str,
    against: str,
    name: Names,
    series: Names,
    low: str = "",
    high: str = "",
    facet: str = "isa",
    columns: int = 3,
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a point per row, `value` upwards and `against` to the right, a panel per `facet`.

    Both axes are logarithmic, with one scale in a panel; the line is where both are equal. `low` and `high` name the
    ends of a band around the value. `name` tells the points of a series apart. A series has a colour and a shape of its
    own. Raises TramplabError for more series than can be told apart, for numbers that a logarithmic axis cannot show, and
    for a band with one end only, or that does not hold its value.
    """
    require_ends(low, high)

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, name=name, series=series, panel=facet)
        columns_of = {"value": value, "against": against, "low": low or value, "high": high or value}
        for key, column in columns_of.items():
            data[key] = panels.numbers(frame, column)
        require_bands(data, value, "against")
        names = told_apart(data)
        titles = panels.title(frame, against), panels.title(frame, value)
        return panels.drawing(
            data, "pair", lambda whole, narrow: _layout(data, names, titles, whole, 1 if narrow else columns)
        )

    return draw


def _layout(data: pd.DataFrame, names: list[str], titles: tuple[str, str], whole: int, columns: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    shown = panels.order(data["panel"])
    ends = data[["value", "against", "low", "high"]]
    ticks = max(width(number(float(n))) for n in (ends.max(axis=None), ends.min(axis=None))) + 8
    columns = panels.abreast(whole, len(shown), LEAST + ticks, columns)
    plot = min(MOST, int((whole - panels.GAP * (columns - 1)) / columns - ticks) - 2)
    above = legend(names, whole, symbolOpacity=1)
    charts = []
    for panel in shown:
        here = data[data["panel"] == panel]
        axis = _axis(here)
        parts = _diagonal(axis), *_marks(panel, data, names, titles, axis, ticks, above)
        title = alt.Title(panel, subtitle=titles[1])
        charts.append(panels.layers(*parts, width=plot, height=plot, title=title))
    return panels.spec(charts, columns)


def _axis(here: pd.DataFrame) -> Axis:
    """The axis of a panel, the same in both directions."""
    ends = here[["against", "low", "high"]]
    axis = Axis.of(pd.Series([ends.min(axis=None), ends.max(axis=None)]), log=True)
    return Axis(axis.value(-ROOM), axis.value(1 + ROOM), log=True)


def _diagonal(axis: Axis) -> alt.Chart:
    """The line on which both numbers are equal."""
    ends = [{"x": axis.low, "y": axis.low}, {"x": axis.high, "y": axis.high}]
    line = panels.decoration(ends).mark_line(strokeWidth=1, opacity=0.5, color="currentColor", aria=False)
    return line.encode(x=alt.X("x:Q", scale=axis.scale(padding=EDGE)), y=alt.Y("y:Q", scale=axis.scale(padding=EDGE)))


def _marks(
    panel: str, data: pd.DataFrame, names: list[str], titles: tuple[str, str], axis: Axis, ticks: float, above: alt.Legend
) -> list[alt.Chart]:
    """The bands of one panel, and a point for every row."""
    scale = axis.scale(padding=EDGE)
    wanted = axis.ticks()
    values = axis.apart(wanted, LEAST) if isinstance(wanted, list) else wanted  # those whose labels do not touch
    x = alt.X("against:Q", scale=scale, title=titles[0], axis=alt.Axis(values=values, grid=True, labelExpr=PLAIN))
    side = alt.Axis(values=values, grid=True, labelExpr=PLAIN, **panels.side(True, ticks))
    y = alt.Y("value:Q", scale=scale, title=None, axis=side)
    base = alt.Chart().transform_filter(panels.only(panel)).encode(x=x)
    colour = alt.Color("series:N", scale=style(names, 0), legend=above, title=None)
    bands = base.mark_rule(strokeWidth=1.5, opacity=0.55, aria=False)
    said = panels.mark("pair", titles[1], "panel", "series", "name", "against", more=panels.BAND)
    points = base.mark_point(filled=True, opacity=1, size=38, **said)
    return [
        bands.encode(y=alt.Y("low:Q", scale=scale, title=None), y2=alt.Y2("high:Q"), color=colour),
        points.encode(
            y=y,
            color=colour,
            shape=alt.Shape("series:N", scale=style(names, 2), legend=above, title=None),
            **panels.hollow(data, "series:N", style(names, 0)),
        ),
    ]
