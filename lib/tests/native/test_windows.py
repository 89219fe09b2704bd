"""When windows agree, when timing goes on, and what becomes of what does not: with a child that gives what it is told to."""

from __future__ import annotations

import dataclasses
import json

import pytest

from support.complaints import complaint
from support.native.hosts import HOST, host_isa
from tramplab import isa as isas
from tramplab import native
from tramplab.base.errors import TramplabError
from tramplab.base.paths import data_file
from tramplab.native import counted, windows
from tramplab.native.agreement import NEEDED, WITHIN, agreed, apart, steady
from tramplab.native.result import Result
from tramplab.native.run import Outcome
from tramplab.native.script import CHAIN, Answers
from tramplab.native.states import NativeKernel, State
from tramplab.native.windows import Series, fill

CLOCK = 0.5  # ns per cycle
GOOD = {"none": 2.0, "ops": 8.0, "direct": 4.0}


def state(name: str) -> State:
    return State(name, (), (), 0, (), "0" * 16, lambda _: None)


@pytest.fixture
def child(monkeypatch):
    """Windows that are told beforehand: child(list of least times per hook) makes the series that gets them; an error among
    them is raised. No pause is made."""
    slept, quiet = [], {"virtualised": "no", "governor": "performance", "smt": "off", "load": 0.0, "cpus": 2}
    monkeypatch.setattr(windows.time, "sleep", slept.append)
    monkeypatch.setattr(windows.host, "facts", lambda cpu: {"pinned to": cpu, **quiet})

    def make(told: list[dict | Exception], hooks=("none", "ops", "direct"), **more) -> Series:
        subject = NativeKernel(isas.get("x86_64"), "v7.2", "one_arg", (), tuple(map(state, hooks)), 1, 2, 3, 4, 5)
        left = iter(told)

        def run(subject, plan):
            least = next(left)
            if isinstance(least, Exception):
                raise least
            dead = tuple(f"{s.name} crashed." for s in subject.states if least.get(s.name) is None)
            subject = dataclasses.replace(subject, states=tuple(s for s in subject.states if least.get(s.name)))
            batch = {name: [100] for name in [*least, CHAIN]}
            slow = least.get("slow", {})  # by hook, what the other batch takes
            time = {s.name: [least[s.name] * 100, least[s.name] * 100 * slow.get(s.name, 1.5)] for s in subject.states}
            time[CHAIN] = [least.get("clock", CLOCK) * 64 * 100]
            return Outcome(Answers(batch=batch, time=time, done=True), dead, subject)

        monkeypatch.setattr(windows, "run", run)
        series = Series(subject, 2, 1, **more)
        series.slept = slept
        return series

    return make


def test_three_windows_that_agree_are_enough(child):
    """And what they say is worked out by hand: quartiles of all batches, differences, cycles of half a nanosecond, ratios."""
    series = child([GOOD] * 9, columns={"ops": {"saves": 5}})
    fill([series])
    result = series.result()
    assert series.count == NEEDED == len(series.slept) + 1 and result.unquiet == ()
    none, ops, direct = result.rows
    assert (ops["ns_min"], ops["ns_q1"], ops["ns_median"], ops["ns_q3"]) == (8, 8, 10, 12)
    assert (ops["ns_over"], ops["cycles_over"], ops["ratio_direct"], ops["saves"]) == (6, 12, 3, 5)
    assert (none["ns_over"], none["ratio_direct"], direct["ratio_direct"]) == (0, 0, 1) and "saves" not in none
    assert ops["windows"] == [8, 8, 8] and result.clock == (0.5, 0.5, 0.5) and result.provenance["GHz"] == 2
    assert result.verdict().startswith("Agreed: in 3 of 3 windows")


