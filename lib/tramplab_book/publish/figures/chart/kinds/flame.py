"""Flame charts: what a call executes from its first instruction to its last, one function on top of another."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from .. import panels
from ..drawing import Drawing
from ..series import legend
from ..text import width
from ..theme import FONT, INK, colour

ROW = 17  # pixels: one level of functions
MARGIN = 12  # pixels: half a triangle or half a label at the end of the axis, on each side
GROUND = 0.4  # of a box; its edge has the whole colour, and the text on it that of the page


def flame(length: str, mispredicted: str = "", facet: str = "hook", most: int = 0) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: a panel per `facet`, one below the other on one scale, and in it a box per row.

    A box begins at `start` and is `length` wide; those that it contains lie on top of it, `depth` 0 being the lowest. It has the
    colour of its `part`, and its `name` where that fits. mispredicted: a column with how many of the box's own returns are
    mispredicted; a triangle at the end of the box marks these. most: the scale ends there, or at the end of the longest box.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, length, panel=facet, name="name", part="part", at=("start", "depth")).drop(columns="at")
        for key, column in {"value": length, "start": "start", "depth": "depth"}.items():
            data[key] = panels.numbers(frame, column)
        data["end"], data["top"] = data["start"] + data["value"], data["depth"] + 1
        data["missed"] = panels.numbers(frame, mispredicted) if mispredicted else 0
        parts, title = panels.order(data["part"]), panels.title(frame, length)
        return panels.drawing(data, "function", lambda width, _: _layout(data, parts, title, width, most))

    return draw


def _layout(data: pd.DataFrame, parts: list[str], title: str, whole: int, most: int) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide."""
    names, most = panels.order(data["panel"]), max(most, int(data["end"].max()))
    whole -= MARGIN
    colours = alt.Scale(domain=parts, range=[colour(part, parts) for part in parts])
    encoded = {"title": None, "scale": colours, "legend": legend(parts, whole)}
    said = panels.mark("function", title, "panel", "name", "part", "start")
    charts = []
    for panel in names:
        here = data[data["panel"] == panel]
        levels = int(here["top"].max())
        last = panel == names[-1]
        scale = alt.Scale(domain=[0, most], nice=False)
        x = alt.X("start:Q", title=title if last else None, scale=scale, axis=alt.Axis(labels=last))
        y = alt.Y("depth:Q", scale=alt.Scale(domain=[0, levels], nice=False), axis=None)
        boxes = alt.Chart().transform_filter(panels.only(panel)).mark_rect(fillOpacity=GROUND, strokeWidth=1, **said)
        boxes = boxes.encode(
            x=x,
            x2=alt.X2("end:Q"),
            y=y,
            y2=alt.Y2("top:Q"),
            color=alt.Color("part:N", **encoded),
            stroke=alt.Stroke("part:N", **encoded),
        )
        texts, misses = _decorations(here, whole / most, x, y)
        charts.append(panels.layers(boxes, texts, misses, title=panel, width=whole, height=ROW * levels))
    return panels.spec(charts, 1, True)


def _label(name: str, room: float) -> str:
    """A function's name, or its last words, if there is room for two; else "".

    >>> _label("ftrace_ops_list_func", 150), _label("ftrace_ops_list_func", 110), _label("ftrace_ops_list_func", 50)
    ('ftrace_ops_list_func', '…ops_list_func', '')
    """
    words = name.split("_")
    for left in range(len(words) - 1 if len(words) > 2 else 1):
        label = f"{'…' * (left > 0)}{'_'.join(words[left:])}"
        if width(label) + 6 <= room:
            return label
    return ""


def _decorations(here: pd.DataFrame, pixels: float, x: alt.X, y: alt.Y) -> tuple[alt.Chart, alt.Chart]:
    """The names of boxes that have room, so many pixels being one instruction, and triangles at returns that are mispredicted."""
    rows = list(here[["name", "start", "end", "value", "depth", "missed"]].itertuples(index=False, name=None))
    labels = [(_label(name, value * pixels), start, depth) for name, start, _, value, depth, _ in rows]
    names = [{"name": label, "start": start, "depth": depth + 0.5} for label, start, depth in labels if label]
    missed = [{"start": end, "depth": depth + 0.5} for _, _, end, _, depth, missed in rows if missed]
    texts = panels.decoration(names).mark_text(align="left", baseline="middle", dx=3, fontSize=FONT, aria=False)
    shape = {"shape": "triangle-left", "filled": True, "opacity": 1, "size": 60, "color": INK}
    triangles = panels.decoration(missed).mark_point(**shape, aria=False)
    return texts.encode(x=x, y=y, text=alt.Text("name:N")), triangles.encode(x=x, y=y)
