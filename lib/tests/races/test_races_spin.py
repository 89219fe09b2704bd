"""The race explorer beside models of the same schemes that were written by hand, for another checker.

The explorer executes machine code along the plans that the lab makes. The models (support/promela) know neither: they were
written from what the schemes are, and SPIN searches them. Every scheme, each of its barriers left out, and each model of fetches:
the two must find the same properties violated, and none of a scheme that is safe.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.spin import MODELS as PROMELA
from bench.spin import Checker, missing
from tramplab.races.barriers import barriers, numbers_of
from tramplab.races.explore import SAFE, UNSAFE, explore
from tramplab.races.model.executions import Executions
from tramplab.races.model.fetches import COHERENT, MODELS, STALE, TORN, Fetches
from tramplab.races.model.plan import moments
from tramplab.races.model.threads import Threads
from tramplab.races.model.verdicts import PROPERTIES, STATE
from tramplab.races.schemes.schemes import SCHEMES, scheme
from tramplab.races.search.automaton import Automaton

#: Steps of a plan of which not all that can be violated is looked for under every model of fetches: it takes seconds.
LONG = 80
#: Where a function that returns to its own site goes round for ever, each time with other registers: looked for as in long plans.
ENDLESS = {"riscv64-pair16", "riscv64-pair16-preempt"}
#: What a model has no part in: registers, and what is on the stack.
NOT_MODELLED = {STATE}
#: Ops that are called at some time where nothing goes wrong, by their numbers in the models.
CALLED = {name: {"0", "1"} for name in SCHEMES} | {
    "arm64-call-ops": {"0", "1", "2"},
    "arm64-direct": {"0", "1", "2"},
    "arm64-direct-far": {"0", "1", "2"},
    "riscv64-call-ops": {"0", "1", "2"},
    "riscv64-direct": {"0", "1", "2"},
    "riscv64-pair-target": {"0"},
    "x86_64-int3": {"0", "2"},
    "x86_64-store": {"0", "2"},
    "x86_64-store-crossing": {"0", "2"},
}


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    """A scheme's checker; each is built once. Without SPIN: skipped, but a failure where CI=true."""
    if program := missing():
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"no {program} (Debian: spin, gcc): the explorer is not held against other models")
    built = {}

    def get(name):
        if name not in built:
            built[name] = Checker(name, tmp_path_factory.mktemp(name))
        return built[name]

    return get


def waits(name):
    """The barriers that do more than order data, which are ordered here as in the models."""
    return [b.name for b in barriers(scheme(name).subject()) if not b.fence]


def cases(name):
    """Every one of these that can be left out, "" for none of them, under every model of fetches."""
    return [(without, fetch) for without in ("", *waits(name)) for fetch in MODELS]


def found_by_models(built, asked):
    return {case: set(built.check(case[1], case[0]).bad) for case in asked}


def found_by_explorer(name):
    """All that can be violated, and whether that is all: of a long plan under a model of fetches that is not its own, and of a
    search that would not end, what can be soonest."""
    chosen, subject = scheme(name), scheme(name).subject()
    ran = Executions(subject)
    found = {}
    for without, fetch in cases(name):
        dropped = numbers_of(subject, [without] if without else [])
        when = moments(subject.machine.isa.name, subject.steps, subject.preemptible, subject.vector is not None, dropped)
        one = Automaton(Threads(ran, when, Fetches(ran, when, fetch)))
        whole = name not in ENDLESS and (fetch == chosen.fetch or len(subject.steps) < LONG)
        one.build(whole=whole)
        violated = {w.which for w in one.wrong} if whole else {one.worst[1].which} if one.worst else set()
        found[without, fetch] = violated, whole
    ran.restore()
    return found


def disagree(violated, whole, bad):
    return violated != bad if whole else bool(violated) != bool(bad) or not violated <= bad


def test_there_is_a_model_of_every_scheme():
    assert {p.stem for p in PROMELA.rglob("*.pml")} == set(SCHEMES)


@pytest.mark.parametrize("name", SCHEMES)
def test_what_can_be_violated_is_the_same(checker, name):
    built, chosen = checker(name), scheme(name)
    assert set(built.barriers) == set(waits(name))
    assert built.check(COHERENT).seen == {"end", *CALLED[name]}, "the model gets to its end, and calls what it is to call"
    bad = built.check(chosen.fetch, threads=2, first=True).bad
    assert explore(chosen.subject(), 2, chosen.fetch).verdict == (UNSAFE if bad else SAFE)
    asked_for = cases(name)
    with ThreadPoolExecutor(1) as pool:  # a checker is a process of its own; only this thread assembles, which two may not at once
        asked = pool.submit(found_by_models, built, asked_for)
        explorer = found_by_explorer(name)
        models = asked.result()
    differ = [(*case, explorer[case][0], models[case]) for case in models if disagree(*explorer[case], models[case])]
    assert not differ, "without a barrier, under a model of fetches: what the explorer finds, and what the model does"


def test_models_violate_every_property_that_they_have(checker):
    """Else one that is never violated might be one that never can be."""
    asked = [
        ("riscv64-pair-preempt", "", STALE),
        ("riscv64-call-ops", "flush_icache_all-2", TORN),
        ("arm64-common", "synchronize_rcu_tasks", STALE),
    ]
    bad = set().union(*(checker(name).check(fetch, without).bad for name, without, fetch in asked))
    assert bad == set(PROPERTIES) - NOT_MODELLED


def test_a_checker_knows_what_it_can_leave_out(checker):
    with pytest.raises(RuntimeError, match="WITHOUT has no coffee"):
        checker("riscv64-pair").check(STALE, "coffee")
