"""The studies of save sets, live patching and their consumers: known relations of the rows, and verdicts that follow them."""

import re

import pytest

from tramplab import TramplabError
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.studies.variants import beside_bpf, consumers, live_patching, save_set_cycles, save_sets


def test_only_live_arguments_depend_on_the_function():
    frame = save_sets.rows()
    assert frame["right"].all()
    for (isa, save), part in frame.groupby(["isa", "save"]):
        costs = list(part.sort_values("args")["instructions"])
        registers = len(ISAS[isa].args)
        if save == "live":
            assert costs == sorted(costs) and costs[registers] > costs[0] and len(set(costs[registers:])) == 1
        else:
            assert len(set(costs)) == 1


def test_estimates_are_of_the_same_calls():
    """A gain is what two estimates differ by, and every core is of its ISA."""
    frame = save_set_cycles.rows()
    for _, part in frame.groupby("core"):
        by = part.set_index("save")
        for save in by.index:
            assert by.loc[save, "gain"] == pytest.approx(
                by.loc["clobbered", "cycles"] - by.loc[save, "cycles"], abs=0.11
            )
        assert (part["low"] <= part["cycles"]).all() and (part["cycles"] <= part["high"]).all()
    assert list(dict.fromkeys(frame["core"])) == list(save_set_cycles.CORES)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ({}, "depends on the core"),
        (dict.fromkeys(save_set_cycles.CORES, 0.0), "holds"),
        (dict.fromkeys(save_set_cycles.CORES, 9.0), "fails"),
        ({"skylake": 0.4}, "depends on the ISA"),
        ({"zen5": 3.0}, "fails"),
    ],
)
def test_v3_follows_the_gains(gains, expected):
    frame = save_set_cycles.rows()
    for core, gain in gains.items():
        frame.loc[(frame["core"] == core) & (frame["save"] == "live"), "gain"] = gain
    verdict = save_set_cycles.live_is_hardly_a_gain(frame)
    assert str(verdict) == expected
    assert all(f"{gain:.0f} of" in verdict.because for gain in gains.values())


def test_a_replaced_function_costs_what_its_trampoline_saves():
    frame = live_patching.rows()
    added = frame[frame["release"] == releases.LATEST].set_index(["isa", "save"])["added"]
    for isa in ISAS:
        assert added[isa, "ip"] < added[isa, "ip+sp"] < added[isa, "all"] and added[isa, "ip"] < added[isa, "args"]
    numbers = live_patching.numbers(frame)
    assert numbers["missed-total"] == "1" and numbers["functions-total"] == 15 and numbers["x86_64-stacked-total"] == 2
    assert numbers["call-missed-outer"] == numbers["callers-total"]
    bands = [text for name, text in numbers.items() if "-below-" in name]
    assert len(bands) == 9 and all(re.fullmatch(r"\d+ \(\d+ to \d+\)", text) for text in bands)


def test_what_is_drawn_of_live_patching_is_what_is_added():
    frame = live_patching.rows()
    newest = live_patching.named(frame[frame["release"] == releases.LATEST]).set_index(["isa", "save"])["added"]
    drawn = live_patching.bars(frame).groupby(["isa", "save"])["instructions"].agg(["sum", "min"])
    assert dict(drawn["sum"]) == dict(newest) and drawn["min"].min() == 0


def test_what_no_kernel_has_is_marked():
    """In rows, tables and what is drawn; what a release has is not."""
    for frame, shown in (
        (live_patching.rows(), live_patching.table(live_patching.rows())),
        (consumers.rows(), consumers.served(consumers.rows())),
    ):
        assert set(frame.loc[~frame["hypothetical"], "save"]) == {"args", "regs"}
        assert list(shown["save"].str.endswith(" *")) == list(frame["hypothetical"])


@pytest.mark.parametrize(
    ("save", "column", "value", "isa", "expected"),
    [
        (None, None, None, None, "depends on whether the stack is changed"),
        ("ip", "plain_right", 3, None, "fails"),
        ("ip", "plain_right", 3, "arm64", "depends on whether the stack is changed and the ISA"),
        ("ip", "stacked_right", 0, "x86_64", "depends on whether the stack is changed and the ISA"),
        ("ip", "added", 999, None, "fails"),
        ("ip", "outer", 8, None, "fails"),
        ("ip", "shares", False, None, "fails"),
        ("regs", "plain_right", 0, None, "depends on whether the stack is changed"),
    ],
)
def test_v6_follows_the_rows(save, column, value, isa, expected):
    frame = live_patching.rows()
    if save:
        frame.loc[(frame["save"] == save) & ((frame["isa"] == isa) | (isa is None)), column] = value
    assert str(live_patching.ip_is_enough_for_live_patching(frame)) == expected


@pytest.mark.parametrize("missing", [None, "stacked_right", "outer", "shares", "came_back"])
def test_v6_holds_only_where_the_stack_can_be_changed_for_nothing(missing):
    """Each of what the flag for the stack does badly keeps the claim from holding; without all of them it would."""
    frame = live_patching.rows()
    called = frame["save"] == "ip+sp, call"
    for column, value in {"stacked_right": frame["stacked"], "outer": 0, "shares": True}.items():
        if column != missing:
            frame.loc[called, column] = value
    if missing == "came_back":
        frame.loc[called, "came_back"] = 0
    both = "depends on whether the stack is changed and the ISA"
    on = {None: "holds", "stacked_right": both}.get(missing, "depends on whether the stack is changed")
    assert str(live_patching.ip_is_enough_for_live_patching(frame)) == on


