"""What each kind of chart shows and where: bars, lines, pairs, waterfalls. Those of cells are in test_chart_cells.py."""

import itertools
import math
import re
from collections import Counter

import pandas as pd
import pytest

from support.publish.charts import ISAS, bar_rows, both_layouts, change_rows, dumbbell_rows, line_rows, pair_rows, picture
from support.publish.svg import Seen, elements, marks, texts
from tramplab.base.errors import TramplabError
from tramplab_book.publish.figures import chart
from tramplab_book.publish.figures.chart import dumbbell, lines, scatter, stacked_bars, theme, waterfall
from tramplab_book.publish.figures.chart.axis import Axis
from tramplab_book.publish.figures.chart.text import number, signed

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
    parts = ("site", "trampoline", "core", "callback", "function")
    assert {mark.get("fill") for mark in marks(drawing.svg(), "bar")} == {chart.colour(part, [part]) for part in parts}
    assert chart.colour("site, trampoline", ["site, trampoline"]) == chart.colour("trampoline", ["trampoline"])
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


def test_a_note_stands_beside_the_total_and_parts_have_the_ground_of_what_they_mean():
    rows = bar_rows().assign(said=lambda frame: "(" + frame["hook"] + ")")
    rows = rows[rows["component"].isin(("site", "core"))]
    means = {"site": theme.RIGHT, "core": theme.WRONG}
    svg = stacked_bars("instructions", note="said", meanings=means)(rows).svg()
    for (_, hook), total in rows.groupby(["isa", "hook"])["instructions"].sum().items():
        assert f"{total} ({hook})" in {text.text for text in texts(svg)}
    for mark in marks(svg, "bar"):
        part = mark.get("aria-label").split("; ")[2].partition(":")[0]
        assert theme.MEANINGS[means[part]][0] == mark.get("fill")


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


def test_an_axis_prints_the_counts_it_is_given():
    drawn = texts(lines("instructions", over="callbacks", log="x", at=(1, 5, 32))(line_rows()).svg())
    assert {text.text for text in drawn} & {"1", "2", "4", "5", "8", "16", "32"} == {"1", "5", "32"}


def test_lines_differ_in_more_than_colour():
    assert len({tuple(dash) for _, dash, _ in theme.SERIES}) == len({shape for *_, shape in theme.SERIES}) == 6


# -- steps


@both_layouts
def test_a_line_has_its_number_where_it_begins_and_where_it_changes(layout):
    svg = picture("steps", layout)
    for isa, values in (("x86_64", "123 39 44"), ("arm64", "124 40 45"), ("riscv64", "125 41 46")):
        points = {tuple(p.get("aria-label").split("; ")[:3]): p for p in marks(svg, "stage")}
        begins = [points[isa, "ops", stage] for stage in ("v5.17", "v6.4", "v7.2")]
        for point, said in zip(begins, values.split(), strict=True):
            near = [t.text for t in texts(svg) if 0 <= t.x - point.x < 9 and 0 < point.y - t.y < 9]
            assert near == [said] or (said.startswith("4") and not near), "the last change may be too small to be written"
        assert points[isa, "ops", "v6.1"].y - points[isa, "ops", "v5.17"].y < 2


@both_layouts
def test_the_rule_stands_where_the_answer_becomes_yes(layout):
    svg = picture("steps", layout)
    names = [t for t in texts(svg) if t.text == "CALL_OPS"]
    assert len(names) == 2, "x86_64 never has it"
    at = sorted({p.x for p in marks(svg, "stage") if "; v6.4; " in p.get("aria-label")})
    assert all(min(abs(name.x - x) for x in at) < 5 for name in names)


# -- dumbbells


