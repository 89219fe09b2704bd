"""The studies of patching while threads run: what their rows must say of each other, and verdicts that follow from them."""

import re

import pytest

from support.publish.guarded import problem
from tramplab.publish.claims.claims import DEPENDS, FAILS, HOLDS
from tramplab.publish.phrases import MARK
from tramplab.races.barriers import barriers as barriers_of
from tramplab.races.explore import SAFE, explore
from tramplab.races.model.verdicts import MISSED, PAIR, PROPERTIES, TARGET
from tramplab.races.model.verdicts import TORN as MIXED
from tramplab.races.schemes.schemes import SCHEMES, scheme
from tramplab.studies.callops import balance, barriers, dispatch, patching, schedules


@pytest.fixture(scope="module")
def found():
    return patching.rows()


@pytest.fixture(scope="module")
def without():
    return barriers.rows()


def of(frame, scheme, column="outcome"):
    """The cells of one scheme, with what a CPU may fetch at worst."""
    return frame.loc[(frame["scheme"] == scheme) & frame["worst"], column].item()


def changed(frame, scheme, outcome, steps=0):
    return frame.assign(
        outcome=frame["outcome"].where(frame["scheme"] != scheme, outcome),
        steps=frame["steps"].where(frame["scheme"] != scheme, steps),
    )


# -- the schemes


def test_every_scheme_is_there_under_every_model(found):
    assert set(found["scheme"]) == set(SCHEMES) and len(found) == 3 * len(SCHEMES)
    assert found.groupby("scheme")["worst"].sum().eq(1).all()
    assert set(found["outcome"]) <= {SAFE, *PROPERTIES} and set(found["outcome"]) <= set(patching.LETTERS)


def test_the_more_a_cpu_may_fetch_the_less_is_safe(found):
    wide = found.pivot(index="scheme", columns="fetch", values="outcome") == SAFE
    assert (wide["torn"] <= wide["stale"]).all() and (wide["stale"] <= wide["coherent"]).all()
    steps = found.pivot(index="scheme", columns="fetch", values="steps").replace(0, 10**6)
    assert (steps["torn"] <= steps["stale"]).all() and (steps["stale"] <= steps["coherent"]).all()


def test_a_hypothetical_scheme_is_marked_wherever_it_is_named(found, without):
    hypothetical = {name for name, s in SCHEMES.items() if s.hypothetical}
    assert set(found.loc[found["hypothetical"], "scheme"]) == hypothetical
    for text, names in (
        (patching.table(found).to_string(), hypothetical),
        (barriers.body(without).html, {patching.labelled(name) for name in hypothetical}),
    ):
        for name in names:
            named = re.findall(rf"{re.escape(name)}(?![\w,-])({re.escape(MARK)})?", text)
            assert named.count(MARK) == len(named)
    assert all(figure.hypothetical for figure in (*patching.FIGURES, *barriers.FIGURES))
    shown = {figure.id: figure for figure in schedules.FIGURES}
    assert {i for i, f in shown.items() if f.hypothetical} == {i for i in shown if schedules.SHOWN[i] in hypothetical}


def test_the_chart_names_every_scheme_in_words_and_what_no_kernel_has_last(found):
    assert set(patching.LABELS) == set(SCHEMES)
    for _, part in patching.drawn(found).groupby("isa"):
        starred = [name.endswith(MARK) for name in dict.fromkeys(part["scheme"])]
        assert starred == sorted(starred) and len(starred) == part["scheme"].nunique()


# -- the barriers


def test_each_barrier_of_each_safe_scheme_is_left_out(found, without):
    safe = set(found.loc[found["worst"] & (found["outcome"] == SAFE), "scheme"])
    assert set(without["scheme"]) == safe
    for name, part in without.groupby("scheme"):
        assert list(part["barrier"]) == [*(b.name for b in barriers_of(scheme(name).subject())), barriers.OTHERS]


def test_what_breaks_nothing_breaks_nothing_together(without):
    together = without[without["barrier"] == barriers.OTHERS]
    assert set(together["outcome"]) <= {SAFE, MISSED}
    for row in together.itertuples():
        part = without[(without["scheme"] == row.scheme) & ~without["need"].isin(("", barriers.BREAKS))]
        assert row.times == part["times"].sum()
        assert (row.outcome == MISSED) == (barriers.NO_EFFECT in set(part["need"]))


def test_what_orders_data_is_not_said_to_be_free(without):
    """Data are in order in the exploration, so it cannot tell."""
    ordering = without["barrier"].str.startswith("ftrace_sync_ipi")
    assert ordering.any() and set(without.loc[ordering, "need"]) == {barriers.NOT_TESTED}
    assert barriers.NOT_TESTED not in set(without.loc[~ordering, "need"])


def test_a_barrier_has_one_place_in_the_grid(without):
    grid = barriers.body(without).frame
    for row in without[without["need"] != ""].itertuples():
        line = grid[grid["scheme"].str.removesuffix(MARK) == patching.labelled(row.scheme)].iloc[0]
        assert [need for need in barriers.NEEDS if row.barrier in line[need]] == [row.need]


# -- the schedules


def test_a_schedule_is_shown_to_its_bad_end():
    frame = schedules.rows()
    for name, part in frame.groupby("scheme"):
        result = explore(scheme(name).subject(), 1, "coherent")
        assert part["first"].iloc[0] == 1 and part["last"].iloc[-1] == len(result.schedule)
        assert (part["first"].iloc[1:].to_numpy() == part["last"].iloc[:-1].to_numpy() + 1).all()
        assert list(part["wrong"]) == [""] * (len(part) - 1) + [str(result.violation)]


