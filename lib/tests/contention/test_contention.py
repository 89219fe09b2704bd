"""Pools under contention: no node is lost or held twice whatever the order, and what is counted is what the code executes."""

import itertools
import random
import shutil

import numpy as np
import pytest

from tramplab.base.errors import TramplabError
from tramplab.build.toolchain import GUEST
from tramplab.contention import POOLS, SCHEDULES, Contended, contend
from tramplab.contention.pools import pool as made
from tramplab.emulate.interleave.scheduler import Broken
from tramplab.isa import ISAS

EVERY = list(itertools.product(ISAS, POOLS))
def some_work(chance: random.Random, pool: str) -> dict:
    """Work drawn at random: deeper calls than there are nodes, sleeping tasks, and every schedule."""
    cpus, depth = chance.choice((1, 2, 3, 5, 8)), chance.choice((1, 1, 2, 3))
    nodes = None if pool == "shadow" else chance.choice((None, None, 1, 2, cpus, 3 * cpus))
    asleep = chance.randrange((2 * cpus if nodes is None else nodes) + 1) if chance.random() < 0.2 else 0
    return {
        "cpus": cpus,
        "nodes": nodes,
        "depth": depth,
        "asleep": asleep,
        "between": chance.choice((0, 0, 0, 7, 60)),
        "operations": chance.randrange(40, 160),
        "schedule": chance.choice(list(SCHEDULES)),
        "seed": chance.randrange(10_000),
        "granule": chance.choice((8, 64, 256)),
    }


def memory(isa: str, pool: str, work: dict) -> dict[int, bytes]:
    """What all share, after a run."""
    at = made(isa, pool, work["cpus"], work["nodes"])
    return {address: at.kernel.machine.read(address, size) for address, size in at.setting.shared}


# -- invariants


@pytest.mark.parametrize(("isa", "pool"), EVERY)
def test_no_node_is_lost_or_held_twice(isa, pool):
    """Over random schedules; contend() looks at each take, and at the whole pool in the end. Whoever takes gives back."""
    chance = random.Random(f"{isa} {pool}")
    for _ in range(40):
        work = some_work(chance, pool)
        run = contend(isa, pool, **work)
        assert run.operations == work["operations"]
        held = run.total("pops") - run.total("misses") - run.total("pushes")
        assert 0 <= held <= work["cpus"] * work["depth"], work  # what is held when the counting ends goes back uncounted
        if pool == "shadow":
            assert (run.retries, run.missed) == (0, 0)


@pytest.mark.parametrize(("isa", "pool"), EVERY)
def test_running_ahead_changes_nothing(isa, pool):
    """CPUs that are held before every instruction count the same, one by one, and leave the same behind."""
    chance = random.Random(f"{pool} {isa}")
    for _ in range(8):
        work = some_work(chance, pool)
        ahead, left = contend(isa, pool, **work), memory(isa, pool, work)
        each = contend(isa, pool, **work, unreduced=True)
        assert (ahead.counted == each.counted).all() and left == memory(isa, pool, work), work


@pytest.mark.parametrize(("isa", "pool"), EVERY)
def test_one_cpu_executes_what_the_meter_counts(isa, pool):
    """The same functions called one after the other, by the emulator's own exclusive accesses, and counted by its meter."""
    run = contend(isa, pool, 1, operations=40)
    at = made(isa, pool, 1)
    at.reset()
    machine, counted = at.kernel.machine, []
    machine.set_meter("count")
    argument = at.setting.pool
    for function in (at.setting.pop, at.setting.push):
        called = machine.call(function, {machine.isa.args[0]: argument})
        counted.append(called.tally.instructions)
        argument = called.registers[machine.isa.returns[0]]
    assert [run.total("pop_issued"), run.total("push_issued")] == [20 * n for n in counted]
    assert (run.retries, run.missed, run.longest, run.fairness) == (0, 0, max(counted), 1)


def test_a_run_is_the_same_again_and_another_seed_is_another():
    chosen = {"cpus": 6, "operations": 300, "depth": 2, "nodes": 7}
    first, other = (contend("arm64", "freelist", **chosen, seed=seed) for seed in (1, 2))
    contend("arm64", "objpool", 3, operations=50)
    again = contend("arm64", "freelist", **chosen, seed=1)
    assert (again.counted == first.counted).all() and (other.counted != first.counted).any()


# -- what goes wrong is found


