"""Charts: every row is one mark, what is printed is what the rows say, and it can be read by everybody.

They look at the SVG, where positions and texts are plain.
"""

import itertools
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import proof
from support.publish.charts import (
    ISAS,
    LAYOUTS,
    NAMED,
    bar_rows,
    both_layouts,
    change_rows,
    every_kind,
    example,
    heat_rows,
    line_rows,
    pair_rows,
    picture,
    strip_rows,
)
from support.publish.svg import box, elements, faults, marks, overlap, texts
from tramplab.base.errors import TramplabError
from tramplab_book.publish.figures import chart, inline, vega
from tramplab_book.publish.figures.chart import heat_map, lines, scatter, stacked_bars, state_strip, waterfall
from tramplab_book.publish.figures.chart.text import longest_piece, spread, wrap

# -- every kind


def as_said(value) -> str:
    return "no number" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def beside(role: str, row: dict) -> str:
    """What is said of a row's value: its band, or the sum so far."""
    if role in ("pair", "dumbbell"):
        return f" ({as_said(row['low'])} to {as_said(row['high'])})" if row["low"] < row["high"] else ""
    return f" (sum so far: {as_said(row['after'])})" if role == "step" else ""


@every_kind
@both_layouts
def test_every_row_is_one_mark_that_says_what_the_row_says(kind, layout):
    drawing = example(kind)
    keys, value = NAMED[drawing.role]
    said = [mark.get("aria-label") for mark in marks(picture(kind, layout), drawing.role)]
    values = [as_said(row["value"]) + beside(drawing.role, row) for row in drawing.rows]
    heads = ["; ".join(str(row[key]) for key in keys) for row in drawing.rows]
    expected = [f"{head}; {value}: {number}" for head, number in zip(heads, values, strict=True)]
    assert sorted(said) == sorted(expected)


@every_kind
@both_layouts
def test_a_screen_reader_meets_nothing_but_marks_titles_and_axes(kind, layout):
    drawing = example(kind)
    roles = {
        seen.get("aria-roledescription")
        for seen in elements(picture(kind, layout))
        if seen.get("aria-label") or seen.get("role") == "graphics-symbol"
    }
    assert roles <= {drawing.role, "title", "subtitle", "axis", "legend"} and drawing.role in roles


@every_kind
@both_layouts
def test_texts_are_large_enough_inside_the_picture_and_apart(kind, layout):
    svg = picture(kind, layout)
    shown = texts(svg)
    assert len(shown) > 20 and min(float(text.get("font-size").removesuffix("px")) for text in shown) >= 11
    clashes = [(a.text, b.text) for a, b in itertools.combinations(shown, 2) if overlap(box(a), box(b))]
    assert clashes == []
    width, height = (float(ET.fromstring(svg).get(side)) for side in ("width", "height"))
    boxes = [(text.text, box(text)) for text in shown]
    assert [name for name, b in boxes if b[0] < 0 or b[1] < -1 or b[2] > width or b[3] > height] == []


def test_texts_that_overlap_are_seen():
    text = '<text text-anchor="start" font-size="11px" transform="translate(%d,20)">ftrace</text>'
    svg = '<svg xmlns="http://www.w3.org/2000/svg">' + text % 0 + text % 30 + "</svg>"
    assert overlap(*map(box, texts(svg)))


@every_kind
@both_layouts
def test_panels_carry_the_name_of_their_isa(kind, layout):
    printed = Counter(text.text for text in texts(picture(kind, layout)))
    assert [printed[isa] for isa in ISAS] == [1, 1, 1]


@every_kind
@both_layouts
def test_pictures_fit_the_width_they_are_laid_out_for(kind, layout):
    most = {"wide": chart.WIDE, "narrow": chart.NARROW}[layout]
    assert 0.65 * most < float(ET.fromstring(picture(kind, layout)).get("width")) <= most


@every_kind
def test_rows_and_specs_are_json_and_colours_are_those_of_the_page(kind):
    drawing = example(kind)
    json.dumps([drawing.rows, drawing.wide, drawing.narrow], allow_nan=False)
    assert "datasets" not in drawing.wide and drawing.wide["data"] == {"name": "rows"}
    for layout in LAYOUTS:
        assert faults(drawing.spec(layout)) == [] and faults({**drawing.spec(layout), "width": "wide"})
        svg = picture(kind, layout)
        assert "var(--tl-" in svg and "currentColor" in svg
        # nothing that could clash with another chart in a page, or is Vega's own
        assert not re.search(r' (id|class|xlink:href)="|url\(|container', svg)


