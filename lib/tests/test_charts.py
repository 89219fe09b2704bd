"""Charts: every row is one mark, what is printed is what the rows say, and it can be read by everybody.

Most tests look at the static SVG, where positions and texts are plain; one draws all charts in a browser.
"""

import itertools
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from charts import (
    EXAMPLES,
    ISAS,
    LAYOUTS,
    LIFE,
    NAMED,
    STEPS,
    Seen,
    bar_rows,
    both_layouts,
    box,
    change_rows,
    elements,
    every_kind,
    example,
    heat_rows,
    line_rows,
    marks,
    overlap,
    pair_rows,
    picture,
    strip_rows,
    texts,
)
from hypothesis import given
from hypothesis import strategies as st

from tramplab.errors import TramplabError
from tramplab.publish import chart, vega
from tramplab.publish.chart import heat_map, lines, scatter, stacked_bars, state_strip, theme, waterfall
from tramplab.publish.chart.text import longest_piece, number, signed, spread, wrap

# -- every kind


@every_kind
@both_layouts
def test_every_row_is_one_mark_that_says_what_the_row_says(kind, layout):
    drawing = example(kind)
    keys, value = NAMED[drawing.role]
    said = [mark.get("aria-label") for mark in marks(picture(kind, layout), drawing.role)]
    values = [row["value"] for row in drawing.rows]
    values = ["no number" if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in values]
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
    assert 0.75 * most < float(ET.fromstring(picture(kind, layout)).get("width")) <= most


@every_kind
def test_rows_and_specs_are_json_and_colours_are_plain_only_in_the_picture(kind):
    drawing = example(kind)
    json.dumps([drawing.rows, drawing.wide, drawing.narrow], allow_nan=False)
    assert "var(--tl-" in json.dumps(drawing.wide)
    assert "datasets" not in drawing.wide and drawing.wide["data"] == {"name": "rows"}
    for layout in LAYOUTS:
        assert not re.search(r"var\(|currentColor", picture(kind, layout))
        assert ' id="' not in picture(kind, layout)  # nothing that could clash with another picture in a page


def test_charts_are_the_same_bytes_in_every_process():
    """Also when made in another order: what was drawn before leaves no trace."""
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from charts import EXAMPLES\n"
        "made = {kind: EXAMPLES[kind]() for kind in list(EXAMPLES)[::-1]}\n"
        "json.dump({k: [d.rows, d.wide, d.narrow, d.svg('narrow')] for k, d in made.items()}, sys.stdout)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for kind, made in json.loads(there).items():
        drawing = example(kind)
        assert json.dumps(made) == json.dumps([drawing.rows, drawing.wide, drawing.narrow, picture(kind, "narrow")]), (
            kind
        )


def test_charts_are_drawn_in_a_browser_without_a_word_on_the_console(browser, tmp_path):
    """The live chart has the same marks and text as the static one, and Vega has nothing to warn of."""
    (tmp_path / "vega-bundle.js").write_text(vega.bundle())
    (tmp_path / "page.html").write_text('<!doctype html><script src="vega-bundle.js"></script><div id="chart"></div>')
    said = []
    page = browser.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    for kind, layout in itertools.product(EXAMPLES, LAYOUTS):
        drawing = example(kind)
        spec = {**getattr(drawing, layout), "datasets": {"rows": drawing.rows}}
        page.evaluate("spec => tramplabVega('#chart', spec, {actions: false, renderer: 'svg'}).then(() => 0)", spec)
        assert len(page.query_selector_all(f'svg [aria-roledescription="{drawing.role}"]')) == len(drawing.rows)
        live = page.eval_on_selector_all("svg text", "all => all.map(e => e.textContent)")
        static = [seen for seen in elements(picture(kind, layout)) if seen.element.tag.endswith("}text")]
        assert {"".join(seen.element.itertext()) for seen in static} <= set(live), (kind, layout)
    page.close()
    assert said == []


# -- what cannot be drawn is refused


