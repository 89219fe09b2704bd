"""The studies of one ops for all direct calls: counts by hand, what is computed, and that answers follow from the rows."""

import random

import pytest

from tramplab import Direct, Kernel, TramplabError
from tramplab.ftrace.layout import bucket, fields, hash_table
from tramplab.ftrace.steps import BYTE, Write, block, word
from tramplab_book.studies.direct.single import (
    during_plan,
    single_attach,
    single_calls,
    single_lookup,
    single_order,
    single_text,
)
from tramplab_book.studies.direct.single.setups import IN_OPS, setups

#: Instructions of ftrace_caller's far path after its landing pad, by hand: what finds the target, and the jump.
FAR = {
    "arm64": {IN_OPS: 5, "lookup": 4 + 19, "literal": 5, "beside": 4},
    "riscv64": {IN_OPS: 4, "lookup": 3 + 19, "literal": 4, "beside": 3},
}


@pytest.fixture(scope="module")
def calls():
    return single_calls.rows()


@pytest.fixture(scope="module")
def plans():
    return single_attach.rows()


@pytest.fixture(scope="module")
def order():
    return single_order.rows()


# -- calls


def test_far_calls_by_hand(calls):
    of = single_calls.totals(calls).set_index(["isa", "way", "case"])["instructions"]
    for isa, ways in FAR.items():
        landing = {"arm64": 1, "riscv64": 0}[isa]
        assert {way: of[isa, way, "far"] - of[isa, way, "near"] - landing for way in ways} == ways
    assert of["x86_64", IN_OPS, "far"] == of["x86_64", IN_OPS, "near"] == of["x86_64", "one-ops", "far"]


def test_parts_add_up_to_the_whole_call(calls):
    of = single_calls.totals(calls).set_index(["isa", "way", "case"])
    for (setup, case), run in single_calls.runs().items():
        if case:
            added = run.counts.total - single_calls.runs()[setup, ""].counts.total
            found = of.loc[(setup.isa, setup.way, case), list(single_calls.COUNTS)]
            assert [getattr(added, c) for c in single_calls.COUNTS] == list(found)


def test_what_no_kernel_has_is_marked(calls):
    ways = calls[["isa", "way", "hypothetical"]].drop_duplicates()
    assert set(ways[~ways["hypothetical"]]["way"]) == {IN_OPS, "one-ops"} and set(ways[ways["hypothetical"]]["isa"]) == set(FAR)
    for study in (single_calls, single_lookup, single_text, single_attach, single_order):
        rows = study.rows()
        for figure in study.FIGURES:
            table = figure.table(figure.rows(rows))
            told = " ".join(map(str, table.columns)) + " ".join(table.get("way", []))
            assert " *" in told and figure.hypothetical, figure.id


def test_a_near_call_is_the_same_in_all_ways_and_numbers_follow_from_the_rows(calls):
    near = single_calls.totals(calls)[lambda d: d["case"] == "near"]
    assert (near.groupby("isa")[list(single_calls.COUNTS)].nunique() == 1).all(axis=None)
    n = single_calls.numbers(calls)
    assert (n["arm64-lookup-far-over"], n["riscv64-lookup-far-over"], n["arm64-literal-far-over"]) == (18, 18, 0)
    chosen = (calls["way"] == "lookup") & (calls["part"] == "trampoline") & (calls["isa"] == "arm64") & (calls["case"] == "far")
    assert single_calls.numbers(calls.assign(instructions=calls["instructions"] + 2 * chosen))["arm64-lookup-far-over"] == 20


# -- the lookup


@pytest.mark.parametrize(("isa", "way"), [("arm64", "lookup"), ("riscv64", "lookup-c"), ("arm64", "lookup-c")])
def test_a_table_of_many_is_as_it_is_computed(isa, way):
    """A thousand other functions at random: what a call takes is what the entries in front of its own say."""
    kernel, chance = Kernel(isa, slow_path=way, meter="count"), random.Random(3)
    function, image = kernel.function("three_args"), kernel.image
    idle = kernel.call(function, 1, 2, 3).counts.total.instructions
    told = single_lookup.rows().set_index(["isa", "way"]).loc[(isa, way)].iloc[0]
    bits = single_lookup.SERIES.bit_length() - 1
    with kernel.attached(function, Direct(far=True)):
        own = function.site.ip
        others = [own - (1 << 20) + 64 * n for n in chance.sample(range(1 << 15), 1000)]
        entries = {own: image.address("lab_direct_far")} | {at: 0 for at in others if at != own}
        members, data, base = hash_table(image, kernel.heap, entries, bits)
        struct = kernel.heap.take(image.struct("ftrace_hash").size)
        whole = fields(image, "ftrace_hash", members)
        kernel.apply([block(base, data, "entries"), block(struct, whole, "hash")])
        kernel.apply([word(image.address("direct_functions"), struct, "direct_functions")])
        added = kernel.call(function, 1, 2, 3).counts.total.instructions - idle
    front = sum(bucket(at, bits) == bucket(own, bits) and at > own for at in others)
    assert front > 2 and added == told["first"] + front * told["each"]


def test_the_mean_is_of_the_entries_in_front():
    rows = single_lookup.rows()
    one = rows[(rows["functions"] == 1)]
    assert (one["instructions"] == one["first"]).all() and (one["loads"] == one["first_loads"]).all()
    some = rows[(rows["functions"] == 10_000) & (rows["buckets"] == 64)]
    mean = some["first"] + some["each"] * 9_999 / 128
    assert (abs(some["instructions"] - mean) < 0.06).all() and set(rows["buckets"]) == {64, 4096}


# -- the text


