"""What charts of cells show and where: heat maps, state strips, and what no kernel has."""

import itertools
import re
from collections import Counter

import pandas as pd
import pytest

from support.publish.charts import (
    ISAS,
    LETTERS,
    LIFE,
    MEANINGS,
    STEPS,
    bar_rows,
    both_layouts,
    change_rows,
    fate_rows,
    heat_rows,
    line_rows,
    picture,
    strip_rows,
)
from support.publish.svg import box, marks, overlap, texts
from tramplab.base.errors import TramplabError
from tramplab_book.publish.figures.chart import heat_map, lines, stacked_bars, state_strip, theme, waterfall
from tramplab_book.publish.figures.chart.kinds import heat
from tramplab_book.publish.figures.chart.text import number

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


@both_layouts
def test_cells_have_the_ground_of_what_they_mean_and_a_letter_where_two_words_have_the_same(layout):
    svg, rows = picture("heat, letters", layout), fate_rows()
    printed = texts(svg)
    used = list(dict.fromkeys(rows["fate"]))
    lettered = [fate for fate in used if MEANINGS[fate] == theme.WRONG]
    for mark in marks(svg, "letter"):
        left, top, right, bottom = mark.rectangle()
        said = mark.get("aria-label").split("; ")[-1].removeprefix("fate: ")
        inside = [t.text for t in printed if left < t.x < right and top < t.y < bottom]
        assert inside == ([LETTERS[said]] if said in lettered else [])
        assert (mark.get("fill") or "transparent") == theme.MEANINGS[MEANINGS[said]][0]
    explained = {f"{LETTERS[fate]} = {fate}" if fate in lettered else fate for fate in used}
    heads = [t for t in printed if t.text in explained]
    assert {t.text for t in heads} == explained and len(lettered) == 2
    assert max(t.y for t in heads) < min(mark.rectangle()[1] for mark in marks(svg, "letter"))
    names = Counter(t.text for t in printed)
    assert names["rax"] == names["x9"] == names["t0"] == 1, "a panel has its own rows"
    assert names[heat.MISSING] == (rows["isa"] == "riscv64").sum() / 3, "a hook that an ISA lacks"


@both_layouts
def test_with_signs_no_word_is_told_by_its_ground_alone(layout):
    """And panels of the same few rows and columns stand side by side, on a phone, too."""
    frame = fate_rows()
    frame["register"] = frame.groupby(["isa", "hook"]).cumcount().map(str)
    words = list(dict.fromkeys(frame["fate"]))
    signs = dict(zip(words, "abcdefgh", strict=False))
    svg = heat_map("fate", "register", "hook", meanings=MEANINGS, letters=signs, signs=True)(frame).svg(layout)
    printed = texts(svg)
    for mark in marks(svg, "letter"):
        left, top, right, bottom = mark.rectangle()
        inside = [t.text for t in printed if left < t.x < right and top < t.y < bottom]
        assert inside == [signs[mark.get("aria-label").split("; ")[-1].removeprefix("fate: ")]]
    assert {f"{sign} = {word}" for word, sign in signs.items()} <= {t.text for t in printed}
    heads = {t.text: round(t.y) for t in printed if t.text in set(frame["isa"])}
    assert len(heads) == 3 and len(set(heads.values())) == 1


@pytest.mark.parametrize(
    ("meanings", "letters", "complaint"),
    [
        ({**MEANINGS, "kept": theme.RIGHT}, {}, "words of one meaning need different letters; add them to letters="),
        ({"kept": theme.NOTHING}, LETTERS, "nothing is said of what 'restored', .* means; add it to meanings="),
    ],
)
def test_words_without_a_meaning_or_a_letter_are_refused(meanings, letters, complaint):
    with pytest.raises(TramplabError, match=complaint):
        heat_map("fate", "register", "hook", meanings=meanings, letters=letters)(fate_rows())