def twice(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.assign(release="v6.1")], ignore_index=True)


@pytest.mark.parametrize(
    "kind, frame, complaint",
    [
        (stacked_bars("instructions"), twice(bar_rows()), "several rows for hook=none, component=site, isa=x86_64"),
        (lines("instructions", "callbacks"), twice(line_rows()), "several rows for hook=ops, callbacks=1, isa=x86_64"),
        (heat_map("loads", columns="isa"), heat_rows(), "several rows for hook=ops, isa=x86_64"),
        (state_strip(), twice(strip_rows()), "several rows for step=1: boot, lane=target, isa=x86_64"),
        (waterfall("instructions", "change"), twice(change_rows()), "several rows for change=ops in v6.1, isa=x86_64"),
        (stacked_bars("cycles"), bar_rows(), "no column cycles; they have isa"),
        (lines("instructions", over="ops"), line_rows(), "no column ops; they have isa"),
        (heat_map("loads", rows=("hook", "core")), heat_rows(), "no column core; they have isa"),
        (state_strip(lane="part"), strip_rows(), "no column part; they have isa"),
        (waterfall("instructions", "step"), change_rows(), "no column step; they have isa"),
        (stacked_bars("instructions"), bar_rows().iloc[:0], "there are no rows to draw"),
        (stacked_bars("release"), bar_rows(), "release has no numbers"),
        (lines("instructions", over="hook", series="callbacks"), line_rows(), "hook has no numbers"),
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
    frame = pd.DataFrame({"isa": "arm64", "hook": "ops", "n": range(40), "lane": "site", "loads": 10**6, "state": "x"})
    with pytest.raises(TramplabError, match=r"a heat map of 40 columns .* swap rows and columns"):
        heat_map("loads", columns="n")(frame)
    with pytest.raises(TramplabError, match="40 columns of states do not fit into"):
        state_strip(step="n")(frame)
    with pytest.raises(TramplabError, match="log is"):
        lines("loads", "n", log="z")
    with pytest.raises(TramplabError, match="a band has two ends"):
        scatter("loads", "n", "isa", "hook", low="loads")


# -- stacked bars


@both_layouts
def test_bars_end_in_their_total(layout):
    rows = bar_rows()
    ends: dict[tuple[str, str], Seen] = {}
    for mark in marks(picture("bars", layout), "bar"):
        isa, hook = mark.get("aria-label").split("; ")[:2]
        ends[isa, hook] = max(mark, ends.get((isa, hook), mark), key=lambda seen: seen.rectangle()[2])
    for (isa, hook), total in rows.groupby(["isa", "hook"])["instructions"].sum().items():
        _, top, right, bottom = ends[isa, hook].rectangle()
        (label,) = [t for t in texts(picture("bars", layout)) if 0 < t.x - right < 9 and top < t.y < bottom + 2]
        assert label.text == str(total)


def test_the_colours_of_components_are_their_own_and_others_get_spare_ones():
    drawing = stacked_bars("instructions")(bar_rows())
    assert {mark.get("fill") for mark in marks(drawing.svg(), "bar")} == set(chart.COLOURS.values())
    colours = [chart.colour(part, ["site", "fix-up", "retry"]) for part in ("site", "fix-up", "retry")]
    assert len(set(colours)) == 3 and not set(colours[1:]) & set(chart.COLOURS.values())


@pytest.mark.parametrize("kind, rows", [(stacked_bars, bar_rows), (waterfall, change_rows)])
def test_scales_are_shared_or_independent(kind, rows):
    options = () if kind is stacked_bars else ("change",)
    for shared, said in ((True, "shared"), (False, "independent")):
        assert kind("instructions", *options, shared=shared)(rows()).wide["resolve"]["scale"]["x"] == said


def test_a_bar_stands_in_the_same_line_of_every_panel():
    rows = bar_rows()
    lacking = rows[(rows["isa"] != "arm64") | (rows["hook"] != "ops")]
    svg = stacked_bars("instructions")(lacking).svg()
    heights = {mark.get("aria-label").split("; ")[1]: set() for mark in marks(svg, "bar")}
    for mark in marks(svg, "bar"):
        heights[mark.get("aria-label").split("; ")[1]].add(mark.rectangle()[1])
    assert [len(places) for places in heights.values()] == [1, 1, 1]
    assert Counter(text.text for text in texts(svg))["none"] == 1  # so one panel's names do for all


def test_panels_with_names_of_their_own_print_them():
    rows = bar_rows().assign(hook=lambda frame: frame["hook"] + " " + frame["isa"])
    printed = Counter(text.text for text in texts(stacked_bars("instructions")(rows).svg()))
    assert {printed[f"none {isa}"] for isa in ISAS} == {1}


# -- lines


@pytest.mark.parametrize("kind", ["lines", "lines, log"])
@both_layouts
def test_names_stand_right_of_their_lines_in_the_order_of_their_ends(kind, layout):
    points = marks(picture(kind, layout), "point")
    for isa in ISAS:
        here = {}  # by line, its last point
        for point in points:
            panel, name, count, _ = point.get("aria-label").split("; ")
            if panel == isa and (name not in here or int(count) > here[name][0]):
                here[name] = (int(count), point)
        ends = {name: point for name, (_, point) in here.items()}
        right, top = max(p.x for p in ends.values()), min(p.y for p in ends.values()) - 20
        labels = [t for t in texts(picture(kind, layout)) if right < t.x < right + 60 and top < t.y < top + 200]
        labels = [t for t in labels if any(t.text in name for name in ends)]
        by_end = sorted(ends, key=lambda name: ends[name].y)
        assert " ".join(t.text for t in sorted(labels, key=lambda t: t.y)) == " ".join(by_end)


@pytest.mark.parametrize("kind, scale", [("lines", float), ("lines, log", math.log)])
@pytest.mark.parametrize("axis, field", [("x", "over"), ("y", "value")])
def test_points_are_where_their_numbers_are(kind, scale, axis, field):
    """In a panel, pixels grow with the number, or with its logarithm: two points fix where all others must be."""
    for isa in ISAS:
        points = [p for p in marks(picture(kind), "point") if p.get("aria-label").startswith(isa)]
        numbers = [
            re.search({"over": r"; (\d+); ", "value": r": (\d+)$"}[field], p.get("aria-label"))[1] for p in points
        ]
        pairs = [(scale(float(n)), getattr(p, axis)) for n, p in zip(numbers, points, strict=True)]
        (low, start), (high, end) = min(pairs), max(pairs)
        assert low < high and abs(end - start) > 60
        assert all(abs(start + (n - low) / (high - low) * (end - start) - pixel) < 0.6 for n, pixel in pairs)


@both_layouts
def test_pairs_of_equal_numbers_lie_on_the_diagonal_and_bands_hold_their_points(layout):
    rows = pair_rows()
    rows["predicted"] = rows["measured"] * rows["core"].map({"Cortex-A72": 1, "a core with a longer name": 2})
    svg = scatter("predicted", "measured", "case", "core")(rows).svg(layout)
    for isa in ISAS:
        points = [p for p in marks(svg, "pair") if p.get("aria-label").startswith(isa)]
        equal = {round(p.x + p.y, 1) for p in points if "Cortex" in p.get("aria-label")}
        double = {round(p.x + p.y, 1) for p in points if "Cortex" not in p.get("aria-label")}
        assert max(equal) - min(equal) < 0.3 and max(double) - min(double) < 0.3
        assert min(equal) - max(double) > 5  # what is predicted too large is above the line
    ends = [seen for seen in elements(picture("pairs", layout)) if seen.element.tag.endswith("}line")]
    bands = [
        (e.x, e.y, e.y + float(e.get("y2"))) for e in ends if e.get("x2") == "0" and e.get("stroke-width") == "1.5"
    ]
    points = marks(picture("pairs", layout), "pair")
    assert len(points) == 30
    for p in points:
        assert any(abs(x - p.x) < 0.1 and min(a, b) - 0.1 <= p.y <= max(a, b) + 0.1 for x, a, b in bands), p.get(
            "aria-label"
        )


def test_one_scale_for_all_panels_or_one_each():
    """Each on its own scale, the largest numbers of all panels are equally high; on one scale they are not."""
    rows = line_rows()
    rows["instructions"] *= rows["isa"].map({"x86_64": 1, "arm64": 2, "riscv64": 3})
    for shared in (True, False):
        points = marks(lines("instructions", over="callbacks", shared=shared)(rows).svg(), "point")
        tops = [min(p.y for p in points if p.get("aria-label").startswith(isa)) for isa in ISAS]
        assert (max(tops) - min(tops) > 100) == shared and (max(tops) - min(tops) < 1) != shared


def test_axes_print_the_counts_themselves_first_and_last_always():
    for kind, layout, counts in (
        ("lines, log", "narrow", (1, 2, 4, 8, 16, 32)),
        ("lines, log", "wide", (1, 2, 4, 8, 32)),
        ("lines", "wide", (1, 8, 16, 32)),
    ):
        printed = [text for text in texts(picture(kind, layout)) if text.text in {"1", "2", "4", "8", "16", "32"}]
        assert Counter(text.text for text in printed) == {str(n): 3 for n in counts}
        at = {(t.text, round(t.x), round(t.y)) for t in printed}
        points = {(p.get("aria-label").split("; ")[2], round(p.x)) for p in marks(picture(kind, layout), "point")}
        assert all(any(abs(x - other) <= 6 for count, other in points if count == text) for text, x, _ in at)


def test_lines_differ_in_more_than_colour():
    assert len({tuple(dash) for _, dash, _ in theme.SERIES}) == len({shape for *_, shape in theme.SERIES}) == 6


# -- heat maps


@both_layouts
def test_every_cell_has_its_number_or_a_dash(layout):
    rows = heat_rows()
    drawing = heat_map("loads")(rows)
    missing = len(ISAS) * 4 * 5 - rows["loads"].notna().sum()
    inside = [t for t in texts(drawing.svg(layout)) if re.fullmatch(r"\d+|\N{EN DASH}", t.text)]
    assert Counter(t.text for t in inside) == Counter(map(number, rows["loads"].dropna())) + Counter(
        "\N{EN DASH}" * missing
    )
    for mark in marks(drawing.svg(layout), "cell"):
        left, top, right, bottom = mark.rectangle()
        (text,) = [t for t in inside if left < t.x < right and top < t.y < bottom]
        value = mark.get("aria-label").rpartition(": ")[2]
        assert text.text == (value if value != "no number" else "\N{EN DASH}")
        assert bottom - top >= 20 and right - left >= 6 * len(text.text) + 4


def shades(frame: pd.DataFrame, **options) -> list[int]:
    return [row["shade"] for row in heat_map("loads", **options)(frame).rows]


def test_shades_grow_with_the_number_in_the_chart_or_in_the_row():
    rows = pd.DataFrame(
        {"isa": "arm64", "hook": list("aaabbb"), "release": list("xyz") * 2, "loads": [0, 1, 2, 0, 50, 100]}
    )
    assert shades(rows) == [1, 1, 1, 1, 4, 6]
    assert shades(rows, per_row=True) == [1, 4, 6, 1, 4, 6]
    assert shades(rows.assign(loads=7)) == [1] * 6  # nothing to tell apart


def test_names_of_columns_are_written_upright_where_they_do_not_fit():
    frame = heat_rows().assign(release=lambda rows: "releases-" + rows["release"].str.replace(".", ""))
    for layout, turned in (("wide", []), ("narrow", [f"releases-{r}" for r in ("v515", "v61", "v64", "v612", "v616")])):
        printed = texts(heat_map("loads", rows="isa", facet="hook")(frame).svg(layout))
        assert sorted({t.text for t in printed if t.upright}) == sorted(turned)
        clashes = [(a.text, b.text) for a, b in itertools.combinations(printed, 2) if overlap(box(a), box(b))]
        assert clashes == []


# -- state strips


@both_layouts
def test_equal_states_are_one_block_and_others_are_apart(layout):
    rectangles = {}
    for mark in marks(picture("strip", layout), "state"):
        isa, step, lane, _ = mark.get("aria-label").split("; ")
        rectangles[isa, lane, STEPS.index(step)] = mark.rectangle()
    start, end = (0, 2) if layout == "wide" else (1, 3)
    for (isa, lane, i), here in rectangles.items():
        if i + 1 < len(STEPS):
            gap = rectangles[isa, lane, i + 1][start] - here[end]
            assert gap < 0 if LIFE[lane][i] == LIFE[lane][i + 1] else gap > 1, (isa, lane, i)


@both_layouts
def test_every_run_of_states_has_one_label_inside(layout):
    svg = picture("strip", layout)
    letters = dict(t.text.split(" = ") for t in texts(svg) if " = " in t.text)
    blocks: dict[tuple, list] = {}
    for mark in marks(svg, "state"):
        isa, step, lane, state = mark.get("aria-label").split("; ")
        i, state = STEPS.index(step), state.removeprefix("state: ")
        first = next(n for n in range(i, -1, -1) if n == 0 or LIFE[lane][n - 1] != state)
        blocks.setdefault((isa, lane, first, state), []).append(mark.rectangle())
    for (*_, state), parts in blocks.items():
        left, top, right, bottom = (
            f(side) for f, side in zip((min, min, max, max), zip(*parts, strict=True), strict=True)
        )
        inside = [t for t in texts(svg) if left < t.x < right and top < t.y < bottom]
        label = "".join(t.text for t in sorted(inside, key=lambda t: t.y))
        assert letters.get(label, label).replace(" ", "") == state.replace(" ", "")
        assert all(left <= box(t)[0] and box(t)[2] <= right for t in inside)
    # not a: that is what the steps speak of
    assert letters == ({"b": "ftrace_trampoline[0]"} if layout == "narrow" else {})


def test_states_keep_their_colour_in_every_chart_that_is_given_the_same_list():
    def colours(rows, **options):
        made = state_strip(**options)(rows)
        return {m.get("aria-label").rpartition(": ")[2]: m.get("fill") for m in marks(made.svg(), "state")}

    rows, late = strip_rows(), strip_rows()[lambda frame: frame["lane"] == "count"]
    names = ("0", "1", "2")
    assert colours(late, states=names) == {k: v for k, v in colours(rows, states=names).items() if k in names}
    assert colours(late) != {k: v for k, v in colours(rows).items() if k in names}  # without the list, the first wins
    assert colours(rows, quiet=("0",))["0"] == "#ececec"


# -- waterfalls


@both_layouts
def test_changes_lead_from_the_first_total_to_their_sum(layout):
    rows = change_rows()
    svg = waterfall("instructions", step="change", end="now")(rows).svg(layout)
    printed = Counter(text.text for text in texts(svg))
    for isa in ISAS:
        first, *changes = rows.loc[rows["isa"] == isa, "instructions"]
        for text in (number(first), *map(signed, changes), number(first + sum(changes))):
            assert printed[text] >= 1, (isa, text)
    assert printed["now"] == (1 if layout == "wide" else 3)
    for isa in ISAS:
        bars = [m for m in marks(svg, "step") if m.get("aria-label").startswith(isa)]
        values = [float(m.get("aria-label").rpartition(": ")[2]) for m in bars]
        # from where to where on the axis: a falling bar ends at its left
        ways = [(m.rectangle()[0], m.rectangle()[2])[:: 1 if v >= 0 else -1] for m, v in zip(bars, values, strict=True)]
        assert all(abs(end - start) < 1 for (_, end), (start, _) in itertools.pairwise(ways))
        assert [m.get("fill-opacity") == "0" for m in bars] == [v < 0 for v in values]  # falling bars are hollow


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
