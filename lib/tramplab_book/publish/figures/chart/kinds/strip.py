"""A state strip: what becomes of each part of a thing, step by step."""

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from tramplab.base.errors import TramplabError

from .. import panels
from ..drawing import Drawing
from ..panels import Names
from ..text import fit, widest, wrap
from ..theme import CHANGED, CHARACTER, INK, LINE, MEANINGS, PLAIN

BLOCK = 22  # pixels: the least height of a block
NAME = 14  # characters of a name at the side in one line, where its words allow
EDGE = 4  # pixels of a block that its text leaves free, and between lanes
LEAST = 16  # pixels: the narrowest block that holds a letter


def state_strip(
    step: Names = "step",
    lane: Names = "lane",
    state: str = "state",
    facet: str = "isa",
    meanings: Mapping[str, str] | None = None,
) -> Callable[[pd.DataFrame], Drawing]:
    """A function from rows to a drawing: the state of every lane at every step, in blocks; a panel per `facet`.

    Every row is one mark; equal states that follow each other look like one block, with one label. Steps run to the right, on a
    phone downwards, with only as many lanes side by side as have room for their labels. Where a block is too narrow for its label
    all the same it has a letter, explained below. meanings: what states mean, each one of theme.MEANINGS, the others nothing;
    without, a block stands out where a step has changed the state of its lane. Raises TramplabError if there are more steps than
    fit.
    """

    def draw(frame: pd.DataFrame) -> Drawing:
        data = panels.tidy(frame, state, step=step, lane=lane, panel=facet)
        data["value"] = data["value"].astype(str)
        steps = panels.order(data["step"])
        data["at"] = data["step"].map(steps.index)
        data["next"] = data["at"] + 1
        runs = _runs(data, accents=not meanings)
        ends = {(run.panel, run.lane, run.next) for run in runs}
        data["last"] = [key in ends for key in data[["panel", "lane", "next"]].itertuples(index=False, name=None)]
        changed = {(run.panel, run.lane, run.at) for run in runs if run.changed}  # none where states have meanings
        blocks = data[["panel", "lane", "at", "value"]].itertuples(index=False, name=None)
        data["means"] = [CHANGED if tuple(key) in changed else (meanings or {}).get(state, PLAIN) for *key, state in blocks]
        name = panels.title(frame, state)
        return panels.drawing(data, "state", lambda whole, narrow: _layout(data, runs, name, whole, narrow))

    return draw


@dataclass
class _Run:
    """Equal states that follow each other in one lane, from step `at` to before step `next`; changed: its first block is to stand
    out, since another state was there before."""

    panel: str
    lane: str
    at: int
    next: int
    state: str
    changed: bool


def _runs(data: pd.DataFrame, accents: bool) -> list[_Run]:
    runs: list[_Run] = []
    for _, lane in data.groupby(["panel", "lane"], sort=False):
        for row in lane.sort_values("at").itertuples():
            changed = False
            if runs and (runs[-1].panel, runs[-1].lane) == (row.panel, row.lane):
                before = runs[-1]
                if before.next == row.at and before.state == row.value:
                    before.next = row.next
                    continue
                changed = accents
            runs.append(_Run(row.panel, row.lane, row.at, row.next, row.value, changed))
    return runs


