"""Tables, charts and figures made from rows."""

import base64
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tramplab.errors import TramplabError
from tramplab.publish import chart, files
from tramplab.publish.chart import stacked_bars
from tramplab.publish.show import show
from tramplab.publish.table import pivot, text_table

ISAS = ("x86_64", "arm64", "riscv64")
COMPONENTS = ("site", "trampoline", "core", "callback", "function")
COUNTS = ("instructions", "loads", "stores", "load_bytes", "store_bytes", "branches_taken")


def example_rows(hooks=("none", "ops", "direct+ops")) -> pd.DataFrame:
    """Rows in the form of the first study; the numbers mean nothing."""
    rows = [
        {"isa": isa, "release": "v6.16", "hook": hook, "callbacks": 1, "component": component}
        | {name: (i + 1) * (j + 2) * (k + 3) for k, name in enumerate(COUNTS)}
        for isa in ISAS
        for i, hook in enumerate(hooks)
        for j, component in enumerate(COMPONENTS)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["units"] = {"load_bytes": "B", "store_bytes": "B"}
    return frame


def bars_in(svg: str) -> list[ET.Element]:
    return [e for e in ET.fromstring(svg).iter() if e.get("aria-roledescription") == "bar"]


# -- tables


def test_table_is_aligned_and_names_its_units():
    frame = pd.DataFrame({"isa": ["arm64", "riscv64"], "loads": [7, 11], "bytes": [88, 1024], "ratio": [0.5, 2.0]})
    frame.attrs["units"] = {"bytes": "B"}
    assert text_table(frame) == (
        "isa      loads  bytes  ratio\n"
        "                    B\n"
        "arm64        7     88   0.50\n"
        "riscv64     11   1024      2\n"
    )


def test_table_shows_nothing_as_a_dash_and_truth_as_a_word():
    frame = pd.DataFrame({"a": [None, "x\ny"], "b": [1.0, float("nan")], "c": [True, False]})
    assert text_table(frame) == "a    b  c\n-    1  yes\nx y  -  no\n"


def test_empty_table_says_so():
    assert text_table(pd.DataFrame({"isa": []})) == "isa\n(no rows)\n"


def test_pivoted_frame_keeps_index_and_both_header_levels():
    frame = example_rows(("ops",)).pivot(index="isa", columns="component", values=["loads", "load_bytes"])
    frame.attrs["units"] = {"load_bytes": "B"}
    lines = text_table(frame[[("loads", "site"), ("load_bytes", "core")]]).splitlines()
    assert [line.split() for line in lines[:3]] == [["loads", "load_bytes"], ["isa", "site", "core"], ["B"]]
    assert [line.split()[0] for line in lines[3:]] == sorted(ISAS)


def test_pivot_adds_totals_in_the_order_of_the_rows():
    table = pivot("instructions", index=("isa", "hook"))(example_rows())
    assert list(table.columns) == ["isa", "hook", *COMPONENTS, "total"]
    assert list(table["isa"].drop_duplicates()) == list(ISAS)
    assert (table[list(COMPONENTS)].sum(axis=1) == table["total"]).all()
    assert pivot("load_bytes", index=("isa", "hook"))(example_rows()).attrs["units"]["core"] == "B"


def test_pivot_refuses_to_merge_rows():
    with pytest.raises(TramplabError, match="several rows for isa=x86_64.*tells them apart"):
        pivot("instructions", index=("isa",))(example_rows())
    with pytest.raises(TramplabError, match="no column cycles; they have isa"):
        pivot("cycles")(example_rows())


def test_wide_table_is_split_before_it_is_refused():
    table = pivot("instructions")(example_rows())
    text = text_table(table, 66, split="isa")
    assert [line for line in text.splitlines() if line in ISAS] == list(ISAS)
    assert max(map(len, text.splitlines())) <= 66
    with pytest.raises(TramplabError, match=r"does not fit into 40; widest: "):
        text_table(table, 40, split="isa")


@given(
    st.lists(
        st.tuples(st.text("abc_ ", min_size=1, max_size=12), st.lists(st.integers(0, 10**9), min_size=2, max_size=2)),
        min_size=1,
        max_size=12,
        unique_by=lambda column: column[0],
    ),
    st.sampled_from([66, 72]),
)
def test_no_line_is_ever_too_long(columns, width):
    frame = pd.DataFrame(dict(columns))
    try:
        text = text_table(frame, width)
    except TramplabError:
        return
    assert all(len(line) <= width and line == line.rstrip() for line in text.splitlines())
    assert [int(n) for n in text.split("\n")[-2].split()] == list(frame.iloc[-1])


# -- charts


def test_every_row_is_one_mark_in_both_layouts():
    rows = example_rows()
    drawing = stacked_bars("instructions")(rows)
    assert len(drawing.rows) == len(rows)
    for layout in ("wide", "narrow"):
        marks = bars_in(drawing.svg(layout))
        assert len(marks) == len(rows)
        # what the accessible label of a mark says is what the row says
        values = sorted(int(re.search(r"instructions: (\d+)", mark.get("aria-label"))[1]) for mark in marks)
        assert values == sorted(rows["instructions"])


def test_colours_are_the_declared_ones_in_the_static_picture_and_variables_on_a_page():
    drawing = stacked_bars("instructions")(example_rows())
    assert {mark.get("fill") for mark in bars_in(drawing.svg())} == set(chart.COLOURS.values())
    assert "var(" not in drawing.svg() and "currentColor" not in drawing.svg()
    for name, value in chart.COLOURS.items():
        assert f"var(--tl-{name}, {value})" in json.dumps(drawing.wide)


def test_unknown_components_get_other_colours():
    parts = ["site", "fix-up", "retry"]
    colours = [chart.colour(part, parts) for part in parts]
    assert len(set(colours)) == 3 and not set(colours[1:]) & set(chart.COLOURS.values())


def test_pictures_have_about_the_width_they_are_laid_out_for():
    drawing = stacked_bars("instructions")(example_rows())
    for layout, width in (("wide", chart.WIDE), ("narrow", chart.NARROW)):
        assert 0.85 < float(ET.fromstring(drawing.svg(layout)).get("width")) / width < 1.05


def test_scales_are_shared_or_independent():
    rows = example_rows()
    assert stacked_bars("instructions")(rows).wide["resolve"]["scale"]["x"] == "shared"
    assert stacked_bars("instructions", shared=False)(rows).wide["resolve"]["scale"]["x"] == "independent"


def test_a_bar_stands_in_the_same_line_of_every_panel():
    rows = example_rows()
    lacking = rows[(rows["isa"] != "arm64") | (rows["hook"] != "ops")]
    drawing = stacked_bars("instructions")(lacking)
    domains = [
        layer["encoding"]["y"]["scale"]["domain"] for panel in drawing.wide["concat"] for layer in panel["layer"]
    ]
    assert domains == [["none", "ops", "direct+ops"]] * 6
    assert len(bars_in(drawing.svg())) == len(lacking)


def test_chart_refuses_to_merge_rows():
    rows = pd.concat([example_rows(), example_rows().assign(release="v6.1")], ignore_index=True)
    with pytest.raises(TramplabError, match="several rows for hook=none"):
        stacked_bars("instructions")(rows)
    assert len(stacked_bars("instructions", bars=("release", "hook"))(rows).rows) == len(rows)


def test_a_chart_is_the_same_bytes_in_every_process(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_publish import *\n"
        "for n in range(int(sys.argv[2])): stacked_bars('loads')(example_rows())\n"  # charts made before leave no trace
        "d = stacked_bars('instructions')(example_rows())\n"
        "print(json.dumps([d.wide, d.narrow]), d.svg(), d.svg('narrow'))"
    )
    folder = __file__.rpartition("/")[0]
    texts = {
        subprocess.run([sys.executable, "-c", code, folder, n], capture_output=True, check=True).stdout for n in "02"
    }
    assert len(texts) == 1 and len(texts.pop()) > 10_000
