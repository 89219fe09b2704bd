"""Steps: a number that stays what it is from release to release until something changes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd

from .. import panels
from ..axis import PLAIN, Axis
from ..drawing import Drawing
from ..panels import Names
from ..series import marks, told_apart
from ..text import fit, number, widest, width
from ..theme import LINE
from .lines import EDGE, LEADER, LEAST, end_labels, label_height

HEIGHT = 210  # pixels of a panel, unless its labels need more
LABEL = 12  # characters of a label in one line, where its words allow
ROOM = 0.12  # of the value axis, above the largest number: for the numbers and the name of the rule
NEAR = 12  # pixels between two numbers at one stage


def steps(
    value: str, stage: str = "release", series: Names = ("hook",), facet: str = "isa", since: str = "", columns: int = 3
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: `value` at each `stage`, in the order of the rows, a line of steps per `series`.

    Every row is a point; a line has its number where it begins and where it changes, and its name at its end. since: a
    column of yes and no; where a panel's answer becomes yes, a rule stands with the column's name. Up to `columns` panels stand
    side by side, one on a phone. Raises TramplabError for more lines than can be told apart.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, value, series=series, stage=stage, panel=facet)
        data["value"] = panels.numbers(frame, value)
        stages = panels.order(data["stage"])
        told_apart(data, "lines")
        data["over"] = data["stage"].map(stages.index)
        begins = _begins(data, frame[since]) if since else {}
        title = panels.title(frame, value)

        def layout(whole: int, narrow: bool) -> dict:
            return _layout(data, stages, title, begins, since, whole, 1 if narrow else columns)

        return panels.drawing(data, "stage", layout)

    return draw


def _begins(data: pd.DataFrame, answers: pd.Series) -> dict[str, int]:
    """Panel -> the stage, counted from 0, at which the answer becomes yes; without panels in which it never changes."""
    found = {}
    for panel, part in data.assign(yes=answers.to_numpy(bool)).groupby("panel", sort=False):
        if not part["yes"].all() and part["yes"].any():
            found[str(panel)] = int(part["over"][part["yes"]].min())
    return found


def _layout(
    data: pd.DataFrame, stages: list[str], title: str, begins: dict[str, int], rule: str, whole: int, columns: int
) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    shown, names = panels.order(data["panel"]), panels.order(data["series"])
    labels = {name: fit(name, LABEL) for name in names}
    ticks, sides = width(number(data["value"].max())) + 8, LEADER + widest(labels.values())
    columns = panels.abreast(whole - ticks, len(shown), LEAST + sides, columns)
    plot = int((whole - ticks - panels.GAP * (columns - 1)) / columns - sides)
    height = max(HEIGHT, sum(map(label_height, labels.values())))
    x = Axis.of(data["over"], False)
    y = Axis.of(data["value"], False, zero=True, room=ROOM)
    turned = max(map(width, stages)) + 6 > (plot - 2 * EDGE) / max(1, len(stages) - 1)
    axis = alt.Axis(
        values=list(range(len(stages))),
        tickCount=len(stages),
        grid=False,
        labelExpr=f"{stages!r}[datum.value]",
        labelAngle=-90 if turned else 0,
        minExtent=max(map(width, stages)) + 4 if turned else 0,
        labelOverlap=False,
    )
    charts = []
    for position, panel in enumerate(shown):
        here = data[data["panel"] == panel]
        across = alt.X("over:Q", scale=x.scale(padding=EDGE), title=None, axis=axis)
        side = panels.side(position % columns == 0, ticks)
        up = alt.Y("value:Q", scale=y.scale(), title=None, axis=alt.Axis(grid=True, labelExpr=PLAIN, **side))
        parts = [
            *_rule(begins.get(panel), len(stages), rule, across, y),
            *marks(data, across, up, panel, "stage", title, "stage", size=30, interpolate="step-after"),
            _numbers(here, across, up, height / (y.high - y.low)),
            *end_labels(here, labels, across, up, y, plot, height),
        ]
        charts.append(panels.layers(*parts, width=plot, height=height, title=alt.Title(panel, subtitle=title)))
    return panels.spec(charts, columns)


def _rule(at: int | None, stages: int, name: str, x: alt.X, y: Axis) -> list[alt.Chart]:
    """A rule at a stage with its name at the top, on the side where there is more room; nothing where there is none."""
    if at is None:
        return []
    base = panels.decoration([{"over": at, "value": y.high, "label": name}]).encode(x=x)
    left = 2 * at >= stages
    text = base.mark_text(baseline="top", align="right" if left else "left", dx=-4 if left else 4, aria=False)
    top = alt.Y("value:Q", scale=y.scale(), title=None)
    line = base.mark_rule(color="currentColor", strokeDash=[2, 2], opacity=0.7, aria=False)
    return [line, text.encode(y=top, text=alt.Text("label:N"))]


def _numbers(here: pd.DataFrame, x: alt.X, y: alt.Y, scale: float) -> alt.Chart:
    """The number of each line where it begins and where it changes, but for one that would stand on another's."""
    records: list[dict] = []
    last = here["over"].max()
    for _, line in here.groupby("series", sort=False):
        before = None
        for point in line.sort_values("over")[["over", "value"]].to_dict("records"):
            if before is None or abs(point["value"] - before) * scale > LINE:
                taken = [r for r in records if r["over"] == point["over"]]
                if all(abs(r["value"] - point["value"]) * scale > NEAR for r in taken):
                    records.append({**point, "label": number(point["value"]), "last": bool(point["over"] == last)})
            before = point["value"]
    # right of the last stage are the names
    aside: dict[str, Any] = {"align": alt.expr("datum.last ? 'right' : 'left'"), "dx": alt.expr("datum.last ? -3 : 3")}
    texts = panels.decoration(records).mark_text(baseline="bottom", dy=-2, aria=False, **aside)
    return texts.encode(x=x, y=y, text=alt.Text("label:N"))