@every_kind
@both_layouts
def test_a_page_has_what_vega_draws_in_less_space(kind, layout):
    """Every text, every mark and every line where it was, to a tenth of a pixel, with its colours and what it says."""

    def drawn(svg):
        tags = {f"{{{inline.SPACE}}}{tag}" for tag in ("text", "path", "line")}
        seen = [one for one in elements(svg) if one.element.tag in tags]
        return [one for one in seen if one.get("fill") or one.get("stroke") or one.get("aria-label")]

    whole, small = vega.svg(example(kind).spec(layout)), picture(kind, layout)
    assert len(small) < 0.85 * len(whole)
    said = ("fill", "stroke", "aria-label", "aria-roledescription", "stroke-dasharray", "font-size", "text-anchor")
    for a, b in zip(drawn(whole), drawn(small), strict=True):
        assert abs(a.x - b.x) < 0.3 and abs(a.y - b.y) < 0.3  # a place is the sum of several lengths
        assert (a.text, *map(a.get, said)) == (b.text, *map(b.get, said))


@proof
def test_charts_are_the_same_bytes_in_every_process():
    """Also when made in another order: what was drawn before leaves no trace."""
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from support.publish.charts import EXAMPLES\n"
        "made = {kind: EXAMPLES[kind]() for kind in list(EXAMPLES)[::-1]}\n"
        "json.dump({k: [d.rows, d.wide, d.narrow, d.svg('narrow')] for k, d in made.items()}, sys.stdout)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parents[2])]
    there = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    for kind, made in json.loads(there).items():
        drawing = example(kind)
        assert json.dumps(made) == json.dumps([drawing.rows, drawing.wide, drawing.narrow, picture(kind, "narrow")]), (
            kind
        )


# -- what cannot be drawn is refused


def twice(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.assign(release="v6.1")], ignore_index=True)


@pytest.mark.parametrize(
    "kind, frame, complaint",
    [
        (stacked_bars("instructions"), twice(bar_rows()), "several rows for hook=none, component=site, isa=x86_64"),
        (state_strip(), twice(strip_rows()), "several rows for step=1: boot, lane=target, isa=x86_64"),
        (stacked_bars("cycles"), bar_rows(), "no column cycles; they have isa"),
        (stacked_bars("instructions"), bar_rows().iloc[:0], "there are no rows to draw"),
        (stacked_bars("release"), bar_rows(), "release has no numbers"),
        (lines("loads", over="n"), heat_rows().assign(n=range(47)), "not every row has a number in loads"),
        (lines("instructions", "callbacks", log="y"), line_rows().assign(instructions=0), "shows no 0; .* leave y out"),
        (lines("instructions", "callbacks", ("hook", "callbacks")), line_rows(), "28 lines cannot be told apart"),
        (scatter("predicted", "measured", "core", "predicted"), pair_rows(), "series cannot be told apart"),
        (scatter("predicted", "measured", "case", "core"), pair_rows().assign(measured=0), "shows no 0"),
        (
            scatter("predicted", "measured", "case", "core", "predicted", "least"),
            pair_rows(),
            "the band of ops 1 does not hold its predicted",
        ),
        (waterfall("instructions", "change", end="guard"), change_rows(), "a step has the name of the sum, 'guard'"),
    ],
)
def test_rows_that_make_no_chart_are_refused(kind, frame, complaint):
    with pytest.raises(TramplabError, match=complaint):
        kind(frame)


def test_what_does_not_fit_is_refused():
    frame = pd.DataFrame({"isa": "arm64", "hook": "ops", "n": range(60), "lane": "site", "loads": 10**6, "state": "x"})
    with pytest.raises(TramplabError, match=r"a heat map of 60 columns .* swap rows and columns"):
        heat_map("loads", columns="n")(frame)
    with pytest.raises(TramplabError, match="60 columns of states do not fit into"):
        state_strip(step="n")(frame)
    with pytest.raises(TramplabError, match="log is"):
        lines("loads", "n", log="z")
    with pytest.raises(TramplabError, match="a band has two ends"):
        scatter("loads", "n", "isa", "hook", low="loads")


# -- text that fits


@given(st.text("ab_ +-/,[0]", min_size=1, max_size=30), st.integers(1, 30))
def test_wrapped_text_is_complete_and_narrow_enough(text, characters):
    broken = wrap(text, characters)
    assert (broken is None) == (characters < longest_piece(text))
    if broken is not None:
        assert max(map(len, broken)) <= characters
        assert "".join(broken).replace(" ", "") == text.replace(" ", "")


@given(st.lists(st.tuples(st.integers(-50, 250), st.integers(5, 20)), min_size=1, max_size=10))
def test_spread_labels_are_apart_in_order_and_inside(labels):
    wanted, sizes = [w for w, _ in labels], [s for _, s in labels]
    placed = spread(wanted, sizes, 0, 200)
    assert all(size / 2 - 1e-6 <= place <= 200 - size / 2 + 1e-6 for place, size in zip(placed, sizes, strict=True))
    order = sorted(range(len(labels)), key=lambda i: (wanted[i], i))
    for i, j in itertools.pairwise(order):
        assert placed[j] - placed[i] >= (sizes[i] + sizes[j]) / 2 - 1e-6
    free = all(wanted[j] - wanted[i] >= (sizes[i] + sizes[j]) / 2 for i, j in itertools.pairwise(order))
    if free and all(s / 2 <= w <= 200 - s / 2 for w, s in labels):
        assert placed == pytest.approx(wanted)  # nobody moves without need