@pytest.fixture(scope="module")
def careless(tmp_path_factory):
    """A guest whose pools promise less: a list without references, and a ring that says too early that a node is there."""
    folder = shutil.copytree(GUEST, tmp_path_factory.mktemp("guest") / "guest")
    header = folder / "include" / "pool.h"
    text = header.read_text("utf-8")
    for old, new in (
        ("|| !LAB_TRY_CMPXCHG(&held->refs, &refs, refs + 1, ACQUIRE)", ""),
        ("__atomic_fetch_sub(&held->refs, 2, RELAXED);", "__atomic_store_n(&held->refs, 0, RELAXED);"),
        ("\t\trefs = __atomic_fetch_sub(&held->refs, 1, __ATOMIC_ACQ_REL);\n", ""),
        ("\t\tif (refs == LAB_REFS_LISTED + 1)\n\t\t\tfreelist_link(held, list);\n", ""),
        ("\t__atomic_store_n(SLOT_WORD(slot, last), tail + 1, RELEASE);\n", ""),
        ("\t*(void *volatile *)&slot", "\t__atomic_store_n(SLOT_WORD(slot, last), tail + 1, RELEASE);\n\t*(void *volatile *)&slot"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    header.write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize("pool", ["freelist", "objpool"])
@pytest.mark.parametrize("isa", ["x86_64", "arm64"])
def test_a_pool_that_promises_less_is_found_out(careless, isa, pool):
    """Without references a node that is back on the list under the same address is taken for the one seen there before; and a
    ring's entry is read before it is written. Some order shows it, and none does with one CPU."""
    found = set()
    for seed, schedule in itertools.product(range(30), ("drawn", "stalls")):
        try:
            contend(isa, pool, 5, depth=2, nodes=4, operations=150, seed=seed, schedule=schedule, guest=careless)
        except Broken as broken:
            found.add(str(broken).split(": ")[1].split(" ")[0])
            break
    assert found
    assert contend(isa, pool, 1, depth=2, nodes=4, operations=150, guest=careless).retries == 0


def test_the_list_misses_a_node_that_it_has_just_put_back(tmp_path):
    """As many nodes as CPUs, so that there is always one. Where a CPU that puts a node back for another reads the list again before
    it gives up, which the kernel's does not, nothing is missed."""
    again = "freelist_link(held, list), node = __atomic_load_n(&list->head, ACQUIRE);"
    folder = shutil.copytree(GUEST, tmp_path / "guest")
    header = folder / "include" / "pool.h"
    text = header.read_text("utf-8")
    assert text.count("\t\t\tfreelist_link(held, list);") == 1
    header.write_text(text.replace("\t\t\tfreelist_link(held, list);", f"\t\t\t{again}"), "utf-8")
    missed = {}
    for guest in (GUEST, folder):
        runs = [contend("arm64", "freelist", 3, nodes=3, operations=1500, schedule="stalls", seed=s, guest=guest) for s in (1, 2)]
        assert all(run.total("misses") == run.total("avoidable") for run in runs)
        missed[guest] = sum(run.total("misses") for run in runs)
    assert missed[GUEST] > 0 == missed[folder]


# -- what is counted


def test_a_reservation_covers_its_bytes():
    """What others write beside a word ends a reservation of it where they share a granule; x86-64 has none."""
    work = {"cpus": 4, "operations": 2000, "schedule": "even"}
    lines, words = ({p: contend("arm64", p, **work, granule=g) for p in ("freelist", "objpool")} for g in (64, 8))
    assert lines["objpool"].total("broken") > words["objpool"].total("broken")
    assert contend("x86_64", "freelist", 4, operations=500).total("broken") == 0
    assert lines["freelist"].total("broken") > 0


def test_a_list_is_contended_and_rings_are_not():
    for isa in ISAS:
        few, many = (contend(isa, "freelist", cpus, operations=400) for cpus in (2, 12))
        assert 0 < few.retries < many.retries and few.pair < many.pair < many.longest
        assert contend(isa, "objpool", 12, operations=400).retries < 0.1


def test_every_ring_is_looked_at_before_a_take_misses():
    costs = {cpus: contend("riscv64", "objpool", cpus, asleep=2 * cpus, operations=60) for cpus in (2, 4, 6)}
    assert {run.missed for run in costs.values()} == {1.0}
    assert costs[4].miss_cost - costs[2].miss_cost == costs[6].miss_cost - costs[4].miss_cost > 0


def test_a_shadow_stack_is_bounded_by_its_task_alone():
    room = made("arm64", "shadow", 3).setting
    each = len(room.nodes) // 3
    assert contend("arm64", "shadow", 3, depth=each, operations=600).missed == 0
    assert contend("arm64", "shadow", 3, depth=each + 1, operations=600).missed > 0


def test_fairness_by_hand():
    def of(*done: int) -> Contended:
        counted = np.zeros(len(done), [("pops", "u8"), ("pushes", "u8")])
        counted["pops"], counted["pushes"] = done, done
        return Contended("arm64", "freelist", len(done), 2, "drawn", 1, counted)

    assert of(5, 5, 5, 5).fairness == 1 and of(8, 0, 0, 0).fairness == 0.25
    assert list(of(3, 1).shares) == [1.5, 0.5]


# -- what cannot be had


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"cpus": 0}, "the model has 1 to 64 CPUs, not 0; choose cpus= among them."),
        ({"cpus": 65}, "the model has 1 to 64 CPUs, not 65; choose"),
        ({"nodes": 0}, "a pool of 0 nodes follows no call; give nodes= 1 or more."),
        ({"nodes": 100_000}, "the guest's heap is full"),
        ({"pool": "objpol"}, "unknown pool 'objpol'; did you mean objpool"),
        ({"pool": "shadow", "nodes": 3}, "has a stack for each task and no pool: leave nodes= out."),
        ({"isa": "arm"}, "unknown ISA 'arm'; did you mean arm64"),
        ({"schedule": "evn"}, "unknown schedule 'evn'; did you mean even"),
        ({"depth": 0}, "depth is a whole number from 1 to 1000000, not 0."),
        ({"operations": 0}, "operations is a whole number from 1"),
        ({"between": -1}, "between is a whole number from 0"),
        ({"asleep": 5}, "5 tasks cannot sleep with a node each: the pool has 4."),
        ({"granule": 24}, "a reservation of 24 bytes is none; give granule= a power of two"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_sentence(asked, said):
    wanted = {"isa": "arm64", "pool": "freelist", "cpus": 2, "operations": 10} | asked
    with pytest.raises(TramplabError) as refused:
        contend(**wanted)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert contend("arm64", "freelist", 2, operations=10).operations == 10
