"""The studies of save sets, live patching and their consumers: known relations of the rows, and verdicts that follow them."""

import pytest

from tramplab.isa import ISAS
from tramplab.studies.variants import consumers, live_patching, save_set_cycles, save_sets


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
    frame = live_patching.table(live_patching.rows()).set_index(["isa", "save"])["total"]
    for isa in ISAS:
        assert frame[isa, "ip"] < frame[isa, "ip+sp"] < frame[isa, "all"] and frame[isa, "ip"] < frame[isa, "args"]
    numbers = live_patching.numbers(live_patching.rows())
    assert numbers["missed"] == "1" and numbers["functions"] == 15 and numbers["x86_64-stacked"] == 2


@pytest.mark.parametrize(
    ("save", "column", "value", "isa", "expected"),
    [
        (None, None, None, None, "holds"),
        ("ip", "plain_right", 3, None, "fails"),
        ("ip", "plain_right", 3, "arm64", "depends on the ISA"),
        ("ip", "stacked_right", 0, "x86_64", "depends on the ISA"),
        ("ip", "trampoline", 999, None, "fails"),
        ("ip+sp, call", "came_back", 1, "riscv64", "depends on the ISA"),
        ("ip+sp, call", "plain_right", 0, None, "fails"),
        ("ip+sp, call", "stacked_right", 2, "x86_64", "holds"),
        ("regs", "plain_right", 0, None, "holds"),
    ],
)
def test_v6_follows_the_rows(save, column, value, isa, expected):
    frame = live_patching.rows()
    if save:
        frame.loc[(frame["save"] == save) & ((frame["isa"] == isa) | (isa is None)), column] = value
    assert str(live_patching.ip_is_enough_for_live_patching(frame)) == expected


def test_what_consumers_touch():
    """By hand: live patching writes ip and reads nothing; a kprobe reads ip, and what its handler reads."""
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
    frame = consumers.rows()
    served = frame[frame["served"]].groupby("consumer", sort=False)["save"].agg(lambda s: list(dict.fromkeys(s)))
    assert dict(served) == {
        "live patching": ["ip", "args", "all"],
        "kprobe, counts": ["live", "ip", "args", "all"],
        "kprobe, argument": ["live", "ip", "args", "all"],
        "kprobe, register": ["all"],
    }


@pytest.mark.parametrize(
    ("consumer", "save", "served", "isa", "expected"),
    [
        (None, None, None, None, "depends on the consumer"),
        ("kprobe, register", "ip", True, None, "holds"),
        ("kprobe, register", "ip", True, "arm64", "depends on the ISA and the consumer"),
        (None, ("live", "ip", "args"), False, None, "fails"),
        ("live patching", ("ip", "args"), False, None, "depends on the consumer"),
    ],
)
def test_v7_follows_the_rows(consumer, save, served, isa, expected):
    frame = consumers.rows()
    if save:
        sets = (save,) if isinstance(save, str) else save
        where = frame["save"].isin(sets) & ((frame["consumer"] == consumer) | (consumer is None))
        frame.loc[where & ((frame["isa"] == isa) | (isa is None)), "served"] = served
    assert str(consumers.gains_from_saving_less(frame)) == expected
