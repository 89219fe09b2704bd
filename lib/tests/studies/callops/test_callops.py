"""The studies of patching while threads run: what their rows must say of each other, and verdicts that follow from them."""

import re

import pytest

from support.publish.guarded import problem
from tramplab.ftrace.steps import Write
from tramplab.races.barriers import barriers as barriers_of
from tramplab.races.barriers import numbers_of
from tramplab.races.explore import SAFE, explore
from tramplab.races.model.fetches import STALE, TORN
from tramplab.races.model.verdicts import MISSED, PAIR, PROPERTIES, TARGET
from tramplab.races.model.verdicts import TORN as MIXED
from tramplab.races.schemes.schemes import LIVES, SCHEMES, scheme
from tramplab_book.publish.phrases import MARK
from tramplab_book.studies.callops import balance, barriers, dispatch, lives, pair_ways, patching, real_patching, schedules


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
    assert set(found["scheme"]) == set(SCHEMES) and len(found) == len(patching.COLUMNS) * len(SCHEMES)
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
    assert {i for i, f in shown.items() if f.hypothetical} == {i for i in shown if schedules.SHOWN[i][0] in hypothetical}


def test_the_chart_names_every_scheme_in_words_and_what_no_kernel_has_last(found):
    assert set(patching.LABELS) == set(SCHEMES)
    for _, part in patching.drawn(found).groupby("isa"):
        starred = [name.endswith(MARK) for name in dict.fromkeys(part["scheme"])]
        assert starred == sorted(starred) and len(starred) == part["scheme"].nunique()


# -- the barriers


def test_each_barrier_of_each_safe_scheme_is_left_out(found, without):
    safe = set(found.loc[found["worst"] & (found["outcome"] == SAFE), "scheme"])
    assert set(without["scheme"]) == safe
    for (name, _), part in without.groupby(["scheme", "hart"]):
        assert list(part["barrier"]) == [*(b.name for b in barriers_of(scheme(name).subject())), barriers.OTHERS]


def test_a_scheme_is_judged_on_every_hart_on_which_it_is_safe(found, without):
    """With Ziccif, and without where a fetch of half an instruction does no harm."""
    judged = without.groupby("scheme")["hart"].agg(set)
    for name, harts in judged.items():
        if scheme(name).isa != "riscv64":
            assert harts == {barriers.NO_CHOICE}
        else:
            assert harts == {barriers.WHOLE, *([barriers.ANY] if of_fetch(found, name, TORN) == SAFE else [])}


def test_a_breakpoint_of_one_parcel_needs_more_waits_without_ziccif(without):
    """Each parcel that is written has to be refetched before the next one of the same instruction."""
    trap = without[without["scheme"] == "riscv64-trap"]
    cells = {(r.hart, r.barrier): (r.outcome, r.steps) for r in trap.itertuples()}
    more = {"flush_icache_all-2": 40, "flush_icache_all-3": 44, "flush_icache_all-5": 56}
    for name, steps in more.items():
        assert cells[barriers.WHOLE, name] == (SAFE, 0) and cells[barriers.ANY, name] == (MIXED, steps)
    needs = {hart: set(part.loc[part["need"] == barriers.BREAKS, "barrier"]) for hart, part in trap.groupby("hart")}
    assert needs[barriers.ANY] - needs[barriers.WHOLE] == set(more) and needs[barriers.WHOLE] < needs[barriers.ANY]
    assert not problem("breakpoint-waits-by-hart", without)
    alike = without.assign(need=without["need"].where(~without["barrier"].isin(list(more)), barriers.NOTHING))
    assert "riscv64-trap-any-needed" in problem("breakpoint-waits-by-hart", alike)


def test_all_that_breaks_nothing_by_itself_is_left_out_together_but_fences(without):
    for row in without[without["barrier"] == barriers.OTHERS].itertuples():
        part = without[(without["scheme"] == row.scheme) & (without["hart"] == row.hart)]
        part = part[~part["need"].isin(("", barriers.BREAKS)) & ~part["fence"]]
        assert row.times == part["times"].sum()
        if scheme(row.scheme).plain and not row.hypothetical:
            assert row.outcome == (MISSED if barriers.NO_EFFECT in set(part["need"]) else SAFE)


def test_a_barrier_that_is_needed_has_one_place_in_the_grid(without):
    grid = barriers.body(without).frame.set_index(["scheme", "hart"])
    for row in without[without["need"].isin((barriers.BREAKS, barriers.NO_EFFECT))].itertuples():
        name = patching.labelled(row.scheme) + MARK * row.hypothetical
        cells = [cell for cell in grid.loc[name, row.hart] if f"{row.barrier} (" in cell]
        assert len(cells) == 1 and f"{row.barrier} ({row.outcome})" in cells[0]


# -- ways out, and lives


def test_what_a_way_out_asks_of_a_hart_is_what_the_exploration_finds(found):
    for row in pair_ways.rows().itertuples():
        whole, torn = (of_fetch(found, row.scheme, fetch) == SAFE for fetch in (STALE, TORN))
        assert row.needs == (pair_ways.NEVER if not whole else pair_ways.ANY if torn else pair_ways.ZICCIF)


def of_fetch(frame, name, fetch):
    return frame.loc[(frame["scheme"] == name) & (frame["fetch"] == fetch), "outcome"].item()


