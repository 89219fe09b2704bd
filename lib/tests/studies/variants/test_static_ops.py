"""One ops, dynamic as a module's or static as the function tracer's: which of them is spoken of, and that real kernels agree."""

import itertools

import pytest

from support.publish.guarded import problem
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.measure import counts_of
from tramplab_book.studies.callops import balance
from tramplab_book.studies.front import answers
from tramplab_book.studies.kernels import kernel_hooks
from tramplab_book.studies.variants.one_callback import single_callback

DYNAMIC, STATIC = "ops", "ops-static"


@pytest.fixture(scope="module")
def by_release():
    return single_callback.by_release(single_callback.rows())


@pytest.mark.parametrize("isa", ISAS)
def test_a_static_ops_that_is_alone_never_fell(isa, by_release):
    """It is served as with CALL_OPS or a trampoline of its own, and before that without the list; what falls is a dynamic one."""
    found = by_release[by_release["isa"] == isa].set_index(["hook", "release"])
    counts = {hook: found.loc[hook]["instructions"] for hook in (DYNAMIC, STATIC)}
    straight = found.loc[DYNAMIC]["CALL_OPS"] | (isa == "x86_64")
    assert (counts[DYNAMIC] == counts[STATIC]).equals(straight)
    assert (counts[DYNAMIC][~straight] > 3 * counts[STATIC][~straight]).all()
    if isa != "x86_64":
        first = list(straight).index(True)
        assert counts[STATIC].iloc[first - 1] < counts[STATIC].iloc[first] < counts[DYNAMIC].iloc[first - 1]


@pytest.mark.parametrize("isa", ISAS)
def test_debians_kernels_say_the_same(isa, by_release):
    """Their counts by release beside the lab's: equal to within two, without our callback, and they rise where it does."""
    known = kernel_hooks.numbers(kernel_hooks.rows())
    lab = by_release[(by_release["isa"] == isa) & (by_release["hook"] == STATIC)].set_index("release")["instructions"]
    counted = [r for r in ("v6.1", "v6.12", "v7.2") if (isa, r) != ("riscv64", "v6.1")]  # Debian had no riscv64 then
    theirs = {r: known[f"{isa}-{STATIC}-{r.replace('.', '-')}-added"] for r in counted}
    own = {r: counts_of(isa, STATIC, r, args=3)["components"]["callback"]["instructions"] for r in theirs}
    for release, added in theirs.items():
        assert abs(lab[release] - own[release] - added) <= 2, release
    for one, other in itertools.pairwise(theirs):
        with_pointer = [bool(releases.features(ISAS[isa], r, {})["call_ops"]) for r in (one, other)]
        assert with_pointer != [False, True] or theirs[one] < theirs[other]


def test_what_is_said_of_releases_follows_the_rows():
    frame = single_callback.rows()
    assert not any(problem(name, frame) for name in ("static-ops-gained-nothing", "fentry-lost-a-third", "x86-had-its-copies"))
    there = (frame["hook"] == STATIC) & (frame["component"] == "trampoline")
    cheap = frame.assign(instructions=frame["instructions"].mask(there & (frame["release"] == "v6.4"), 1))
    assert "arm64-ops-static-v6-4-added == arm64-ops-v6-4-added is not so" in problem("static-ops-gained-nothing", cheap)


def test_in_the_newest_release_both_add_the_same():
    """As the front page and Debian's kernels have it."""
    for isa in ISAS:
        both = [counts_of(isa, hook)["components"] for hook in (DYNAMIC, STATIC)]
        assert both[0] == both[1], isa
    assert "Dynamic and static ops add the same" in answers.FIGURES[0].limits
    known = kernel_hooks.numbers(kernel_hooks.rows())
    assert all(known[f"{isa}-ops-v7-2-added"] == known[f"{isa}-ops-static-v7-2-added"] for isa in ISAS)


def test_the_balance_is_of_a_dynamic_ops():
    assert balance.LINES[balance.rows()["line"].iloc[0]] == "instructions, one ops"
