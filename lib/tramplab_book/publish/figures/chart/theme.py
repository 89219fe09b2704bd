"""The look of every chart: colours, sizes of text, and quiet axes.

Colours are CSS variables of the page with the light theme's value as the default; book/_static/book.css declares them
and has the dark theme's. So a chart follows the theme without being redrawn. Text has the colour of the text around it.
"""

import altair as alt

from tramplab.base.errors import TramplabError

#: The parts of a call, in one colour through the whole book: near Okabe-Ito, told apart by colour-blind readers. `function` is
#: grey because it is no part of a hook's cost.
COLOURS = {
    "site": "#d55e00",
    "trampoline": "#0072b2",
    "core": "#009e73",
    "callback": "#cc79a7",
    "function": "#8c8c8c",
    "probe": "#e69f00",
    "guards": "#f0e442",
    "exception": "#3b3b3b",
    "hook": "#56b4e9",
    "graph": "#47207a",
    "kretprobe": "#8c4b1f",
    "copying": "#b2df8a",
}
#: Other names of these parts in charts, where they tell a part apart further or name what is in it.
_PARTS = {
    "site, trampoline": "trampoline",
    "trampolines": "trampoline",
    "ftrace's trampoline": "trampoline",
    "list function": "core",
    "C code": "core",
    "fprobe": "probe",
    "fprobe, return hook": "probe",
    "probe, guards": "probe",
    "kretprobe, fprobe": "probe",
    "return hook": "hook",
    "return trampoline": "hook",
    "the hook's": "hook",
    "graph tracer": "graph",
    "handler, program": "callback",
    "stub": "callback",
    "shim": "callback",
    "direct call's trampoline": "callback",
    "the function's": "function",
}

WIDE, NARROW = 760, 340  # pixels: the text column of the book on a desktop, and on a 390 pixel phone
FONT, LINE, CHARACTER = 12, 14, 7.0  # pixels: the text, a line of it, a character of it in a wide font


def variable(name: str, default: str) -> str:
    """A colour that the page may set, with its value on a light page as the default."""
    return f"var(--tl-{name}, {default})"


#: Things that are no parts of a call, such as the kinds of bytes in a text: one family of quiet colours.
KINDS = [
    variable(f"kind-{n}", value) for n, value in enumerate(["#173f6b", "#4a86bf", "#a9cbe6", "#7a7f87", "#d3c4a5"], 1)
]


def colour(part: str, parts: list[str]) -> str:
    """The colour of one of the parts of a chart: that of a part of a call, or one of KINDS, in the order of `parts`.

    No two parts have the same colour: TramplabError for too many, or for two names of the same part of a call.
    """
    named = {one: _PARTS.get(one, one) for one in parts if _PARTS.get(one, one) in COLOURS}
    others = [one for one in parts if one not in named]
    if len(others) > len(KINDS) or len(set(named.values())) < len(named):
        raise TramplabError(f"there are no {len(parts)} colours for {', '.join(parts)}: draw fewer parts.")
    return variable(named[part], COLOURS[named[part]]) if part in named else KINDS[others.index(part)]


# Lines: near Okabe-Ito, but dark enough for a thin stroke. Dash and shape say the same as the colour.
SERIES = [
    (variable("series-1", "#005391"), [1, 0], "circle"),
    (variable("series-2", "#a23a00"), [7, 3], "square"),
    (variable("series-3", "#07986b"), [2, 2], "triangle-up"),
    (variable("series-4", "#d36aab"), [9, 3, 2, 3], "diamond"),
    (variable("series-5", "#b28800"), [4, 2], "cross"),
    (variable("series-6", "#514c5a"), [12, 2], "triangle-down"),
]

# Cells: one hue that leaves the ground of the page step by step, so darker on a light page and lighter on a dark one.
HEAT = [
    variable(f"heat-{n}", value)
    for n, value in enumerate(["#eef4fa", "#d0e2f1", "#a9cbe6", "#2f74b0", "#195390", "#0a2f5e"], 1)
]
INK, PAPER = variable("ink", "#1f1f1f"), variable("paper", "#ffffff")  # text on light cells, and on dark ones


def ink(shade: int) -> str:
    """The colour of text on the shade (from 1): the page's ink near its ground, the page's paper far from it."""
    return INK if shade <= len(HEAT) // 2 else PAPER


#: What a cell says of a result: right is quiet; wrong is silently so, noticed is wrong but noticed; nothing is what is refused,
#: not asked or not there; plain, one and two tell things apart that are neither right nor wrong; changed is what a step changes.
RIGHT, WRONG, NOTICED, NOTHING = "right", "wrong", "noticed", "nothing"
PLAIN, ONE, TWO, CHANGED = "plain", "one", "two", "changed"
#: The ground of each, and the text on it.
MEANINGS = {
    RIGHT: (variable("right", "#c6dcf0"), INK),
    WRONG: (variable("wrong", "#c22f2f"), PAPER),
    NOTICED: (variable("noticed", "#f2b83a"), variable("on-noticed", "#1f1f1f")),
    NOTHING: ("transparent", INK),
    PLAIN: (variable("plain", "#ececec"), INK),
    ONE: (variable("one", "#86bba4"), INK),
    TWO: (variable("two", "#a893d6"), INK),
    CHANGED: (variable("changed", "#a9cbe6"), INK),
}
HOLLOW = 0.25  # of a mark's ground where it is of what no kernel has; its outline has the whole colour

TOTAL, RISE, FALL = variable("total", "#6e6e6e"), variable("rise", "#d55e00"), variable("fall", "#0072b2")


def configuration() -> dict:
    """The Vega-Lite configuration: quiet axes in the colour of the surrounding text, so that only marks are coloured."""
    return {
        "font": "sans-serif",
        "axis": alt.AxisConfig(
            labelColor="currentColor",
            titleColor="currentColor",
            tickColor="currentColor",
            domainColor="currentColor",
            gridColor="currentColor",
            gridOpacity=0.15,
            labelFontSize=FONT,
            titleFontSize=FONT,
            titleFontWeight="normal",
            labelLimit=220,
        ),
        "axisX": alt.AxisConfig(tickCount=4, labelOverlap="greedy", labelSeparation=6),
        "axisY": alt.AxisConfig(grid=False, ticks=False, domain=True, labelPadding=4),
        "title": alt.TitleConfig(
            color="currentColor",
            subtitleColor="currentColor",
            fontSize=12,
            subtitleFontSize=FONT,
            anchor="start",
            frame="group",
        ),
        "legend": alt.LegendConfig(labelColor="currentColor", labelFontSize=FONT, symbolType="square", columnPadding=16),
        "text": alt.MarkConfig(color="currentColor", fontSize=FONT),
        "view": alt.ViewConfig(stroke=None),
    }
