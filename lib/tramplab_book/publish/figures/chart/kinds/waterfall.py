"""A waterfall: from one total to another, change by change."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from tramplab.base.errors import TramplabError

from .. import panels
from ..drawing import Drawing
from ..panels import Names
from ..text import fit, number, signed, widest, width
from ..theme import FALL, LINE, RISE, TOTAL

ROW = 22  # pixels: one bar with its gap
LABEL = 18  # characters of a step's name in one line, where its words allow
LEAST = 90  # pixels: the narrowest panel worth reading
COLOURS = {"total": TOTAL, "rise": RISE, "fall": FALL}
SO_FAR = "' (sum so far: ' + datum.after + ')'"  # what is said of a bar besides its own number


def waterfall(
    value: str, step: Names, end: str = "total", facet: str = "isa", shared: bool = True, columns: int = 3
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: the first row of a panel is a total, each further one a change to it.

    Every row is one mark. A bar named `end`, the sum, closes each panel and is no row. Colour and sign tell a rising change
    from a falling one. Order is that of the rows; `shared=False` gives each panel its
    own scale. Up to `columns` panels stand side by side, one on a phone. Raises TramplabError if a step is called `end`.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, step=step, panel=facet)
        data["value"] = panels.numbers(frame, value)
        if end in set(data["step"]):
            raise TramplabError(f"a step has the name of the sum, {end!r}; name the sum with end=, or drop that row.")
        changes = data.groupby("panel", sort=False)["value"]
        data["after"] = changes.cumsum()
        first = changes.cumcount() == 0
        data["before"] = (data["after"] - data["value"]).where(~first, 0)
        data["kind"] = (data["value"] < 0).map({True: "fall", False: "rise"}).where(~first, "total")
        name = panels.title(frame, value)

        def layout(whole: int, narrow: bool) -> dict:
            return _layout(data, name, end, shared, whole, 1 if narrow else columns)

        return panels.drawing(data, "step", layout)

    return draw


def _layout(data: pd.DataFrame, name: str, end: str, shared: bool, whole: int, columns: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    steps, labels_once = panels.lines_of(data, "step")
    bars = {panel: [*names, end] for panel, names in steps.items()}
    names = {step: fit(step, LABEL) for step in [*panels.order(data["step"]), end]}
    labels_width = widest(names.values()) + 8
    numbers_width = max(width(signed(value)) for value in [*data["value"], *data["after"]]) + 6
    once, each = (labels_width, numbers_width) if labels_once else (0, labels_width + numbers_width)
    columns = panels.abreast(whole - once, len(bars), LEAST + each, columns)
    plot = int((whole - once - panels.GAP * (columns - 1)) / columns - each)
    height = max(ROW, LINE * max(map(len, names.values())) + 4)
    charts = []
    for position, panel in enumerate(bars):
        last = columns > 1 or position == len(bars) - 1
        axis = panels.named(
            names, True, domain=True, **panels.side(position % columns == 0 or not labels_once, labels_width)
        )
        y = alt.Y("step:N", sort=bars[panel], scale=alt.Scale(domain=bars[panel]), title=None, axis=axis)
        here = data[data["panel"] == panel]
        joins, sum_bar, texts = _decorations(here, end, y, name if last else None)
        marks = _steps(data, name, y, name if last else None).transform_filter(panels.only(panel))
        size = {"width": plot, "height": height * len(bars[panel])}
        charts.append(panels.layers(joins, marks, sum_bar, texts, title=panel, **size))
    return panels.spec(charts, columns, shared)


def _steps(data: pd.DataFrame, name: str, y: alt.Y, axis_title: str | None) -> alt.Chart:
    """A bar for every row of the frame."""
    scale = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    colour = alt.Color("kind:N", scale=scale, legend=None)
    return (
        alt.Chart()
        .mark_bar(height=ROW - 8, **panels.mark("step", name, "panel", "step", more=SO_FAR))
        .encode(
            x=alt.X("before:Q", title=axis_title),
            x2=alt.X2("after:Q"),
            y=y,
            color=colour,
            **panels.hollow(data, "kind:N", scale),
        )
    )


def _decorations(here: pd.DataFrame, end: str, y: alt.Y, axis_title: str | None) -> tuple[alt.Chart, ...]:
    """The marks that are no rows: lines from bar to bar, the bar of the sum, and the numbers."""
    columns = here[["step", "kind", "value", "before", "after"]].itertuples(index=False, name=None)
    bars = [dict(zip(("step", "kind", "value", "before", "after"), bar, strict=True)) for bar in columns]
    total = bars[-1]["after"]
    bars.append({"step": end, "kind": "total", "value": total, "before": 0, "after": total})
    for bar, following in zip(bars, [*bars[1:], bars[-1]], strict=True):
        bar["next"] = following["step"]
        bar["right"] = max(bar["before"], bar["after"], 0)
        bar["label"] = number(bar["value"]) if bar["kind"] == "total" else signed(bar["value"])
    joins = panels.decoration([{key: bar[key] for key in ("after", "step", "next")} for bar in bars[:-1]])
    texts = panels.decoration([{key: bar[key] for key in ("right", "step", "label")} for bar in bars])
    sums = panels.decoration([{key: bars[-1][key] for key in ("before", "after", "step")}])

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=axis_title)

    return (
        joins.mark_rule(color="currentColor", opacity=0.5, aria=False).encode(x=x("after"), y=y, y2=alt.Y2("next:N")),
        sums.mark_bar(height=ROW - 8, color=TOTAL, aria=False).encode(x=x("before"), x2=alt.X2("after:Q"), y=y),
        texts.mark_text(align="left", dx=5, aria=False).encode(x=x("right"), y=y, text=alt.Text("label:N")),
    )
