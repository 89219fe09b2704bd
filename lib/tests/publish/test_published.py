"""What others published, read and turned into ratios, and how estimates are held against it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tramplab.base.errors import TramplabError
from tramplab.estimate.judged import spearman
from tramplab.lab import hooks
from tramplab_book.publish import published
from tramplab_book.studies.time import published_call_ops, published_pairs
from tramplab_book.studies.time.ranks import scaled_errors
from tramplab_book.studies.variants import thread_2019


def test_every_row_is_read_with_its_source():
    rows = published.read()
    assert len(rows) > 280 and all(m.source and m.machine and m.variant for m in rows.values())
    assert {m.isa for m in rows.values()} == {"x86_64", "arm64", "riscv64"}


def test_times_stand_and_rates_are_turned_into_times():
    assert published.get("arm64-callops-after-r1-i0-overhead").ns == 1.86
    assert published.get("arm64-rpi4-florent-trig-base").ns == pytest.approx(1000 / 0.701, abs=0.01)
    assert published.get("x86-2019-task_rename-no-fentry").ns == pytest.approx(1e6 / 2710, abs=0.01)


def test_what_says_nothing_of_one_call_is_refused():
    with pytest.raises(TramplabError, match="is in s, which says nothing about one call"):
        _ = published.get("arm64-pi4-xu-dd-1568").ns
    with pytest.raises(
        TramplabError, match=r"unknown published measurement 'x86-jmp-before-fentri'.*x86-jmp-before-fentry"
    ):
        published.get("x86-jmp-before-fentri")
    with pytest.raises(TramplabError, match="is in M ops/s, not a loss"):
        published_pairs._loss("arm64-rpi4-florent-trig-base")()


def test_derived_costs_are_those_of_the_thread():
    """Nanoseconds per event in the two rounds of October 2022, and losses as parts: computed by hand from the mails."""
    pairs = {(p.run, p.what): p for p in published_pairs.PAIRS}
    xu, florent = pairs["Xu", "fprobe / direct"], pairs["Florent", "fprobe+CALL_OPS/direct"]
    assert [round(f()) for f in (xu.cheap, xu.costly, florent.cheap, florent.costly)] == [176, 421, 450, 1049]
    assert pairs["RFC", "fprobe, slow / direct"].ratio == pytest.approx((62.6 / 37.4) / (28.6 / 71.4))
    assert pairs["2019", "fexit / fentry"].ratio == pytest.approx(7.87 / 4.44, rel=0.01)


# -- rank correlation and error

values = st.lists(st.integers(1, 10**6), min_size=3, max_size=30, unique=True)


@given(values, st.randoms(use_true_random=False))
def test_only_the_order_counts_for_ranks(numbers, random):
    other = sorted(numbers)
    random.shuffle(other)
    rank = spearman(numbers, other)
    assert spearman([math.log(n) for n in numbers], [n**0.5 for n in other]) == pytest.approx(rank)
    assert spearman(numbers, [-n for n in other]) == pytest.approx(-rank) and -1 <= round(rank, 9) <= 1
    assert spearman(numbers, numbers) == pytest.approx(1)


def test_ranks_by_hand():
    assert spearman([10, 20, 30, 40, 50], [1, 2, 3, 5, 4]) == pytest.approx(1 - 6 * 2 / (5 * 24))
    assert spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2)  # the two equal ones share rank 1.5


@given(values, st.floats(0.1, 10))
def test_one_factor_is_no_error(numbers, factor):
    assert max(scaled_errors(numbers, [factor * n for n in numbers])) < 1e-6


# -- the studies


@pytest.fixture(scope="module")
def call_ops():
    return published_call_ops.rows()


@pytest.fixture(scope="module")
def pairs():
    return published_pairs.rows()


def test_every_case_of_every_table_is_run(call_ops):
    cases = {f"{side} {r}/{i}" for side in ("before", "after") for r, i in published_call_ops.LOADS}
    assert len(cases) == 12
    for machine, part in call_ops.groupby("machine"):
        assert set(part["case"]) == cases and len(part) == 12, machine


def test_bands_hold_their_estimates(call_ops, pairs):
    estimated = call_ops.dropna()
    assert len(estimated) == 18 and (estimated["low"] <= estimated["cycles"]).all()
    assert (estimated["ratio_low"] <= estimated["cycles_ratio"]).all()
    assert (estimated["cycles_ratio"] <= estimated["ratio_high"]).all()
    known = pairs.dropna(subset=["cycles"])
    assert (known["low"] <= known["cycles"]).all() and (known["cycles"] <= known["high"]).all()


def test_a_program_is_compared_with_a_program(pairs):
    """Beside fentry, on every core and in every table: a kprobe and kprobe_multi are the lab's with a BPF program."""
    assert not pairs.isna().any(axis=None)
    both = ("kprobe / fentry", "kprobe-multi / fentry")
    beside = {p.what: [hook for _, _, hook in p.labs] for p in published_pairs.PAIRS if p.what in both}
    assert beside == {"kprobe / fentry": ["kprobe-bpf", "bpf-fentry"], "kprobe-multi / fentry": ["kprobe-multi", "bpf-fentry"]}
    assert all("program" in hooks.get(name).title for names in beside.values() for name in names)


def test_every_pair_says_what_the_lab_has_not(pairs):
    """And nothing where both sides are programs, which have in the lab all that the published ones have."""
    programs = ~pairs["what"].str.contains("fprobe")
    assert (pairs["missing"] == "").equals(programs) and pairs.loc[~programs, "missing"].str.len().min() > 4


# -- the thread of 2019


def test_the_figures_of_2019_are_those_of_the_mails():
    """Worked out by hand: 648 and 1714 million cycles above 33,228."""
    assert thread_2019.numbers() == {
        "regs-stack": 200, "generated-stack": 16, "generated-insns": 10, "ip-cycles": "2.0 %", "regs-cycles": "5.2 %",
    }  # fmt: skip