def test_a_kernel_has_every_life_but_those_with_direct_calls_it_cannot_have():
    rows = lives.rows()
    for name in lives.KERNELS:
        missing = set(LIVES) - set(rows.loc[rows["scheme"] == name, "life"])
        assert missing <= set(lives.DIRECT) and not scheme(name).hypothetical
        assert bool(missing) == (name not in ("arm64-call-ops", "riscv64-pair", "x86_64-int3"))


def test_in_a_batch_the_other_function_changes_first():
    of = scheme("arm64-call-ops").lived("batch").subject()
    first, second, *_ = [step.address for step in of.steps if isinstance(step, Write) and step.text]
    assert not of.entry <= first < of.end and of.entry <= second < of.end


def test_the_figure_says_where_a_kernel_ends_otherwise(found):
    rows = real_patching.rows()
    assert not problem("kernels-end-as-the-lab", rows)
    lab = found.set_index(["scheme", "fetch"])["outcome"]
    assert rows["same"].all() and all(lab[r.scheme, r.fetch] == r.lab_outcome for r in rows.itertuples())
    first = (rows["kernel"] == "6.12-arm64") & (rows["fetch"] == "coherent")
    other = rows.assign(same=~first, kernel_outcome=rows["kernel_outcome"].where(~first, "pair"))
    assert problem("kernels-end-as-the-lab", other) == f"cases-same == cases-total is not so: {len(rows) - 1} and {len(rows)}"


# -- the schedules


def test_a_schedule_is_shown_to_its_bad_end():
    frame = schedules.rows()
    waits = dict(schedules.SHOWN.values())
    for name, part in frame.groupby("scheme"):
        subject = scheme(name).subject()
        result = explore(subject, 1, "coherent", numbers_of(subject, [waits[name]] if waits[name] else []))
        assert part["first"].iloc[0] == 1 and part["last"].iloc[-1] == len(result.schedule)
        assert (part["first"].iloc[1:].to_numpy() == part["last"].iloc[:-1].to_numpy() + 1).all()
        assert list(part["wrong"]) == [""] * (len(part) - 1) + [str(result.violation)]


def test_findings_on_schedules_follow_from_their_ends():
    frame = schedules.rows()
    assert not problem("r4", frame) and not problem("image-needs-its-reference", frame)
    other = frame.assign(wrong=frame["wrong"].str.replace("^target", "torn", regex=True))
    assert "riscv64-pair16-preempt-ends" in problem("r4", other)
    late = frame.assign(wrong=frame["wrong"].str.replace("^freed", "late", regex=True))
    assert "arm64-fexit-ends" in problem("image-needs-its-reference", late)


# -- verdicts


@pytest.mark.parametrize(
    ("finding", "scheme", "outcome"),
    [
        ("r3", "arm64-call-ops", PAIR),
        ("r8", "riscv64-fixed-auipc", MIXED),
        ("r8", "riscv64-pair-preempt", SAFE),
        ("pair-needs-no-preemption", "riscv64-pair", TARGET),
        ("pair-needs-no-preemption", "riscv64-pair16-preempt", SAFE),
        ("newest-pc-is-not-enough", "riscv64-saved-pc", TARGET),
        ("one-instruction-is-safe", "riscv64-call-ops", PAIR),
        ("r13", "x86_64-common", SAFE),
        ("r13", "riscv64-call-ops", PAIR),
    ],
)
def test_a_finding_on_schemes_follows_from_the_rows(found, finding, scheme, outcome):
    assert not problem(finding, found) and f"{scheme}-" in problem(finding, changed(found, scheme, outcome, 3))


def test_findings_on_waits_follow_from_the_rows(without):
    assert not problem("r6", without)
    riscv = without["scheme"] == "riscv64-call-ops"
    together = riscv & (without["barrier"] == barriers.OTHERS)
    assert "riscv64-call-ops-bare" in problem("r6", without.assign(outcome=without["outcome"].where(~together, TARGET)))
    two = riscv & (without["barrier"] == "flush_icache_all-2")
    assert "riscv64-call-ops-needs ==" in problem("r6", without.assign(need=without["need"].where(~two, barriers.BREAKS)))
    near = (without["scheme"] == "arm64-direct") & (without["barrier"] == "ic-ivau+isb")
    free = without.assign(need=without["need"].where(~near, barriers.NOTHING))
    assert "arm64-direct-needs ==" in problem("near-direct-needs-text", free)


def test_findings_on_ways_out_and_lives_follow_from_the_rows():
    rows = pair_ways.rows()
    assert not problem("r5", rows) and not problem("ways-out-ask-less", rows)
    asking = rows.assign(needs=rows["needs"].where(rows["scheme"] != "riscv64-trap", pair_ways.ZICCIF))
    assert "riscv64-trap-needs" in problem("ways-out-ask-less", asking)
    stopping = rows.assign(stops=rows["stops"].where(rows["scheme"] != "riscv64-call-ops", 1))
    assert "riscv64-call-ops-stops" in problem("r5", stopping)
    every = lives.rows()
    assert not problem("whatever-comes-and-goes", every)
    bad = every.assign(outcome=every["outcome"].where(every["scheme"] != "riscv64-pair", PAIR))
    assert "riscv64-pair-safe" in problem("whatever-comes-and-goes", bad)


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
    without = without[~without["fence"] & (without["hart"] == barriers.WHOLE)]
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
