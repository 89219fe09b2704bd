"""Runs behind a chart: folded, found by their ids, whole for themselves, and once more in the text; cells that lead to them."""

import re

import pandas as pd
import pytest

from support.publish.charts import LETTERS, MEANINGS, both_layouts, fate_rows
from tramplab.base.errors import TramplabError
from tramplab_book.publish.figures.chart import heat_map
from tramplab_book.publish.figures.figure import Figure
from tramplab_book.publish.figures.runs import Run, Runs
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.sparsity import register_consumers

LONG = "says    " + " ".join(f"{n:#018x}" for n in range(4))
RUNS = Runs(
    "Two <runs>",
    (
        Run("run-a", "a structure", "first: wrong", f"first\n{LONG}"),
        Run("run-b", "a structure", "second: <b>", "second\n  says    &"),
        Run("run-c", "another", "first: wrong", "third"),
    ),
)


def test_each_run_is_folded_under_its_id_and_is_what_was_printed():
    page = RUNS.html
    assert page.startswith('<details class="tl-runs"><summary>Two &lt;runs&gt;</summary>')
    runs = re.findall(r'<details><summary>(.*?)</summary><pre id="([\w-]+)"[^>]*>(.*?)</pre></details>', page, re.S)
    assert runs == [
        ("first: wrong", "run-a", f"a structure\nfirst\n{LONG}"),
        ("second: &lt;b&gt;", "run-b", "a structure\nsecond\n  says    &amp;"),
        ("first: wrong", "run-c", "another\nthird"),
    ]
    assert re.findall(r"<p>(.*?)</p>", page) == ["a structure", "another"], "each head once"


def test_the_text_has_every_word_in_lines_that_fit():
    lines = RUNS.text.splitlines()
    assert max(map(len, lines)) <= 66 and lines.count("a structure") == 1
    assert {f"{RUNS.label}:", "another", "  third"} <= set(lines)
    assert " ".join(LONG.split()) in " ".join(RUNS.text.split()) and "second says &" in " ".join(RUNS.text.split())


def test_a_figure_shows_what_is_behind_its_chart():
    figure = Figure("fig-x", "Q?", behind=lambda frame: RUNS, table=lambda frame: frame[["isa"]])
    made = type(register_consumers)("example")
    made.NAME, made.FIGURES, made.rows = "example", (figure,), fate_rows
    shown = show(made, "fig-x")
    assert RUNS.html in shown.html and shown.html.index("<summary>Table") < shown.html.index("tl-runs")
    assert shown.text.endswith(RUNS.text.rstrip() + "\n") and "first" not in shown.citation


def linked(rows):
    return heat_map("fate", "register", "hook", meanings=MEANINGS, letters=LETTERS, link="run")(rows)


@both_layouts
def test_cells_are_links_to_where_they_lead_and_look_the_same(layout):
    rows = fate_rows().assign(run=lambda frame: ["run-x" if fate == "restored" else "" for fate in frame["fate"]])
    plain = heat_map("fate", "register", "hook", meanings=MEANINGS, letters=LETTERS)(rows).svg(layout)
    made = linked(rows).svg(layout)
    links = re.findall(r'<a href="#run-x"><path aria-label="([^"]*)"[^>]*></a>', made)
    assert len(links) == (rows["fate"] == "restored").sum() and all(said.endswith("fate: restored") for said in links)
    assert re.sub("</?a[^>]*>", "", made) == plain


def test_a_column_of_addresses_that_is_not_there_is_an_error():
    with pytest.raises(TramplabError, match="the rows have no column run"):
        linked(pd.DataFrame(fate_rows()))
