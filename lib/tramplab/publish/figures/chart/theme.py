"""The look of every chart: colours, sizes of text, and quiet axes.

Colours are CSS variables of the page with the light theme's value as the default; book/_static/book.css declares them
and has the dark theme's. So a chart follows the theme without being redrawn. Text has the colour of the text around it.
"""

import altair as alt

from ....base.errors import TramplabError

# Okabe-Ito, told apart by colour-blind readers; `function` is grey because it is no part of a hook's cost.
COLOURS = {
    "site": "#d55e00",
    "trampoline": "#0072b2",
    "core": "#009e73",
    "callback": "#cc79a7",
    "function": "#8c8c8c",
}
# What the kernel's C code does beyond ftrace's dispatch, in charts that tell it apart from `core`.
CORE_COLOURS = {"probe": "#e69f00", "guards": "#f0e442", "exception": "#3b3b3b"}
SPARE_COLOURS = ["#e69f00", "#56b4e9", "#f0e442"]  # for components that are not in the list above

WIDE, NARROW = 670, 340  # pixels: the text column of the book on a desktop, and on a 390 pixel phone
FONT, LINE, CHARACTER = 11, 13, 6.6  # pixels: the text, a line of it, a character of it in a wide font


def variable(name: str, default: str) -> str:
    """A colour that the page may set, and what it is on a light page."""
    return f"var(--tl-{name}, {default})"


def colour(part: str, parts: list[str]) -> str:
    """The colour of a component; those without one of their own get spare ones, in the order of `parts`, and where there are
    more of them than spare colours those of the components, which must then be absent. No two parts have the same colour:
    TramplabError for too many.
    """
    every = COLOURS | CORE_COLOURS
    named = every if every.keys() >= set(parts) else COLOURS
    if part in named:
        return variable(part, named[part])
    others = [name for name in parts if name not in named]
    palette = list(SPARE_COLOURS)
    if len(others) > len(palette) and others == list(parts):
        palette = [variable(*pair) for pair in COLOURS.items()]
    if len(others) > len(palette):
        raise TramplabError(f"there are no {len(others)} colours for {', '.join(others)}: draw fewer parts.")
    return palette[others.index(part)]


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


# States: pale grounds for text.
STATES = [
    variable(f"state-{n}", value)
    for n, value in enumerate(["#d7e8ff", "#d8a98b", "#a9f6d9", "#c8b1c3", "#f5e3a0", "#b1b4e6"], 1)
]
QUIET = variable("quiet", "#ececec")  # the ground of a state in which nothing is set

TOTAL, RISE, FALL = variable("total", "#6e6e6e"), variable("rise", "#d55e00"), variable("fall", "#0072b2")


def configuration() -> dict:
    """Quiet axes in the colour of the surrounding text; the marks are what is coloured."""
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
        "legend": alt.LegendConfig(labelColor="currentColor", labelFontSize=FONT, symbolType="square"),
        "text": alt.MarkConfig(color="currentColor", fontSize=FONT),
        "view": alt.ViewConfig(stroke=None),
    }
