"""Arguments and returns of direct calls and fprobes: known relations of the rows, and verdicts that follow them."""

import pytest

from support.native import machines
from tramplab.isa import ISAS
from tramplab_book.studies.direct.returns import fprobe_since, return_shapes, signatures, two_ways
from tramplab_book.studies.direct.returns.return_shapes import POOL, STACK, TASK
from tramplab_book.studies.time import saved_times


@pytest.fixture(scope="module")
def since():
    return fprobe_since.rows()


@pytest.fixture(scope="module")
def shapes():
    return return_shapes.rows()


@pytest.fixture(scope="module")
def entries():
    return signatures.rows()


def test_parts_are_there_where_the_release_has_them(since):
    """Return hooks up to v6.13, the graph tracer after that, and not for entries from v6.19 on."""
    for (isa, event, release), part in since.groupby(["isa", "event", "release"]):
        by, old = part.set_index("part")["instructions"], release in ("v6.9", "v6.12")
        assert (by["return hook"] > 0) == (old and event == "return")
        assert (by["graph tracer"] > 0) == (not old and (event == "return" or release == "v6.16"))
        assert (by["list function"] > 0) == (isa == "riscv64" and release == "v6.9")
        assert by["fprobe"] > 0 and by[fprobe_since.TRAMPOLINE] > 0


def test_what_is_said_of_fprobe_since_follows_the_rows(since):
    n = fprobe_since.numbers(since)
    assert n["x86_64-return-v6-12-missed"] == "2+8" and n["x86_64-return-v7-2-missed"] == "2+0"
    assert fprobe_since.numbers(since.assign(outer=0))["x86_64-return-v6-12-missed"] == "2+0"
    speeds = fprobe_since.speeds().set_index(["round", "event"])["ratio"]
    assert speeds["v11", "return"] == pytest.approx(4.754 / 3.518) and speeds["v11", "entry"] < 1 < speeds["v15", "entry"]


def test_measured_cycles_stand_beside_the_fprobes_that_were_timed(since, monkeypatch):
    made = {"quick": machines.result("x86_64", {"fprobe": 10.0, "fprobe-exit": 20.0}, unquiet=("fprobe",))}
    monkeypatch.setattr(saved_times, "saved", lambda kind: made)
    table = fprobe_since.table(since)
    timed = table[table["quick"] != "-"]
    assert timed[["isa", "event", "release", "quick"]].to_numpy().tolist() == [["x86_64", "return", "v7.2", "40.0"]]
    assert "quick" not in fprobe_since.golden(since)


def test_numbers_say_where_arguments_are_and_how_a_function_returns(shapes):
    n = return_shapes.numbers(shapes)
    assert [n[f"arm64-{way}-kept"] for way in ("direct", "fprobe-list", "fprobe-stack")] == [STACK, POOL, TASK]
    assert (n["arm64-direct-returns"], n["arm64-fprobe-list-returns"]) == ("called", "hijacked")
    one = return_shapes.numbers(shapes.assign(hijacked=shapes["isa"] == "arm64"))
    assert (one["arm64-direct-returns"], one["x86_64-fprobe-list-returns"]) == ("hijacked", "called")


def test_numbers_say_what_registers_hold(entries):
    n = signatures.numbers(entries)
    assert (n["x86_64-registers"], n["x86_64-direct-there"], n["x86_64-callback-given"]) == (6, 6, 4)
    same = signatures.numbers(entries.assign(holds=[f"{signatures.ARGUMENT} {n}" for n in entries["number"]]))
    assert same["arm64-direct-there"] == same["arm64-registers"] == 8 and same["arm64-callback-given"] == 0
    some = entries.assign(holds=entries["holds"].mask(entries["entry"] == signatures.DIRECT, ""))
    assert signatures.numbers(some)["riscv64-direct-there"] == 0


def test_a_callback_finds_every_argument_in_its_frame(entries):
    frame = entries[entries["entry"] == signatures.CALLBACK]
    assert frame["slot"].notna().all()
    assert all(part["slot"].nunique() == len(part) for _, part in frame.groupby("isa"))


def test_adapters_cost_as_much_for_each_argument():
    frame = signatures.adapters()
    for (isa, way), part in frame.groupby(["isa", "way"]):
        steps = part["instructions"].diff().dropna()
        assert (steps.iloc[1:] == steps.iloc[-1]).all(), (isa, way)
        assert part["stores"].iloc[-1] >= part["arguments"].iloc[-1]
    cost = signatures._most(frame)
    assert all(cost[signatures.COPY][isa] > cost[signatures.FRAME][isa] for isa in ISAS)


def test_both_walks_are_of_todays_arm64():
    direct, fprobe = two_ways.walks()
    assert direct["config"] == fprobe["config"] and (direct["isa"], fprobe["isa"]) == (two_ways.DIRECT, two_ways.FPROBE)
    n = two_ways.numbers(two_ways.rows())
    assert n["direct-all"] == len(direct["steps"]) and n["fprobe-all"] == len(fprobe["steps"])
    assert "save" in direct["milestones"] and "fprobe_ftrace_entry" in {name for name, _ in fprobe["symbols"]}
    assert all("lab_bpf_count" in {name for name, _ in one["symbols"]} for one in (direct, fprobe))