def test_a_busy_machine_is_waited_for(child):
    """Three windows at the least time must be met; the busy ones between do not matter."""
    busy = {hook: 1.5 * ns for hook, ns in GOOD.items()}
    series = child([busy, GOOD, busy, GOOD, busy, busy, GOOD, busy])
    fill([series])
    assert series.count == 7 and series.result().unquiet == ()
    assert series.result().row("ops")["cycles_over"] == 12


def test_a_minimum_that_was_met_once_is_none(child):
    """Where something shares the core most of the time, three busy windows agree; a quieter one shows them up."""
    busy = {hook: 1.5 * ns for hook, ns in GOOD.items()}
    series = child([busy, busy, GOOD, *[busy] * 30])
    fill([series], most=6)
    result = series.result()
    assert series.count == 6 and result.unquiet == ("none", "ops", "direct")
    assert result.verdict().startswith("This machine was not quiet enough: in 6 windows no hook has had")


def test_one_hook_that_does_not_agree_is_named(child):
    series = child([GOOD, {**GOOD, "ops": 8.5}, {**GOOD, "ops": 9.0}, {**GOOD, "ops": 8.5}])
    fill([series], most=4)
    assert series.result().unquiet == ("ops",)
    assert "not quiet enough for ops: no 3 of 4 windows had the same least time" in series.result().verdict()


def test_a_hook_of_several_speeds_is_named_and_not_waited_for(child):
    """Its least time is met by chance, in however many windows; what all calls do is the machine's doing."""
    several = [{**GOOD, "ops": ns, "slow": {"ops": 2.2}} for ns in (8.0, 7.0, 8.0, 6.5)]
    series = child(several)
    fill([series])
    result = series.result()
    assert series.count == NEEDED and (result.unsteady, result.unquiet) == (("ops",), ())
    assert result.row("ops")["agreed"] is False and result.row("direct")["agreed"] is True
    assert result.verdict() == (
        "Agreed: in 3 of 3 windows every other hook's least time was the same to within 2% of what it adds. Several speeds: ops, "
        "at whose typical one a call takes over 10% longer. Nothing is concluded from such times."
    )
    everything = child([{**GOOD, "slow": dict.fromkeys(GOOD, 3.0)}] * 3)
    fill([everything])
    assert everything.result().unsteady == () and steady(4, 4.4, 1, 1) and not steady(4, 4.5, 1, 1)


def test_a_clock_that_changes_lets_nothing_agree(child):
    series = child([GOOD, {**GOOD, "clock": 0.51}, {**GOOD, "clock": 0.52}])
    fill([series], most=3)
    assert series.result().unquiet == ("none", "ops", "direct")


def test_what_windows_differ_by_adds_up(child):
    """Of what is concluded from, which is the difference: 1 % of the call is 2 % of what the hook adds."""
    assert agreed([10, 10, 10.1], [1, 1, 1], [5, 5, 5]) and not agreed([10, 10, 10.1], [1, 1, 1], [5, 5, 5.05])
    assert not agreed([10, 10, 10.1], [1, 1, 1.01], [5, 5, 5])
    assert agreed([10, 10, 10.1], [1, 1, 1]) and not agreed([10, 10, 10.3], [1, 1, 1])
    assert not agreed([5, 5, 5], [1, 1, 1], [5, 5, 5]) and not agreed([0, 0, 0], [1, 1, 1])
    assert apart([3, 1, 2, 9]) == 2 and NEEDED == 3 and WITHIN == 0.02


def test_timing_ends_in_time(child, monkeypatch):
    """After so many seconds only as many windows are made as are needed at all."""
    now = iter(range(0, 10_000, 30))
    monkeypatch.setattr(windows.time, "monotonic", lambda: next(now))
    series = child([{**GOOD, "ops": 8.0 + n} for n in range(20)])
    fill([series])
    assert series.count == NEEDED


def test_series_take_turns(child):
    """So that a busy stretch meets all of them."""
    order = []
    one, two = child([GOOD] * 9), child([GOOD] * 9)
    for series, name in ((one, "one"), (two, "two")):
        add = series.add
        series.add = lambda add=add, name=name: (order.append(name), add())
    fill([one, two])
    assert order == ["one", "two"] * 3