def test_bytes_are_those_of_the_word_times_the_functions():
    rows = single_text.rows()
    assert set(rows["per_function"]) == {8, 16} and (rows["kernel_bytes"] == rows["per_function"] * rows["functions"]).all()
    assert set(rows[rows["way"] == "beside"]["per_function"]) == {16} and set(rows["isa"]) == set(FAR)


def test_a_kernel_that_does_not_say_its_sites_is_refused():
    found = {"kernel": {"booted": ["alternatives are as linked"]}, "package": {"name": "some"}}
    with pytest.raises(TramplabError, match=r"some\.json does not say how many patch sites"):
        single_text.traced(found)
    assert single_text.traced({"kernel": {"booted": ["12 patch sites became NOPs", "3 of 4"]}, "package": {}}) == 12


# -- attaching


def test_what_is_computed_must_grow_evenly(plans):
    assert single_attach._beyond({1: {"n": 3}, 4: {"n": 9}, 5: {"n": 11}, 6: {"n": 13}}, 100) == {"n": 201}
    with pytest.raises(TramplabError, match="n does not grow evenly"):
        single_attach._beyond({1: {"n": 3}, 4: {"n": 9}, 5: {"n": 11}, 6: {"n": 14}}, 100)
    guest = plans[~plans["computed"]]["functions"].max()
    assert guest == len(Kernel("arm64", meter="count").functions) and set(plans[plans["computed"]]["functions"]) == {100}


def test_what_was_published_is_read():
    numbers = single_attach.numbers(single_attach.rows())
    assert (numbers["published-before"], numbers["published-after"], numbers["published-waits"]) == ("4.416", "1.667", 27)


# -- the order


def test_every_setup_and_change_was_seen(order):
    assert set(map(tuple, order[["isa", "way"]].drop_duplicates().to_numpy())) == {
        (s.isa, s.way) for s in setups() if s.isa != "x86_64"
    }
    assert (order["third"] == 0).all() and not order["back"].any() and (order["fixed"] == "").all()
    far = single_order.safety(order)[lambda d: d["target"] == "far"].set_index(["isa", "way"])["overwritten"]
    for isa in FAR:
        assert far[isa, "literal *"] == far[isa, "beside *"] == 0 < far[isa, IN_OPS] < far[isa, "lookup *"]


def test_numbers_of_the_order_follow_from_the_rows(order):
    n = single_order.numbers(order)
    assert n["third"] == n["arm64-literal-overwritten"] == 0 < n["calls"]
    assert single_order.numbers(order.assign(third=1))["third"] == 120
    assert single_order.numbers(order.assign(overwritten=1))["arm64-literal-overwritten"] > 0
    columns = ["way", "target", "change", "write", "ran"]
    arm64, riscv64 = (order.loc[order["isa"] == isa, columns].reset_index(drop=True) for isa in FAR)
    assert arm64.equals(riscv64), "calls run the same after the same writes on both"


def test_ways_that_have_no_such_write_go_on_as_they_were(order):
    drawn = single_order.drawn(order).set_index(["change", "way", "step"])["state"]
    assert drawn["share", "beside *", "word"] == "direct" and drawn["share", "beside *", "own word"] == "direct + ops"
    assert drawn["share", "literal *", "own word"] == drawn["share", "literal *", "word"] == "direct + ops"
    assert set(drawn[:, :, "before"]["attach"]) == {"nothing"} and set(drawn[:, :, "before"]["detach"]) == {"direct"}
    assert drawn["detach", "beside *", "word"] == "direct" and drawn["detach", "beside *", "own word"] == "nothing"


def test_the_steps_that_are_drawn_are_in_the_order_of_the_plans(order):
    """And none is left out: a write to the lists changes nothing in these changes."""
    for change in single_order.DRAWN:
        after = list(single_order.table(order)[lambda d, c=change: d["change"] == c]["after"])
        named = ["table in" if w == "table" and change != "detach" else "table out" if w == "table" else w for w in after]
        assert named == [step for step in single_order.STEPS if step in named]


# -- a call between two steps


SETUPS = [s for s in setups() if s.isa != "x86_64"]


@pytest.mark.parametrize("target", [single_order.FAR, single_order.NEAR])
@pytest.mark.parametrize("setup", SETUPS, ids=lambda s: f"{s.isa}-{s.way}")
def test_a_call_runs_the_old_or_the_new(setup, target):
    """After each step, with every set of the live writes, and halted at every instruction; and never the old again."""
    ran = {"attach": ("nothing", "direct"), "share": ("direct", "direct + ops"), "join": ("ops", "direct + ops")}
    ran |= {"leave": ("direct + ops", "ops"), "unshare": ("direct + ops", "direct"), "detach": ("direct", "nothing")}
    for change in during_plan.CHANGES:
        s = single_order.found()[setup, target, change]
        assert (s.old, s.new) == ran[change] and not s.back and not s.fixed
        assert s.wrong(s.after) == s.wrong(s.sets) == s.wrong(s.halted) == 0
        assert len(s.sets) == 1 << len(s.between) and len(s.halted) >= 2


@pytest.mark.parametrize("way", ["lookup", "lookup-c"])
def test_a_table_that_is_published_before_it_is_written_is_seen(way):
    """With every write of the plan in any order, some call faults; what the pointer leads to must be written before it."""
    (setup,) = (s for s in SETUPS if (s.isa, s.way) == ("arm64", way))
    kernel, steps = during_plan._before(setup, "share", False)
    ran, _ = during_plan.ordered(kernel, steps, {"direct", "direct + ops"}, every=True)
    assert set(ran) > {"direct", "direct + ops"}
    writes = [s for s in steps if isinstance(s, Write)]
    assert any(w.granule == BYTE for w in writes)
