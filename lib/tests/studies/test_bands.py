"""No estimate without its band: with estimates that can be recognised, everything that the studies on time show is searched for
them. And what the two studies of the argument of 2019 say follows from their rows.
"""

from __future__ import annotations

import functools
import re

import pandas as pd
import pytest

from support.machines import CPUS, result, shaped
from tramplab import studies
from tramplab.analyse import cycles
from tramplab.analyse.cores import get as core
from tramplab.publish.figures.show import show
from tramplab.studies.time import (
    empty_callback,
    hackbench,
    native_hooks,
    native_shapes,
    published_call_ops,
    published_pairs,
    return_stack,
)
from tramplab.trampolines import shapes

#: Every estimate is this one, and nothing else has these digits.
LOW, MID, HIGH = 611.0, 737.0, 853.0
#: A study that shows estimates -> its rows, made without what was kept.
ESTIMATING = {
    empty_callback: empty_callback.rows.__wrapped__,
    hackbench: hackbench.rows.__wrapped__,
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
    made = functools.partial(cycles.Estimate, LOW, MID, HIGH)
    monkeypatch.setattr(cycles, "estimate", lambda hooked, unhooked, core: made(core, ()))
    monkeypatch.setattr(cycles, "relative", lambda dearer, cheaper, core: made(core, ()))
    for study in (native_hooks, native_shapes):
        monkeypatch.setattr(study, "_estimate", functools.cache(study._estimate.__wrapped__))


def shown(study, frame: pd.DataFrame) -> str:
    """Whatever a reader meets in words: tables, answers, citations and quoted numbers of a study, and its golden table."""
    figures = [show(study, f.id, frame) for f in study.FIGURES if not f.own]
    said = [text for figure in figures for text in (figure.text, figure.citation)]
    return "\n".join([*said, *map(str, study.numbers(frame).values()), study.golden(frame).to_string()])


def test_every_study_on_time_is_searched():
    there = {s for s in studies.every().values() if s.__name__.startswith("tramplab.studies.time.")}
    assert there == {*ESTIMATING, return_stack}


@pytest.mark.parametrize("study", ESTIMATING, ids=lambda study: study.NAME)
def test_no_estimate_is_shown_without_its_band(study, recognisable):
    factor = 2 if study is hackbench else 1  # there it is the sum of two
    low, mid, high = (rf"(?<![\d.]){factor * n:.0f}(?:\.0+)?(?![\d.]\d)" for n in (LOW, MID, HIGH))
    text = " ".join(shown(study, ESTIMATING[study]()).split())
    estimates = len(re.findall(mid, text))
    assert estimates == len(re.findall(rf"{mid} \({low} to {high}\)", text))
    assert (estimates == 0) == (study in DRAWN_ONLY)


@pytest.mark.parametrize("study", ESTIMATING, ids=lambda study: study.NAME)
def test_rows_with_estimates_have_both_ends_of_the_band(study, recognisable):
    """So the files that a reader downloads, and the charts, have them too."""
    frame = ESTIMATING[study]()
    numeric = frame.select_dtypes("number")
    middle = (numeric == MID * (2 if study is hackbench else 1)).any(axis="columns") | (study in DRAWN_ONLY)
    assert middle.sum() > 4 or study is native_hooks
    assert {"low", "high"} <= set(frame.columns)
    assert frame.loc[middle, ["low", "high"]].notna().all(axis=None)


# -- the counters of 2019


@pytest.fixture(scope="module")
def counters():
    return hackbench.rows()


def test_calls_and_costs_per_call_are_those_of_the_mail(counters):
    """By hand: misses 36,949,690, 47,653,911 and 47,286,857; instructions 23,568.8, 24,246.4 and 24,684.1 million."""
    lines = counters.drop_duplicates("trampoline").set_index("trampoline")
    assert list(lines["misses"]) == [10.70, 10.34, -0.37] and list(lines["missed"]) == [1, 1, 0]
    assert list(lines["instructions"]) == [63.3, 107.9, pytest.approx(437.72 / 10.5207, abs=0.06)]
    assert list(lines["cycles"]) == [60.5, 165.9, pytest.approx(1066.34 / 10.5207, abs=0.06)]
    assert lines.loc["ip alone", "misses_error"] == pytest.approx(2 * (0.17**2 + 0.205**2) ** 0.5, abs=0.01)


def test_the_lab_counts_within_the_error_and_the_model_falls_short_of_all_registers(counters):
    """As the page says: instructions agree for all, cycles without all registers."""
    assert ((counters["instructions"] - counters["counted"]).abs() <= counters["instructions_error"]).all()
    for line, agree in (("ip alone", True), ("all registers", False)):
        part = counters[counters["trampoline"] == line]
        low, high = part["cycles"] - part["cycles_error"], part["cycles"] + part["cycles_error"]
        assert ((part["low"] <= high) & (low <= part["high"])).all() == agree


def test_the_answer_follows_the_counters(counters):
    said = hackbench.answer(counters)
    assert "the same number of mispredicted returns" in said and "misses rose alike. 3 of 3 counts" in said
    lines = counters["trampoline"]
    other = counters.assign(missed=counters["missed"].where(lines != "all registers", 2))
    assert "not the same number of mispredicted returns for both (1 and 2" in hackbench.answer(other)
    apart = counters.assign(misses=counters["misses"].where(lines != "all less ip", 5.0), counted=1000)
    assert "misses rose not alike. 0 of 3 counts" in hackbench.answer(apart)


# -- what one ops costs over a generated trampoline


@pytest.fixture(scope="module")
def ops():
    return empty_callback.rows()


def test_an_empty_callback_is_cheaper_by_its_instructions_on_every_isa(ops):
    """In the lab's callback two, or four, stand before the return that both have."""
    by = ops.set_index(["core", "hook", "callback"])["instructions"]
    for name in empty_callback.CORES:
        saved = by[name, "ops", "counts"] - by[name, "ops", "empty"]
        assert saved == {"x86_64": 2, "arm64": 4, "riscv64": 4}[core(name).isa]
    assert {core(name).isa for name in empty_callback.CORES} == {"x86_64", "arm64", "riscv64"}


def test_most_of_what_ftrace_costs_more_on_x86_is_all_registers(ops):
    """As the page says; and the generated trampoline costs less than either, on every core."""
    over = ops[ops["callback"] == "counts"].pivot(index="core", columns="hook", values="over")
    for name in ("zen4", "skylake"):
        assert over.loc[name, "ops-regs"] > 2 * over.loc[name, "ops"] > 0
    assert (over["ops"] > 0).all()
    only = ops[ops["hook"] == empty_callback.GENERATED]
    assert set(only["callback"]) == {"counts"} and only["over"].isna().all()


# -- the return stack


def test_only_hooks_that_mispredict_are_in_the_table():
    """And all of those; two callbacks only where they change something. What no kernel has is marked."""
    frame = return_stack.rows()
    table, whole = return_stack.table(frame), return_stack.golden(frame)
    zeros = {"0+0", "-"}
    assert not table.drop(columns=["isa", "hook"]).isin(zeros).all(axis="columns").any()
    wrong = whole[~whole.drop(columns=["isa", "hook"]).isin(zeros).all(axis="columns")]
    assert set(wrong["hook"].str.removesuffix(" x2")) == set(table["hook"]) and len(table) == 10
    assert {h for h in whole["hook"] if h.endswith(" *")} == {
        "ops-ip *", "ops-live *", "ops-clobbered *", "ops-own-args *", "ops-own-regs *", "jump back *", "return back *",
    }  # fmt: skip
    more = frame.assign(own=frame["own"].where(frame["hook"] != "bpf-fexit x2", 7))
    assert {h for h in return_stack.table(more)["hook"] if h.endswith("x2")} == {"bpf-fexit x2"}


def test_the_answer_of_the_return_stack_follows_its_rows():
    frame = return_stack.rows()
    said = return_stack.answer(frame)
    assert said.startswith("All but direct+ops, bpf-fexit, bpf-fmodret,") and said.endswith("one mispredicts: jump back.")
    assert return_stack.answer(frame.assign(own=0, outer=0)).startswith("All but none")