# -- what no kernel has


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        (stacked_bars("instructions"), "bar"),
        (lines("instructions", "callbacks"), "point"),
        (heat_map("fate", "register", "hook", meanings=MEANINGS, letters=LETTERS), "letter"),
        (waterfall("instructions", step="change"), "step"),
    ],
)
def test_marks_of_what_no_kernel_has_are_hollow_and_say_so(kind, role):
    frame = {"bar": bar_rows, "point": line_rows, "letter": fate_rows, "step": change_rows}[role]()
    name = "change" if role == "step" else "hook"
    assert "Hollow" not in kind(frame).svg()
    one = frame[name].iloc[0]
    frame[name] = frame[name].replace(one, f"{one} *")
    svg = kind(frame).svg()
    for mark in marks(svg, role):
        assert (mark.get("fill-opacity") == "0.25") == ("; hypothetical; " in mark.get("aria-label"))
        assert (f"; {one}" in mark.get("aria-label")) or "; hypothetical; " not in mark.get("aria-label")
    assert [t.text for t in texts(svg)].count("Hollow: hypothetical, no kernel has it.") == 1
    assert not any("*" in t.text or "(hypothetical)" in t.text for t in texts(svg))


def test_panels_share_the_names_of_rows_of_which_one_is_hypothetical_in_one_panel():
    rows = bar_rows()
    rows.loc[(rows["isa"] == "arm64") & (rows["hook"] == "ops"), "hook"] = "ops *"
    assert Counter(text.text for text in texts(stacked_bars("instructions")(rows).svg()))["ops"] == 1
    with pytest.raises(TramplabError, match="several rows for bar=ops"):
        stacked_bars("instructions")(pd.concat([rows, rows[rows["hook"] == "ops *"].assign(hook="ops")]))


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
    assert letters == {}


def test_lanes_for_whose_labels_a_phone_has_no_room_stand_below_the_others():
    made = picture("strip", "narrow")
    heads = [t.text for t in texts(made)]
    for isa in ISAS:
        assert heads.count(isa) == heads.count(f"{isa}, continued") == 1
    assert len(marks(made, "state")) == len(strip_rows())
    short = strip_rows().assign(state="on")
    assert "continued" not in state_strip()(short).svg("narrow"), "where there is room they stand side by side"


@both_layouts
def test_a_label_for_which_there_is_no_room_at_all_has_a_letter(layout):
    long = strip_rows()
    long.loc[long["state"] == "1", "state"] = "a" * 60
    letters = dict(t.text.split(" = ") for t in texts(state_strip()(long).svg(layout)) if " = " in t.text)
    # not a: that is what the steps speak of
    assert letters == {"b": "a" * 60}


def test_a_block_stands_out_where_its_lane_changes_or_has_the_ground_of_its_meaning():
    def grounds(drawing):
        return {tuple(m.get("aria-label").split("; ")[1:3]): m.get("fill") for m in marks(drawing.svg(), "state")}

    rows = strip_rows()
    changed = grounds(state_strip()(rows))
    for lane, states in LIFE.items():
        for i, step in enumerate(STEPS):
            assert (changed[step, lane] == theme.MEANINGS[theme.CHANGED][0]) == (i > 0 and states[i - 1] != states[i]), (step, lane)
    svg = state_strip()(rows).svg()
    for block in (mark for mark in marks(svg, "state") if mark.get("fill") == theme.MEANINGS[theme.CHANGED][0]):
        left, top, right, bottom = block.rectangle()
        assert [t for t in texts(svg) if left < t.x < right and top < t.y < bottom], "its label is in it, where there is room"
    meanings = dict.fromkeys(rows["state"], theme.PLAIN) | {"nothing": theme.NOTICED}
    for (step, lane), ground in grounds(state_strip(meanings=meanings)(rows)).items():
        assert (ground == theme.MEANINGS[theme.NOTICED][0]) == (LIFE[lane][STEPS.index(step)] == "nothing")
