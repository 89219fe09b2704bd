"""Dumbbells: what several say of one thing, side by side in its line, with the bands of those that have one."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from .. import panels
from ..axis import PLAIN, Axis
from ..drawing import Drawing
from ..panels import Names
from ..series import legend, require_bands, require_ends, style, told_apart
from ..text import fit, widest
from ..theme import LINE

ROW = 18  # pixels: one line
LABEL = 28  # characters of a name in one line, where its words allow
LEAST = 110  # pixels: the narrowest panel worth reading
FIRST, LATER = 110, 36  # square pixels of a mark: of the first series larger, so that it is seen behind one of the same number
EDGE = 8  # pixels between the outermost mark and the end of the axis
ROOM = 0.02  # of an axis, beyond its ends


def dumbbell(
    value: str,
    name: Names,
    series: Names,
    low: str = "",
    high: str = "",
    facet: str = "isa",
    columns: int = 3,
    shared: bool = False,
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a line per `name`, a mark per row in it, a panel per `facet`.

    The axis is logarithmic; each panel has its own, or all the same with `shared`. The marks of a line are joined. `low` and `high`
    name the ends of a band around the value; a row without numbers there has none. A series has a colour and a shape of its own;
    order is that of the rows, up to `columns` panels stand side by side, one on a phone. Raises TramplabError for more series than
    can be told apart, for numbers that a logarithmic axis cannot show, and for a band with one end only, or that does not hold its
    value.
    """
    require_ends(low, high)

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, name=name, series=series, panel=facet)
        data["value"] = panels.numbers(frame, value)
        for end, column in {"low": low, "high": high}.items():
            ends = pd.Series(panels.numbers(frame, column, missing=True) if column else data["value"].tolist())
            data[end] = ends.where(ends.notna(), data["value"])
        require_bands(data, value)
        names = told_apart(data)
        title = panels.title(frame, value)
        return panels.drawing(
            data, "dumbbell", lambda whole, narrow: _layout(data, names, title, shared, whole, 1 if narrow else columns)
        )

    return draw


def _layout(data: pd.DataFrame, series: list[str], title: str, shared: bool, whole: int, columns: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    lines, labels_once = panels.lines_of(data, "name")
    labels = {name: fit(name, LABEL) for name in panels.order(data["name"])}
    labels_width = widest(labels.values()) + 8
    once, each = (labels_width, 0.0) if labels_once else (0.0, labels_width)
    columns = panels.abreast(whole - once, len(lines), LEAST + each, columns)
    plot = int((whole - once - panels.GAP * (columns - 1)) / columns - each) - 2
    above = legend(series, int(whole - labels_width), symbolOpacity=1)
    charts = []
    for position, panel in enumerate(lines):
        here = data[data["panel"] == panel]
        named = panels.side(position % columns == 0 or not labels_once, labels_width)
        y = alt.Y(
            "name:N",
            sort=lines[panel],
            scale=alt.Scale(domain=lines[panel]),
            title=None,
            axis=panels.named(labels, True, domain=True, **named),
        )
        last = columns > 1 or position == len(lines) - 1
        axis = _axis(data if shared else here)
        parts = _marks(panel, here, data, series, title, title if last else None, y, axis, plot, above)
        height = max(ROW, LINE * max(len(labels[name]) for name in lines[panel]) + 6)
        size = {"width": plot, "height": height * len(lines[panel])}
        charts.append(panels.layers(*parts, title=panel, **size))
    return panels.spec(charts, columns)


def _axis(rows: pd.DataFrame) -> Axis:
    """The axis of these rows and their bands."""
    found = Axis.of(pd.concat([rows["low"], rows["high"]]), log=True)
    return Axis(found.value(-ROOM), found.value(1 + ROOM), log=True)


def _marks(
    panel: str, here: pd.DataFrame, data: pd.DataFrame, series: list[str], name: str, axis_title: str | None, y: alt.Y, axis: Axis,
    plot: int, above: alt.Legend,
) -> list[alt.Chart]:  # fmt: skip
    """What joins the marks of each line of a panel, the bands, and a mark for every row."""
    wanted = axis.ticks()
    values = axis.apart(wanted, plot - 2 * EDGE) if isinstance(wanted, list) else wanted
    scale = axis.scale(padding=EDGE)
    count = len(values) if isinstance(values, list) else alt.Undefined  # without it every other one is left out
    shown = alt.Axis(values=values, tickCount=count, grid=True, labelExpr=PLAIN)
    x = alt.X("value:Q", scale=scale, title=axis_title, axis=shown)
    first = alt.FieldEqualPredicate(field="series", equal=series[0])
    colour = alt.Color("series:N", scale=style(series, 0), legend=above, title=None)
    spans = here.groupby("name", sort=False)["value"].agg(["min", "max"])
    joined = [{"name": line, "from": float(a), "to": float(b)} for line, a, b in spans.itertuples() if a < b]
    joins = panels.decoration(joined or [{"name": here["name"].iloc[0], "from": float(axis.low), "to": float(axis.low)}])
    base = alt.Chart().transform_filter(panels.only(panel))
    said = panels.mark("dumbbell", name, "panel", "name", "series", more=panels.BAND)
    return [
        joins.mark_rule(color="currentColor", opacity=0.5, aria=False).encode(
            x=alt.X("from:Q", scale=scale, title=axis_title), x2=alt.X2("to:Q"), y=y
        ),
        base.mark_rule(strokeWidth=5, opacity=0.35, aria=False).encode(
            x=alt.X("low:Q", scale=scale, title=axis_title), x2=alt.X2("high:Q"), y=y, color=colour
        ),
        base.mark_point(filled=True, opacity=1, **said).encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape("series:N", scale=style(series, 2), legend=above, title=None),
            **panels.hollow(data, "series:N", style(series, 0)),
            size=alt.condition(first, alt.value(FIRST), alt.value(LATER)),
        ),
    ]