def test_what_consumers_touch():
    """By hand: live patching writes ip and reads nothing; a consumer of registers reads ip, and what it is made to read."""
    frame = consumers.rows()
    every = frame[frame["save"] == "all"].set_index(["isa", "consumer"])
    for isa, ip, argument, kept in (
        ("x86_64", "ip", "di", "bx"),
        ("arm64", "pc", "regs[0]", "x19"),
        ("riscv64", "epc", "args[0]", "s1"),
    ):
        patching, counts, taking, other = (every.loc[isa, c] for c in consumers.CONSUMERS)
        assert (patching["read"], patching["wrote"], patching["names"]) == (0, 1, ip)
        assert (counts["read"], counts["wrote"], counts["names"]) == (1, 1, ip)
        assert set(taking["names"].split()) == {ip, argument} and set(other["names"].split()) == {ip, kept}
    assert every["served"].all()


def test_who_is_served_by_what():
    """Sets, and trampolines generated for BPF; of x86-64 alone all registers that a kernel saves."""
    frame = consumers.rows()
    served = frame[frame["served"] & (frame["save"] != "regs")]
    assert dict(served.groupby("consumer", sort=False)["save"].agg(lambda s: list(dict.fromkeys(s)))) == {
        "live patching": ["args", "ip", "all"],
        "consumer, counts": ["args", "live", "ip", "all"],
        "consumer, argument": ["args", "live", "ip", "all"],
        "consumer, register": ["all"],
    }
    regs = frame[frame["save"] == "regs"]
    assert list(regs["served"]) == list(regs["isa"] == "x86_64")
    generated = frame.groupby("consumer", sort=False)["generated"].agg(["all", "any"])
    assert list(generated["all"]) == list(generated["any"]) == [False, True, True, False]


@pytest.mark.parametrize(
    ("consumer", "save", "served", "isa", "expected"),
    [
        (None, None, None, None, "depends on what the consumer reads"),
        ("consumer, register", "ip", True, None, "holds"),
        ("consumer, register", "ip", True, "arm64", "depends on the ISA and what the consumer reads"),
        (None, ("live", "ip", "args"), False, None, "fails"),
        ("live patching", ("ip", "args"), False, None, "depends on what the consumer reads"),
    ],
)
def test_v7_follows_the_rows(consumer, save, served, isa, expected):
    frame = consumers.rows()
    if save:
        sets = (save,) if isinstance(save, str) else save
        where = frame["save"].isin(sets) & ((frame["consumer"] == consumer) | (consumer is None))
        frame.loc[where & ((frame["isa"] == isa) | (isa is None)), ["served", "added"]] = served, 20
    assert str(consumers.gains_from_saving_less(frame)) == expected


def test_v7_tells_whom_a_generated_trampoline_does_not_serve():
    frame = consumers.rows()
    end = "changes nothing: live patching, one that reads another register."
    assert consumers.gains_from_saving_less(frame).because.endswith(end)
    assert consumers.gains_from_saving_less(frame.assign(generated=True)).because.endswith("nothing: none of them.")


# -- beside BPF


def test_who_shares_a_function_with_live_patching():
    """Before v6.0 nobody; from then on BPF, but on riscv64 no trampoline that calls the function; never one that is not asked."""
    frame = beside_bpf.rows()
    for r in frame.itertuples():
        facts = releases.features(ISAS[r.isa], r.release, {})
        if not facts["direct"]:
            wanted = beside_bpf.NONE
        elif r.beside == "no ops_func" or releases.parse(r.release) < (6, 0):
            wanted = beside_bpf.BUSY
        else:
            wanted = beside_bpf.NOT_MADE if (r.isa, r.beside) == ("riscv64", "fexit") else beside_bpf.BOTH
        assert r.outcome == wanted, r
    assert set(frame["outcome"]) == set(beside_bpf.LETTERS)


def test_live_patching_is_first_whoever_came_first():
    frame = beside_bpf.rows()
    both = frame[frame["outcome"] == beside_bpf.BOTH]
    assert set(both.loc[both["beside"] == "fentry", "ran"]) == {"live patching, program, replacement"}
    assert set(both.loc[both["beside"] == "fexit", "ran"]) == {"live patching, replacement, program"}
    assert set(both["went_on"]) == {"replacement"} and both["added"].notna().all()
    orders = both.pivot(index=["isa", "release", "beside"], columns="patching", values="added")
    assert (orders["first"] == orders["second"]).all()


def test_what_is_said_of_sharing_follows_the_rows():
    frame = beside_bpf.rows()
    assert "from v6.1 on fentry and fexit run" in beside_bpf.answer(frame) and "fexit on riscv64" in beside_bpf.answer(frame)
    other = frame.copy()
    other.loc[other["release"] == "v6.1", ["outcome", "ran", "went_on"]] = beside_bpf.BUSY, "", ""
    assert "from v6.4 on" in beside_bpf.answer(other) and beside_bpf.numbers(other)["first"] == "v6.4"
    other.loc[:, "outcome"] = beside_bpf.BUSY
    assert beside_bpf.answer(other) == "In no release shown do both run."
    mixed = frame.copy()
    mixed.loc[mixed["patching"] == "first", "outcome"] = beside_bpf.BUSY
    with pytest.raises(TramplabError, match="depends on who comes first"):
        beside_bpf.table(mixed)
