"""The studies of contention: known relations of their rows, what was published beside them, and a verdict that follows."""


import pytest

from tramplab.contention import POOLS
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.fprobe import Fprobe
from tramplab_book.publish import published
from tramplab_book.publish.phrases import MARK
from tramplab_book.studies.direct.contention import contended, contention, contention_misses, contention_schedules

STUDIES = (contention, contention_schedules, contention_misses)


@pytest.fixture(scope="module")
def main():
    return contention.rows()


@pytest.fixture(scope="module")
def misses():
    return contention_misses.rows()


def test_there_are_as_many_operations_as_were_asked_for(main):
    """200 000 in the first study alone; on every ISA and pool, with 1 to 64 CPUs and more than one seed."""
    assert main["operations"].sum() > 200_000
    assert set(main["cpus"]) == set(contention.CPUS) and main["cpus"].max() == 64 and main["seed"].nunique() > 1
    assert len(main) == len(ISAS) * len(POOLS) * len(contention.CPUS) * len(contention.LOADS) * len(contention.SEEDS)


def test_what_lies_between_is_the_rest_of_a_hooked_call(main):
    """With one CPU, a pair and what is outside of the pool are a whole call, as the lab's meter counts it."""
    for isa in ISAS:
        release, overrides = contended.KERNELS[isa]
        kernel = Kernel(isa, release, meter="count", rethook="freelist", **overrides)
        with kernel.attached(kernel.function("two_args"), Fprobe(entry=False, exit=True)):
            whole = kernel.call("two_args", 1, 2).counts.total.instructions
        row = contention.at(main, isa, "freelist", contention.CALLS, 1)
        assert row["pair"] + row["elsewhere"] == whole and row["times"] == 1 and row["elsewhere"] > 4 * row["pair"]


def test_what_was_published_is_as_it_stands_there():
    """Throughput of all threads together, from the README of the series; time per operation and thread by hand."""
    of = {name: published.get(f"x86-{name}thr").value for name in ("kretprobe-freelist-4", "kretprobe-freelist-96")}
    assert list(of.values()) == [23_214_783, 4_113_405]
    assert published.get("x86-rawqueue-freelist-16thr").value == 10_640_043
    assert published.get("x86-rawqueue-objpool-16thr").value == 2_334_923_746
    for load, pools in contention.PUBLISHED.items():
        for pool, name in pools.items():
            found = contention.measured(load, pool)
            assert found[1] == 1 and set(found) <= set(contention.CPUS) and max(found) == 64
            for threads, times in found.items():
                one, many = (published.get(f"{name}-{n}thr") for n in (1, threads))
                assert times == pytest.approx(threads * one.value / many.value) and many.commit == "4bbd93455659"
    assert contention.measured(contention.CALLS, "objpool") == {}


def test_numbers_follow_from_the_rows(main, misses):
    n = contention.numbers(main)
    assert (
        contention.numbers(main.assign(retries=2 * main["retries"]))["arm64-freelist-64-retries"] != n["arm64-freelist-64-retries"]
    )
    one, most = (contention.at(main, "riscv64", "freelist", contention.ALONE, cpus)["pair"] for cpus in (1, 64))
    assert n["riscv64-freelist-64-alone"] == f"{most / one:.1f}" and n["most-cpus"] == 64
    each = misses["case"] == contention_misses.EACH
    worse = misses.assign(avoidable=misses["avoidable"] + (each & (misses["pool"] == "objpool")))
    assert contention_misses.numbers(misses)["objpool-avoidable"] == 0
    assert contention_misses.numbers(worse)["objpool-avoidable"] == len(ISAS) * len(contention_misses.CPUS)


def test_shadow_stacks_are_marked_and_limits_say_what_this_is():
    for study in STUDIES:
        rows = study.rows()
        assert (rows["hypothetical"] == (rows["pool"] == "shadow")).all()
        for figure in study.FIGURES:
            assert "algorithmic contention, no timing" in figure.limits
            shown = figure.table(figure.rows(rows)).to_string()
            never = figure.id == "fig-contention-miss-cost"  # a shadow stack's node is never missed there
            assert (f"shadow{MARK}" in shown) == figure.hypothetical != never
