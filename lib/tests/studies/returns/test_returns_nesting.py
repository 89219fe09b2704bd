"""The studies of what bounds return hooks: known relations of their rows, sentences and a verdict that follow them."""

import pytest

from support.models.call_trees import own_misses
from tramplab.isa import ISAS
from tramplab.returns.mechanisms import FEXIT, FGRAPH, FPROBE, KRETPROBE, RETHOOK, builds, get
from tramplab_book.studies.returns.bounds import nesting, nesting_memory, nesting_told
from tramplab_book.studies.returns.bounds.nesting_builds import CPUS, FRAME, LIST, POOLS, RING, STACK, TASKS, keeps, shown, sized


@pytest.fixture(scope="module")
def calls():
    return nesting.rows()


@pytest.fixture(scope="module")
def memory():
    return nesting_memory.rows()


def test_every_mechanism_is_shown_where_it_keeps_a_call():
    """Lists up to v6.6 and rings after that; the others alone."""
    for isa in ISAS:
        found = shown(isa)
        assert {build.mechanism for build in found.values()} == {build.mechanism for build in builds(isa)}
        for name, build in found.items():
            version = tuple(map(int, build.release[1:].split(".")))
            pooled = LIST if version <= (6, 6) else RING
            assert keeps(build) == {FGRAPH: STACK, FPROBE: STACK, FEXIT: FRAME}.get(build.mechanism, pooled), name
        assert sized(found["kretprobe, list"], 3).maxactive == 3 and sized(get(isa, FGRAPH), 3).filter == ()


def test_every_call_is_seen_or_counted_and_returns_rightly(calls):
    """By the probe or by its task; a stack ends under deep frames of fexit alone."""
    run = calls[~calls["ended"]]
    assert run["right"].all() and (run["seen"] + run["missed"] + run["overrun"] == run["calls"]).all()
    assert (run["calls"] == run["tasks"] * run["depth"]).all()
    assert set(calls[calls["ended"]]["mechanism"]) == {FEXIT} and set(calls[calls["ended"]]["depth"]) == {max(nesting.DEPTHS)}
    graph = run["mechanism"].isin((FGRAPH, FPROBE))
    assert (run[~graph]["overrun"] == 0).all() and (run[run["mechanism"] == FGRAPH]["missed"] == 0).all()
    assert (run[run["mechanism"] == FEXIT]["seen"] == run[run["mechanism"] == FEXIT]["calls"]).all()


def test_a_pool_bounds_all_and_a_shadow_stack_each(calls):
    """By the sizes that kernels take, on four CPUs: ten, eight; and by depth."""
    for r in calls[~calls["ended"]].itertuples():
        pool = {KRETPROBE: max(10, 2 * CPUS), RETHOOK: 2 * CPUS}.get(r.mechanism)
        room = pool if pool else r.tasks * min(r.depth, r.deepest)
        assert r.seen == min(r.calls, room), r
        assert r.deepest == (pool or r.deepest) and (r.deepest_all == r.deepest) == (r.keeps not in POOLS)
        assert r.widest == (pool or nesting.MOST_TASKS)
    known = nesting.whole(calls).set_index(["isa", "mechanism"])
    assert {isa: known.loc[(isa, FPROBE), "told"] for isa in ISAS} == {
        "x86_64": nesting.OWN,
        "arm64": nesting.TASK,
        "riscv64": nesting.TASK,
    }


def test_whose_counter_has_a_miss_is_said_of_the_rows():
    """By hand; then one ISA otherwise, and an fprobe that always knows."""
    rows = nesting_told.rows()
    for isa in ISAS:
        told = [nesting.OWN if one else nesting.TASK for one in own_misses(isa)]
        assert list(rows["told"][rows["isa"] == isa]) == told
    other = rows.assign(told=rows["told"].mask(rows["isa"] == "riscv64", nesting_told.TASK))
    n = nesting_told.numbers(other)
    assert (n["sizes"], n["riscv64-own"], n["riscv64-task"]) == (16, 0, 0) and n["x86_64-task"] == 8
    assert nesting_told.numbers(rows.assign(told=nesting_told.OWN))["arm64-task"] == "none"


def test_a_program_that_calls_the_function_misses_that_call():
    assert (nesting.guarded()[["seen", "missed"]] == 1).all(axis=None)


def test_memory_is_enough_for_all_calls_and_is_the_sum_of_its_parts(memory):
    assert (memory["seen"] == memory["calls"]).all()
    assert (memory[list(nesting_memory.COLUMNS.values())].sum(axis=1) == memory["bytes"]).all()
    for r in memory.itertuples():
        assert r.calls == nesting_memory.DEPTH * r.tasks
        assert r.shadow == (4096 * r.tasks if r.keeps == STACK else 0)
        taken = r.call * r.calls
        assert r.nodes == (taken if r.keeps in POOLS else 0) and r.frames == (taken if r.keeps == FRAME else 0)
        assert (r.rings > 0) == (r.keeps == RING) and (r.even > 0) == (r.keeps in POOLS)
    stacks = memory[(memory["keeps"] == STACK) & (memory["tasks"] == 1)]
    of_x86 = stacks["isa"] == "x86_64"
    assert list(stacks[of_x86]["call"]) == [32, 48] and set(stacks[~of_x86]["call"]) == {40, 56}


def test_a_pool_is_even_with_a_shadow_stack_where_its_bytes_are():
    """Of a list by division; of rings at once, which are a page for each CPU."""
    known = nesting_memory.whole(nesting_memory.rows()).set_index(["isa", "name"])
    for isa in ISAS:
        one = known.loc[isa]
        assert one.loc["kretprobe, list", "even"] == -(-4096 // one.loc["kretprobe, list", "call"])
        assert one.loc["kretprobe, rings", "even"] == 1


def test_more_probes_leave_less_depth_and_more_cpus_larger_rings():
    """An fprobe more is a word more of each call: what it has of its own goes into one block. Ten calls in a list take ten nodes on
    any number of CPUs up to five; a ring with its nodes takes a page of each."""
    more = nesting_memory.more().set_index(["isa", "probes"])["deepest"]
    for isa, frame in {"x86_64": 4, "arm64": 5, "riscv64": 5}.items():
        for probes in nesting_memory.PROBES:
            words, last = frame + 1 + probes, 4096 // 8 - 16 - frame
            assert more[isa, probes] == -(-(last - words) // words)
    by = nesting_memory.machines().set_index(["isa", "name", "cpus"])["default"]
    for isa in ISAS:
        assert by[isa, "kretprobe, list", 32] - by[isa, "kretprobe, list", 1] == (2 * 32 - 10) * 48
        assert max(16 + 8 * 64 + 2 * 48, 16 + 8 * 16 + 10 * 48) < 4096  # of each of 32 CPUs, and of one
        assert by[isa, "kretprobe, rings", 32] - by[isa, "kretprobe, rings", 1] == 32 * 4096 + 8 * 32 - (4096 + 16)
    assert (nesting_memory.with_data()["more"] == nesting_memory.DATA).all()


def test_what_is_said_of_memory_follows_from_the_rows(memory):
    n = nesting_memory.numbers(memory)
    most = memory[memory["tasks"] == TASKS]
    assert n["shadow"] == 4096
    assert (most["seen"] == most["calls"]).all(), "pools are made just large enough"
    assert n["arm64-kretprobe-rings-most"] == most.set_index(["isa", "name"])["bytes"]["arm64", "kretprobe, rings"]