def test_each_example_ends_as_its_mail_says():
    frame = schedules.rows()
    ends = frame.groupby("scheme").last()
    for name in patching.EXAMPLES:
        assert ends.loc[name, "does"].startswith("jalr t0, t0") and ends.loc[name, "wrong"].startswith(TARGET)
        begins = frame[(frame["scheme"] == name) & (frame["who"] == "thread")].iloc[1]["does"]
        assert begins.startswith({"riscv64-pair-preempt": "nop", "riscv64-pair-target": "auipc"}[name])
    assert ends.loc["arm64-common", "wrong"].startswith(PAIR)
    for figure in schedules.FIGURES:
        part = figure.rows(frame)
        assert f": after {part['last'].max()} steps" in figure.answer(part)


# -- verdicts


@pytest.mark.parametrize(
    "judge, name, outcome, kind",
    [
        (patching.preempted_between, "riscv64-pair-target", SAFE, DEPENDS),
        (patching.preempted_between, "riscv64-pair", TARGET, DEPENDS),
        (patching.generic_trampoline, "x86_64-common", SAFE, DEPENDS),
        (patching.generic_trampoline, "riscv64-call-ops", PAIR, DEPENDS),
    ],
)
def test_a_verdict_on_schemes_follows_from_the_rows(found, judge, name, outcome, kind):
    assert judge(found).kind == HOLDS != judge(changed(found, name, outcome, 3)).kind == kind


def test_all_examples_safe_is_no_example(found):
    other = found
    for name in patching.EXAMPLES:
        other = changed(other, name, SAFE)
    assert patching.preempted_between(changed(other, "riscv64-pair", TARGET)).kind == FAILS


@pytest.mark.parametrize(
    ("finding", "scheme", "outcome"),
    [
        ("r3", "arm64-call-ops", PAIR),
        ("r8", "riscv64-fixed-auipc", MIXED),
        ("r8", "riscv64-pair-preempt", SAFE),
        ("pair-needs-no-preemption", "riscv64-pair", TARGET),
        ("pair-needs-no-preemption", "riscv64-pair-preempt", SAFE),
        ("one-instruction-is-safe", "riscv64-call-ops", PAIR),
        ("shared-is-unsafe", "x86_64-common", SAFE),
    ],
)
def test_a_finding_on_schemes_follows_from_the_rows(found, finding, scheme, outcome):
    assert not problem(finding, found) and f"{scheme}-" in problem(finding, changed(found, scheme, outcome, 3))


def test_findings_on_waits_follow_from_the_rows(without):
    assert not problem("r5", without) and not problem("r6", without)
    free = without.assign(need=without["need"].where(without["scheme"] != "riscv64-trap", barriers.NOTHING))
    assert "riscv64-trap-needed is not so: 2 and 0" in problem("r5", free)
    riscv = without["scheme"] == "riscv64-call-ops"
    together = riscv & (without["barrier"] == barriers.OTHERS)
    assert "riscv64-call-ops-bare" in problem("r6", without.assign(outcome=without["outcome"].where(~together, TARGET)))
    two = riscv & (without["barrier"] == "flush_icache_all")
    assert "riscv64-call-ops-needs ==" in problem("r6", without.assign(need=without["need"].where(~two, barriers.BREAKS)))


def test_the_balance_has_each_expectation_and_patching_by_two_counts():
    rows = balance.rows()
    assert list(rows["line"]) == list(balance.LINES)
    assert list(dict.fromkeys(rows["expected"])) == [balance.BETTER, balance.LARGER, balance.SAME, balance.AS_COMPLICATED]
    assert (rows["expected"] == balance.AS_COMPLICATED).sum() == 4
    assert not problem("r9", rows) and not any(figure.hypothetical for figure in balance.FIGURES)


@pytest.mark.parametrize("line", balance.LINES)
def test_r9_falls_with_any_line_of_the_balance(line):
    rows = balance.rows()
    here = rows["line"] == line
    changed = rows.assign(after=rows["after"].where(~here, rows["before"] + (line.startswith("needed"))))
    assert f"{line}-after" in problem("r9", changed)


def test_waits_are_counted_alike_with_and_without_preemption(without):
    """What is counted here of a preemptible scheme is what the page on patching shows of it."""
    breaks = without[without["need"] == barriers.BREAKS].groupby("scheme").size()
    missed = without[without["need"] == barriers.NO_EFFECT].groupby("scheme").size()
    for name in (balance.PAIR, balance.POINTER):
        assert balance.waits(name) == balance.Waits(breaks[name], breaks[name] + missed.get(name, 0))
    assert not SCHEMES[balance.PAIR].preemptible and SCHEMES[balance.POINTER].preemptible
    assert balance.waits_without_preemption(balance.PAIR) == balance.waits(balance.PAIR)


def test_the_balance_is_made_of_what_the_other_pages_have():
    """The numbers that these show, and what they are said to mean."""
    rows = balance.rows().set_index("line")
    of = dispatch.rows().set_index(["isa", "built", "here", "elsewhere"])["instructions"]
    built = (dispatch.WITHOUT, dispatch.WITH)
    assert [rows.loc["call", side] for side in ("before", "after")] == [of["riscv64", b, 1, 0] for b in built]
    assert rows.loc["text", "after"] - rows.loc["text", "before"] > 8, "the pointer, and what aligns it"
    assert rows.loc["direct", "before"] < rows.loc["direct", "after"], "near, and far"
    assert rows.loc["breaking", "before"] > rows.loc["breaking", "after"] > 0
