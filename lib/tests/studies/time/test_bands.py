"""No estimate without its band: with estimates that can be recognised, everything that the studies on time show is searched for
them.
"""

from __future__ import annotations

import functools
import re

import pandas as pd
import pytest

from support.native.machines import CPUS, result, shaped
from tramplab.estimate import cycles
from tramplab.trampolines import shapes
from tramplab_book import studies
from tramplab_book.publish.figures.figure import golden
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.time import (
    core_cases,
    hackbench,
    native_hooks,
    native_shapes,
    published_call_ops,
    published_pairs,
    return_stack,
    thunks,
)

#: Every estimate is this one, and nothing else has these digits.
LOW, MID, HIGH = 525.0, 700.0, 875.0
#: A study that shows estimates -> its rows, made without what was kept.
ESTIMATING = {
    native_hooks: lambda: native_hooks.frame({"a": result("x86_64", {"ops": 8.0, "direct": 4.0}, cpu=CPUS["x86_64"][0])}),
    native_shapes: lambda: native_shapes.frame({"a": shaped("x86_64", dict.fromkeys(map(str, shapes.GRID[:8]), 3.0))}),
    published_call_ops: published_call_ops.rows.__wrapped__,
    published_pairs: published_pairs.rows.__wrapped__,
}
#: Those of them whose tables and sentences have no estimate: theirs are in a chart, whose every mark has a band.
DRAWN_ONLY = (native_shapes,)


@pytest.fixture
def recognisable(monkeypatch):
    """Every estimate and every ratio is MID, from LOW to HIGH."""
    made = functools.partial(cycles.Estimate, MID)
    monkeypatch.setattr(cycles, "estimate", lambda hooked, unhooked, core: made(core))
    monkeypatch.setattr(cycles, "relative", lambda dearer, cheaper, core: made(core))
    for study in (native_hooks, native_shapes):
        monkeypatch.setattr(study, "estimate", functools.cache(study.estimate.__wrapped__))


def shown(study, frame: pd.DataFrame) -> str:
    """Whatever a reader meets in words: tables, answers, citations and quoted numbers of a study, and its golden table."""
    figures = [show(study, f.id, frame) for f in study.FIGURES if not f.own]
    said = [text for figure in figures for text in (figure.text, figure.citation)]
    return "\n".join([*said, *map(str, study.numbers(frame).values()), golden(study, frame).to_string()])


def test_every_study_on_time_is_searched():
    there = {s for s in studies.every().values() if s.__name__.startswith("tramplab_book.studies.time.")}
    assert there == {*ESTIMATING, core_cases, hackbench, return_stack, thunks}


@pytest.mark.parametrize("study", ESTIMATING, ids=lambda study: study.NAME)
def test_no_estimate_is_shown_without_its_band(study, recognisable):
    low, mid, high = (rf"(?<![\d.]){n:.0f}(?:\.0+)?(?![\d.]\d)" for n in (LOW, MID, HIGH))
    text = " ".join(shown(study, ESTIMATING[study]()).split())
    estimates = len(re.findall(mid, text))
    assert estimates == len(re.findall(rf"{mid} \({low} to {high}\)", text))
    assert (estimates == 0) == (study in DRAWN_ONLY)


@pytest.mark.parametrize("study", ESTIMATING, ids=lambda study: study.NAME)
def test_rows_with_estimates_have_both_ends_of_the_band(study, recognisable):
    """So the files that a reader downloads, and the charts, have them too."""
    frame = ESTIMATING[study]()
    numeric = frame.select_dtypes("number")
    middle = (numeric == MID).any(axis="columns") | (study in DRAWN_ONLY)
    assert middle.sum() > 4 or study is native_hooks
    assert {"low", "high"} <= set(frame.columns)
    assert frame.loc[middle, ["low", "high"]].notna().all(axis=None)


# -- the counters of 2019


@pytest.fixture(scope="module")
def counters():
    return hackbench.rows()


def test_calls_and_costs_per_call_are_those_of_the_mail(counters):
    """By hand: misses 36,949,690, 47,653,911 and 47,286,857; instructions 23,568.8, 24,246.4 and 24,684.1 million."""
    lines = counters.set_index("trampoline")
    assert list(lines["misses"]) == [10.70, 10.34, -0.37] and list(lines["missed"]) == [1, 1, 0]
    assert list(lines["instructions"]) == [63.3, 107.9, pytest.approx(437.72 / 10.5207, abs=0.06)]
    assert list(lines["cycles"]) == [60.5, 165.9, pytest.approx(1066.34 / 10.5207, abs=0.06)]
    assert lines.loc["ip alone", "misses_error"] == pytest.approx(2 * (0.17**2 + 0.205**2) ** 0.5, abs=0.01)


def test_the_lab_counts_within_the_error(counters):
    """As the page says: instructions agree for all."""
    assert ((counters["instructions"] - counters["counted"]).abs() <= counters["instructions_error"]).all()


# -- the return stack


def test_only_hooks_that_mispredict_are_in_the_table():
    """And all of those; two callbacks only where they change something. What no kernel has is marked."""
    frame = return_stack.rows()
    table, whole = return_stack.table(frame), golden(return_stack, frame)
    zeros = {"0+0", "-"}
    assert not table.drop(columns=["isa", "hook"]).isin(zeros).all(axis="columns").any()
    wrong = whole[~whole.drop(columns=["isa", "hook"]).isin(zeros).all(axis="columns")]
    assert set(wrong["hook"].str.removesuffix(" x2")) == set(table["hook"]) and len(table) == 10
    assert {h for h in whole["hook"] if h.endswith(" *")} == {
        "ops-ip *", "ops-live *", "ops-clobbered *", "ops-own-args *", "ops-own-regs *", "jump back *", "return back *",
        "direct *",
    }  # fmt: skip
    more = frame.assign(own=frame["own"].where(frame["hook"] != "bpf-fexit x2", 7))
    assert {h for h in return_stack.table(more)["hook"] if h.endswith("x2")} == {"bpf-fexit x2"}