def test_a_hook_that_dies_in_a_later_window_is_left_out(child):
    series = child([GOOD, GOOD, {"none": 2.0, "direct": 4.0}, *[{"none": 2.0, "direct": 4.0}] * 3])
    fill([series])
    result = series.result()
    assert [r["hook"] for r in result.rows] == ["none", "direct"] and result.failures == ("ops crashed.",)
    assert result.unquiet == ()


def test_a_run_that_fails_half_way_keeps_what_it_has(child):
    series = child([GOOD, GOOD, TramplabError("the native run ended without an answer.")])
    fill([series])
    result = series.result()
    assert series.count == 2 and len(result.unquiet) == 3
    assert result.failures == ("after 2 windows: the native run ended without an answer.",)
    assert "no word" in complaint(lambda: fill([child([TramplabError("no word.")])]))


def test_native_times_agree_or_say_that_they_do_not():
    """On the machine that runs this test, whatever it does meanwhile: what is told of the windows is what they say."""
    host_isa()
    result = native.time_hooks(["ops", "direct"], rounds=20, windows=3)
    base = result.rows[0]["windows"]
    for row in result.rows:
        assert len(row["windows"]) == len(result.clock) == 3
        assert row["ns_min"] == pytest.approx(min(row["windows"]), abs=1e-4)
        seen = agreed(row["windows"], result.clock, None if row["hook"] == "none" else base)
        assert row["agreed"] == (seen and row["steady"]) or abs(apart(row["windows"]) / row["ns_min"] - WITHIN) < WITHIN / 4
    assert result.provenance["isa"] == HOST and result.verdict().startswith(("Agreed", "This machine was not"))


def test_counts_are_those_of_the_quickest_batch():
    """Per call; a counter that is not permitted is named; counters that ran only part of the time are left out."""
    batches = [[10, 900, 900, 500, 300, 20], [10, 800, 800, 500, 250, 10]]
    assert counted.counts([0, 0, 0], {"ops": batches}) == (
        {"ops": {"instructions": 50, "cycles": 25, "branch_misses": 1}},
        [],
    )
    counts, why = counted.counts([0, 2, 0], {"ops": [[10, 9, 9, 500, 20]]})
    assert counts == {"ops": {"instructions": 50, "branch_misses": 2}} and why[0].startswith("no cycles counter: ")
    counts, why = counted.counts([13, 13, 13], {})
    assert counts == {} and "perf_event_paranoid" in why[0]
    counts, why = counted.counts([0, 0, 0], {"ops": [[10, 900, 450, 500, 300, 20]]})
    assert counts == {} and "part of the time" in why[0]


# -- what is saved


@pytest.mark.parametrize("path", sorted((data_file("releases.yml").parent / "native").glob("*.json")), ids=lambda p: p.stem)
def test_what_is_saved_agrees_and_says_so(path):
    """Recomputed from its windows: a saved result carries its agreement, and on the unhooked call there must be one."""
    result: Result = native.load(path)
    none = result.rows[0]
    assert none["hook"] == "none" and none["agreed"] and len(result.clock) >= NEEDED
    for row in result.rows:
        one = steady(row["ns_min"], row["ns_median"], none["ns_min"], none["ns_median"])
        same = agreed(row["windows"], result.clock, None if row is none else none["windows"])
        assert (row["steady"], row["agreed"]) == (one, one and same), row["hook"]
        assert row["ns_min"] == min(row["windows"])
    facts = json.loads(path.read_text("utf-8"))["provenance"]
    assert {"date", "commit", "isa", "cpu", "vendor", "kernel", "virtualised", "command"} <= facts.keys()


def test_there_are_saved_results():
    assert list((data_file("releases.yml").parent / "native").glob("*.json"))