@both_layouts
def test_what_is_said_of_one_thing_lies_in_its_line_at_its_number(layout):
    """Two marks of a panel fix where all others of it must be, on a logarithmic axis; equal numbers lie on each other."""
    points = marks(picture("dumbbells", layout), "dumbbell")
    for isa in ISAS:
        here = [p.get("aria-label").split("; ") for p in points if p.get("aria-label").startswith(isa)]
        at = [p for p in points if p.get("aria-label").startswith(isa)]
        heights: dict[str, set[float]] = {}
        for (_, name, *_), p in zip(here, at, strict=True):
            heights.setdefault(name, set()).add(round(p.y, 2))
        assert [len(ys) for ys in heights.values()] == [1] * 5 and len(set.union(*heights.values())) == 5
        placed = [(math.log(float(said[-1].rpartition(": ")[2].split()[0])), p.x) for said, p in zip(here, at, strict=True)]
        (low, start), (high, end) = min(placed), max(placed)
        assert end - start > 60
        assert all(abs(start + (n - low) / (high - low) * (end - start) - x) < 0.6 for n, x in placed)


@both_layouts
def test_bands_lie_around_their_marks_and_what_has_none_shows_none(layout):
    rows = dumbbell_rows()
    lines_seen = [seen for seen in elements(picture("dumbbells", layout)) if seen.element.tag.endswith("}line")]
    bands = [(e.x, e.x + float(e.get("x2")), e.y) for e in lines_seen if e.get("stroke-width") == "5"]
    wide = [(a, b, y) for a, b, y in bands if abs(b - a) > 0.1]
    assert len(wide) == (rows["most"] > rows["least"]).sum() > 10
    points = marks(picture("dumbbells", layout), "dumbbell")
    for p in points:
        assert any(min(a, b) - 0.2 <= p.x <= max(a, b) + 0.2 and abs(y - p.y) < 0.2 for a, b, y in bands)
    joins = [(e.x, e.x + float(e.get("x2")), e.y) for e in lines_seen if e.get("stroke-width") != "5" and e.get("x2") != "0"]
    for name in ("ops 1", "direct 11"):  # the outermost marks of a line are the ends of what joins them
        line = [p for p in points if f"arm64; {name};" in p.get("aria-label")]
        low, high, y = min(p.x for p in line), max(p.x for p in line), line[0].y
        ends = [sorted(ends) for *ends, at in joins if abs(at - y) < 0.2]
        assert any(abs(a - low) < 0.2 and abs(b - high) < 0.2 for a, b in ends)


def test_dumbbells_have_one_scale_for_all_panels_or_one_each():
    rows = dumbbell_rows()
    rows["predicted"] *= rows["isa"].map({"x86_64": 1, "arm64": 2, "riscv64": 3})
    for shared in (True, False):
        panels = dumbbell("predicted", "case", "core", shared=shared)(rows).wide["concat"]
        domains = {tuple(layer["encoding"]["x"]["scale"]["domain"]) for panel in panels for layer in panel["layer"][:1]}
        assert len(domains) == (1 if shared else 3)


def test_an_axis_that_is_only_a_part_of_a_decade_has_ticks():
    assert Axis.of(pd.Series([0.59, 1.47]), log=True).ticks() == [0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4]
    assert Axis.of(pd.Series([1, 11]), log=True).ticks() == [1, 2, 5, 10]


def test_a_dumbbell_without_both_ends_of_its_band_is_refused():
    rows = dumbbell_rows()
    with pytest.raises(TramplabError, match="a band has two ends"):
        dumbbell("predicted", "case", "core", low="least")
    with pytest.raises(TramplabError, match="does not hold its predicted"):
        dumbbell("predicted", "case", "core", "least", "most")(rows.assign(most=rows["least"]))
    with pytest.raises(TramplabError, match="shows no 0"):
        dumbbell("predicted", "case", "core")(rows.assign(predicted=0.0))


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
        values = [float(m.get("aria-label").partition(" (sum")[0].rpartition(": ")[2]) for m in bars]
        # from where to where on the axis: a falling bar ends at its left
        ways = [(m.rectangle()[0], m.rectangle()[2])[:: 1 if v >= 0 else -1] for m, v in zip(bars, values, strict=True)]
        assert all(abs(end - start) < 1 for (_, end), (start, _) in itertools.pairwise(ways))
        assert [m.get("fill") == theme.FALL for m in bars] == [v < 0 for v in values]  # falling bars have a colour of their own
