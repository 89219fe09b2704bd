"""Series of marks: told apart by colour, dash and shape, drawn as lines, or named by a legend, and with bands around values."""

from typing import Any

import altair as alt
import pandas as pd

from tramplab.base.errors import TramplabError

from . import panels
from .text import width
from .theme import SERIES


def told_apart(data: pd.DataFrame, what: str = "series") -> list[str]:
    """The names of the series, in the order of the rows; raises TramplabError for more than can be told apart."""
    names = panels.order(data["series"])
    if len(names) > len(SERIES):
        raise TramplabError(f"{len(names)} {what} cannot be told apart; show at most {len(SERIES)} in one chart.")
    return names


def require_bands(data: pd.DataFrame, value: str, *others: str) -> None:
    """Raises TramplabError if a logarithmic axis cannot show the numbers, their bands or others, or a band does not hold its
    number."""
    if (data[["value", "low", "high", *others]] <= 0).any(axis=None):
        raise TramplabError("a logarithmic axis shows no 0; filter the rows.")
    outside = data[(data["low"] > data["value"]) | (data["value"] > data["high"])]
    if len(outside):
        raise TramplabError(f"the band of {outside['name'].iloc[0]} does not hold its {value}; look at the rows.")


def require_ends(low: str, high: str) -> None:
    """Raise TramplabError where a chart is given one end of a band only."""
    if bool(low) != bool(high):
        raise TramplabError("a band has two ends: name both low and high, or neither.")


def style(names: list[str], part: int) -> alt.Scale:
    """Colour (0), dash (1) or shape (2) of every series, the same in every panel."""
    return alt.Scale(domain=names, range=[SERIES[i][part] for i in range(len(names))])


def legend(names: list[str], pixels: int, **options: Any) -> alt.Legend:
    """A legend above the panels, as many names in a line as so many pixels have room for."""
    fit = max(1, int(pixels // (max(map(width, names)) + 24)))
    return alt.Legend(orient="top", columns=min(len(names), fit), **options)


def marks(
    data: pd.DataFrame, x: alt.X, y: alt.Y, panel: str, role: str, title: str, over: str, size: int, **line: Any
) -> tuple[alt.Chart, ...]:
    """The lines of one panel, and a point of so many square pixels for every row, read out as `role`; over: the field of what a
    point's number is at; line: options of the lines."""
    names = panels.order(data["series"])
    base = (
        alt.Chart()
        .transform_filter(panels.only(panel))
        .encode(x=x, y=y, color=alt.Color("series:N", scale=style(names, 0), legend=None))
    )
    dash = alt.StrokeDash("series:N", scale=style(names, 1), legend=None)
    lines = base.mark_line(strokeWidth=1.5, aria=False, **line).encode(strokeDash=dash)
    said = panels.mark(role, title, "panel", "series", over)
    points = base.mark_point(filled=True, opacity=1, size=size, **said).encode(
        shape=alt.Shape("series:N", scale=style(names, 2), legend=None),
        **panels.hollow(data, "series:N", style(names, 0)),
    )
    return lines, points