def _labels(runs: list[_Run], room: Sequence[float], words: set[str]) -> tuple[list[list[str]], dict[str, str]]:
    """The lines that fit into each run's `room` pixels, and the letter of each state for which no line does.

    words: what the chart says elsewhere, so is no such letter.
    """
    free = iter(letter for letter in string.ascii_letters if letter not in words)
    labels: list[list[str]] = []
    letters: dict[str, str] = {}
    for run, pixels in zip(runs, room, strict=True):
        lines = wrap(run.state, int(pixels // CHARACTER))
        if lines is None and run.state not in letters:
            letter = next(free, None)
            if letter is None:
                raise TramplabError("there are too many states for the width of a page; show fewer steps or lanes.")
            letters[run.state] = letter
        labels.append(lines or [letters[run.state]])
    return labels, letters


@dataclass
class _Grid:
    """How the blocks of one layout lie.

    together: lanes that stand together in a panel.
    names: lane -> the lines of its name.
    aside: pixels of the names at a panel's side.
    wide: pixels from column to column.
    labels, letters: the lines in each run's block, and the letters, as _labels() has them.
    """

    together: int
    names: dict[str, list[str]]
    aside: float
    wide: int
    labels: list[list[str]]
    letters: dict[str, str]


def _grid(data: pd.DataFrame, runs: list[_Run], whole: int, narrow: bool) -> _Grid:
    """The grid with all lanes of a panel together; where steps run downwards, with only as many as need the fewest letters."""
    steps, lanes = panels.order(data["step"]), panels.order(data["lane"])
    words = set(re.findall(r"\w+", " ".join([*steps, *lanes, *data["value"]])))
    names = {text: fit(text, NAME) for text in (steps if narrow else lanes)}
    aside = widest(names.values()) + 8

    grids = []
    for parts in range(1, len(lanes) + 1 if narrow else 2):
        together = -(-len(lanes) // parts)
        wide = int((whole - aside) / (together if narrow else len(steps)))
        if wide >= LEAST:
            room = [(1 if narrow else run.next - run.at) * wide - EDGE for run in runs]
            grids.append(_Grid(together, names, aside, wide, *_labels(runs, room, words)))
    if not grids:
        raise TramplabError(f"{len(steps)} columns of states do not fit into {whole} pixels; show fewer steps or lanes.")
    return min(grids, key=lambda one: len(one.letters))


#: Panel, lane and step of a block -> what it means, and whether it is of what no kernel has.
_Looks = dict[tuple[str, str, int], tuple[str, bool]]


def _looks_of(data: pd.DataFrame) -> _Looks:
    keys = data[["panel", "lane", "at"]].itertuples(index=False, name=None)
    hollow = data["hollow"] if "hollow" in data else [False] * len(data)
    return dict(zip(keys, zip(data["means"], hollow, strict=True), strict=True))


def _layout(data: pd.DataFrame, runs: list[_Run], name: str, whole: int, narrow: bool) -> dict:
    """The Vega-Lite spec of one layout, `whole` pixels wide; narrow: steps run downwards."""
    steps, lanes = panels.order(data["step"]), panels.order(data["lane"])
    grid = _grid(data, runs, whole, narrow)
    high = max(BLOCK, LINE * max(map(len, grid.names.values())) + 4)
    placed = [_placed(run, label, grid.wide, narrow) for run, label in zip(runs, grid.labels, strict=True)]
    for _, label, blocks in placed:
        high = max(high, math.ceil((LINE * (len(label) - 1) + BLOCK) / (blocks if narrow else 1)))

    top_lines, at_top = panels.above(lanes if narrow else steps, grid.wide - EDGE)
    at_side = panels.side(True, grid.aside)
    step_lines, lane_lines = (grid.names, top_lines) if narrow else (top_lines, grid.names)
    middles = {i + 0.5: step_lines[step] for i, step in enumerate(steps)}
    ticks = {"values": list(middles), "tickCount": len(middles)}
    step_axis = panels.named(middles, narrow, **ticks, **(at_side if narrow else at_top))
    along, across = ("y", "x") if narrow else ("x", "y")
    channel = {"x": alt.X, "y": alt.Y}
    step_scale = alt.Scale(domain=[0, len(steps)], reverse=narrow)
    looks = _looks_of(data)
    charts = []
    for panel in panels.order(data["panel"]):
        there = panels.order(data["lane"][data["panel"] == panel])
        for first in range(0, len(there), grid.together):
            here = {lane: lane_lines[lane] for lane in there[first : first + grid.together]}
            lane_axis = panels.named(here, not narrow, **(at_top if narrow else at_side))
            lane_scale = alt.Scale(domain=list(here), paddingInner=EDGE / (grid.wide if narrow else high), paddingOuter=0)
            where: dict[str, Any] = {
                along: channel[along]("at:Q", scale=step_scale, title=None, axis=step_axis),
                across: channel[across]("lane:N", scale=lane_scale, title=None, axis=lane_axis),
            }
            marks = _marks(data, name, along).encode(**where).transform_filter(panels.only(panel))
            if len(here) < len(there):
                marks = marks.transform_filter(alt.FieldOneOfPredicate(field="lane", oneOf=list(here)))
            own = [one for one in placed if one[0].panel == panel and one[0].lane in here]
            columns, rows = (len(here), len(steps)) if narrow else (len(steps), len(here))
            title = panel if not first else f"{panel}, continued"
            size = {"width": grid.wide * columns, "height": high * rows}
            outlines = [one.encode(**where) for one in _outlines([run for run, *_ in own], looks, along)]
            charts.append(panels.layers(marks, *outlines, _texts(own, looks).encode(**where), title=title, **size))
    return panels.spec([*charts, *panels.key(grid.letters, grid.wide * (grid.together if narrow else len(steps)))], 1)


def _marks(data: pd.DataFrame, name: str, along: str) -> alt.Chart:
    """A block for every row of the frame; the last of a run leaves a gap, the others reach under the next one."""
    gap: dict[str, Any] = {f"{along}2Offset": alt.expr("datum.last ? -2 : 0.5")}
    shown = panels.order(data["means"])
    scale = alt.Scale(domain=shown, range=[MEANINGS[meaning][0] for meaning in shown])
    return (
        alt.Chart()
        .mark_rect(**gap, **panels.mark("state", name, "panel", "step", "lane"))
        .encode(
            **{f"{along}2": "next:Q"},
            color=alt.Color("means:N", scale=scale, legend=None),
            **panels.faint(data),
        )
    )


def _outlines(runs: list[_Run], looks: _Looks, along: str) -> list[alt.Chart]:
    """One outline around each run of what no kernel has."""
    lines = []
    for run in runs:
        means, hollow = looks[run.panel, run.lane, run.at]
        if hollow:
            lines.append({"lane": run.lane, "at": run.at, "next": run.next, "ground": MEANINGS[means][0]})
    if not lines:
        return []
    shape = panels.decoration(lines).mark_rect(fill=None, strokeWidth=1.5, aria=False, **{f"{along}2Offset": -2})
    return [shape.encode(**{f"{along}2": "next:Q"}, stroke=alt.Stroke("ground:N", scale=None))]


def _placed(run: _Run, label: list[str], wide: int, narrow: bool) -> tuple[_Run, list[str], int]:
    """A run, the lines of its label, and over how many of its blocks they are: its first, where that stands out and has room."""
    if run.changed:
        lines = label if narrow else wrap(run.state, int((wide - EDGE) // CHARACTER))
        if lines:
            return run, lines, 1
    return run, label, run.next - run.at


def _texts(labels: list[tuple[_Run, list[str], int]], looks: _Looks) -> alt.Chart:
    """The label of every run, in the middle of the blocks that it is over."""
    records = []
    for run, lines, blocks in labels:
        means, hollow = looks[run.panel, run.lane, run.at]
        for i, line in enumerate(lines):
            ink = INK if hollow else MEANINGS[means][1]
            place = {"lane": run.lane, "at": run.at + blocks / 2, "dy": LINE * (i - (len(lines) - 1) / 2)}
            records.append({**place, "label": line, "ink": ink})
    texts = panels.decoration(records).mark_text(baseline="middle", dy=alt.expr("datum.dy"), aria=False)
    return texts.encode(text=alt.Text("label:N"), color=alt.Color("ink:N", scale=None))
