"""Lines: how a value grows with a count."""

from collections.abc import Callable, Sequence

import altair as alt
import pandas as pd

from tramplab.base.errors import TramplabError

from .. import panels
from ..axis import PLAIN, Axis
from ..drawing import Drawing
from ..panels import Names
from ..series import marks, style, told_apart
from ..text import fit, number, spread, widest, width
from ..theme import LINE

HEIGHT = 170  # pixels of a panel, unless its labels need more
LEAST = 90  # pixels: the narrowest panel worth reading
LABEL = 12  # characters of a label in one line, where its words allow
ROOM = 0.04  # of a value axis, above the largest number
EDGE = 7  # pixels between the first point and the axis
LEADER = 14  # pixels between the end of a line and its label


def lines(
    value: str,
    over: str,
    series: Names = ("hook",),
    facet: Names = "isa",
    shared: bool = True,
    columns: int = 3,
    log: str = "",
    at: Sequence[float] = (),
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: `value` against the count `over`, a line per `series`, a panel per `facet`.

    Every row is a point. A line has its name at its end, and a dash and a shape of its own beside its colour. A linear
    value axis starts at 0; `shared=False` gives each panel its own. `log` names logarithmic axes: "x", "y" or "xy". The
    count axis names the counts of the rows, or those of `at`. Up to `columns` panels are side by side, one on a phone.
    Raises TramplabError for more lines than can be told apart, and for numbers that a logarithmic axis cannot show.
    """
    if log not in ("", "x", "y", "xy"):
        raise TramplabError(f'log is "", "x", "y" or "xy", not {log!r}.')

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, series=series, over=over, panel=facet)
        data["value"] = panels.numbers(frame, value)
        data["over"] = panels.numbers(frame, over)
        names = told_apart(data, "lines")
        for axis, column in (("x", "over"), ("y", "value")):
            if axis in log and (data[column] <= 0).any():
                raise TramplabError(f"a logarithmic axis shows no 0; filter the rows, or leave {axis} out of log.")
        titles = panels.title(frame, over), panels.title(frame, value)

        def layout(whole: int, narrow: bool) -> dict:
            return _layout(data, names, titles, shared, log, at, whole, 1 if narrow else columns)

        return panels.drawing(data, "point", layout)

    return draw


def _layout(
    data: pd.DataFrame, names: list[str], titles: tuple[str, str], shared: bool, log: str, at: Sequence[float], whole: int,
    columns: int,
) -> dict:  # fmt: skip
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    shown = panels.order(data["panel"])
    labels = {name: fit(name, LABEL) for name in names}
    ticks, sides = width(number(data["value"].max())) + 8, LEADER + widest(labels.values())
    once, each = (ticks, sides) if shared else (0, ticks + sides)
    columns = panels.abreast(whole - once, len(shown), LEAST + each, columns)
    plot = int((whole - once - panels.GAP * (columns - 1)) / columns - each)
    height = max(HEIGHT, sum(map(label_height, labels.values())))
    x = Axis.of(data["over"], "x" in log)
    counts = x.apart(sorted(set(at or data["over"])), plot - 2 * EDGE)
    charts = []
    for position, panel in enumerate(shown):
        here = data[data["panel"] == panel]
        y = Axis.of(data["value"] if shared else here["value"], "y" in log, zero=True, room=ROOM)
        last = columns > 1 or position == len(shown) - 1
        across = alt.X(
            "over:Q",
            scale=x.scale(padding=EDGE),
            title=titles[0] if last else None,
            axis=alt.Axis(
                values=counts, tickCount=len(counts), grid=False, labelExpr=PLAIN, labelOverlap=False, labelFlush=False
            ),
        )
        labelled = panels.side(position % columns == 0 or not shared, ticks)
        axis = alt.Axis(values=y.ticks(), grid=True, labelExpr=PLAIN, **labelled)
        up = alt.Y("value:Q", scale=y.scale(), title=None, axis=axis)
        drawn = marks(data, across, up, panel, "point", titles[1], "over", size=42)
        parts = *drawn, *end_labels(here, labels, across, up, y, plot, height)
        title = alt.Title(panel, subtitle=titles[1])
        charts.append(panels.layers(*parts, width=plot, height=height, title=title))
    return panels.spec(charts, columns)


def label_height(label: list[str]) -> int:
    """Pixels of a label with its distance from the next."""
    return LINE * len(label) + 3


def end_labels(
    here: pd.DataFrame, labels: dict[str, list[str]], x: alt.X, y: alt.Y, axis: Axis, plot: int, height: int
) -> list[alt.Chart]:
    """The names of the lines of one panel, right of their ends and each joined to its end."""
    ends = here.loc[here.groupby("series", sort=False)["over"].idxmax(), ["series", "over", "value"]].to_dict("records")
    wanted = [height * (1 - axis.place(end["value"])) for end in ends]
    places = spread(wanted, [label_height(labels[end["series"]]) for end in ends], 0, height)
    texts = []
    for end, place in zip(ends, places, strict=True):
        end["at"] = axis.value(1 - place / height)
        lines = labels[end["series"]]
        for i, line in enumerate(lines):
            middle = place + LINE * (i - (len(lines) - 1) / 2)
            texts.append({"at": axis.value(1 - middle / height), "label": line})
    joins = panels.decoration(ends).mark_rule(strokeWidth=1, opacity=0.6, aria=False)
    names = panels.decoration(texts).mark_text(align="left", baseline="middle", aria=False)
    colour = alt.Color("series:N", scale=style(list(labels), 0), legend=None)
    return [
        joins.encode(x=x, y=y, x2=alt.X2Value(plot + LEADER - 3), y2=alt.Y2("at:Q"), color=colour),
        names.encode(
            x=alt.XValue(plot + LEADER), y=alt.Y("at:Q", scale=y["scale"], title=None), text=alt.Text("label:N")
        ),
    ]
