"""The race explorer: what it finds, that each of its properties can be violated, that leaving out what commutes is no loss."""

import functools

import pytest

from support.models import python_search
from tramplab.base.errors import TramplabError
from tramplab.ftrace.steps import Free, Sync, Wait
from tramplab.races import barriers as barrier
from tramplab.races import schedule
from tramplab.races.command import as_json
from tramplab.races.explore import MOST_STATES, NOT_DECIDED, SAFE, UNSAFE, explore
from tramplab.races.model.executions import Executions
from tramplab.races.model.fetches import COHERENT, MODELS, STALE, TORN, Fetches
from tramplab.races.model.locals import Local
from tramplab.races.model.plan import moments
from tramplab.races.model.threads import Threads
from tramplab.races.model.verdicts import FREED, LATE, MISSED, PAIR, PROPERTIES, STATE, TARGET
from tramplab.races.model.verdicts import TORN as MIXED
from tramplab.races.schemes.schemes import SCHEMES, scheme
from tramplab.races.search.automaton import Automaton
from tramplab.races.search.rows import rows
from tramplab.races.search.search import ALL_SEEN, WRONG, search

#: Known to be bad: which property, and after how few steps.
BAD = {
    "arm64-common": (PAIR, 36),
    "riscv64-pair16-preempt": (TARGET, 18),
    "riscv64-pair-preempt": (TARGET, 15),
    "riscv64-pair-target": (TARGET, 7),
    "riscv64-newest-pc": (TARGET, 36),
    "riscv64-common": (PAIR, 44),
    "x86_64-store": (MIXED, 23),
    "x86_64-store-crossing": (MIXED, 24),
    "x86_64-common": (PAIR, 147),
}
GOOD = [name for name in SCHEMES if name not in BAD]
#: Of these the search without reduction takes less than a second for two threads.
SMALL = [
    ("riscv64-pair", ""),
    ("riscv64-pair", "stop_machine"),
    ("riscv64-pair", "fence.i"),
    ("riscv64-pair-preempt", ""),
    ("riscv64-pair-target", ""),
    ("riscv64-saved-pc", "fix-up"),
    ("riscv64-newest-pc", ""),
]
#: Of these it does for one.
LARGER = [
    *SMALL,
    ("arm64-bl", "ic-ivau+isb-1"),
    ("arm64-common", ""),
    ("arm64-call-ops", ""),
    ("arm64-call-ops", "ic-ivau+isb"),
    ("arm64-call-ops", "synchronize_rcu_tasks"),
    ("arm64-fexit", "percpu_ref_kill"),
    ("riscv64-call-ops", "flush_icache_all-2"),
    ("riscv64-fexit", "call_rcu_tasks-2"),
    ("riscv64-trap", "synchronize_rcu_tasks-1"),
    ("riscv64-trap-stopped", "fence.i"),
    ("riscv64-common", ""),
    ("x86_64-int3", "text_poke_sync-1"),
]


@functools.cache
def subject(name):
    return scheme(name).subject()


@functools.cache
def executions(name):
    return Executions(subject(name))


def dropped(name, without):
    return barrier.numbers_of(subject(name), [without] if without else [])


def run(name, threads=1, without="", **more):
    fetch = more.pop("fetch", scheme(name).fetch)
    return explore(subject(name), threads, fetch, dropped(name, without), executions=executions(name), **more)


def automaton(name, without="", reduced=True, fetch=None, whole=True):
    s = subject(name)
    when = moments(s.machine.isa.name, s.steps, s.preemptible, s.vector is not None, dropped(name, without))
    ran = executions(name)
    made = Automaton(Threads(ran, when, Fetches(ran, when, fetch or scheme(name).fetch)), reduced)
    made.build(whole=whole)
    ran.restore()
    return made


@pytest.mark.parametrize("name", BAD)
def test_what_is_bad_is_found_by_the_shortest_schedule(name):
    found = run(name)
    assert (found.verdict, found.violation.which, len(found.schedule)) == (UNSAFE, *BAD[name])


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", GOOD)
def test_what_is_good_is_clean(name, threads):
    found = run(name, threads)
    assert (found.verdict, found.violation, found.schedule) == (SAFE, None, ())


@pytest.mark.parametrize("name, without", LARGER)
def test_leaving_out_what_commutes_changes_no_verdict_and_no_length(name, without):
    all_of, some = automaton(name, without, reduced=False), automaton(name, without)
    assert bool(all_of.worst) == bool(some.worst)
    if some.worst:
        assert len(all_of.worst[0]) == len(some.worst[0])
        assert {w.which for w in all_of.wrong} == {w.which for w in some.wrong}
    assert some.states < all_of.states / 2


@pytest.mark.parametrize("model", MODELS)
def test_it_does_not_under_any_model_of_fetches(model):
    all_of, some = automaton("riscv64-call-ops", reduced=False, fetch=model), automaton("riscv64-call-ops", fetch=model)
    assert bool(all_of.worst) == bool(some.worst) == (model == TORN)


@pytest.mark.parametrize("name, without", SMALL)
def test_several_threads_can_do_what_one_can_and_no_more(name, without):
    """Without reduction, and without taking threads that change places for the same."""
    for_one = automaton(name, without)
    whole = rows(automaton(name, without, reduced=False))
    for threads in (1, 2):
        found = search(whole, threads, 5_000_000, alike=False)
        assert (found.how == WRONG) == bool(for_one.worst)
        if for_one.worst:
            assert found.depth + 1 == len(for_one.worst[0]), "another thread is no help"


@pytest.mark.parametrize("name", SCHEMES)
def test_the_number_of_threads_changes_no_verdict(name):
    """Threads share nothing that they write: what one does depends on the patcher and on itself, and the others can do no more than
    keep the patcher waiting, which the patcher could do alone. A table that is wrong is made up to there."""
    table = rows(automaton(name, whole=name in GOOD))
    found = [search(table, threads, MOST_STATES).how for threads in (1, 2, 3)]
    assert found == [ALL_SEEN if name in GOOD else WRONG] * 3


@pytest.mark.parametrize("name", ["riscv64-pair", "riscv64-pair-preempt", "arm64-call-ops"])
def test_the_compiled_search_does_what_the_other_does(name):
    table = rows(automaton(name))
    for threads in (1, 2, 3):
        for alike in (False, True):
            assert search(table, threads, 50_000, alike) == python_search.search(table, threads, 50_000, alike)
    assert search(table, 2, 20) == python_search.search(table, 2, 20), "also where the room is used up"


def test_threads_that_change_places_are_counted_once():
    table = rows(automaton("riscv64-pair"))
    both, each = search(table, 2, 50_000, True).states, search(table, 2, 50_000, False).states
    assert each / 2 < both < each


def without_frees(name):
    """The numbers of the waits for tasks, and of what is given back behind them."""
    is_one = lambda step: isinstance(step, Free) or (isinstance(step, Wait) and step.sync is Sync.RCU_TASKS)  # noqa: E731
    return [number for number, step in enumerate(subject(name).steps) if is_one(step)]


def clobbered():
    """A trampoline that leaves out one of its restores: x0 and x1 after the callback."""
    s = scheme("arm64-call-ops").subject()
    start = s.machine.image.address("ftrace_caller")
    code = s.machine.instructions(range(start, start + 0xA0, 4))
    at = next(pc for pc, i in code.items() if i.text.startswith("ldp x0, x1"))
    s.machine.poke(at, bytes.fromhex("1f2003d5"))
    return explore(s, 1)


@pytest.mark.parametrize(
    "which, found",
    [
        (TARGET, lambda: run("riscv64-pair-preempt")),
        (MIXED, lambda: run("riscv64-call-ops", fetch=TORN)),
        (PAIR, lambda: run("arm64-common")),
        (FREED, lambda: run("arm64-call-ops", without="synchronize_rcu_tasks")),
        (LATE, lambda: explore(subject("arm64-call-ops"), 1, STALE, without_frees("arm64-call-ops"))),
        (MISSED, lambda: run("riscv64-call-ops", without="flush_icache_all-2")),
        (STATE, clobbered),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_each_property_can_be_violated(which, found):
    assert found().violation.which == which


def test_no_property_is_left_out_above():
    assert set(PROPERTIES) == {TARGET, MIXED, PAIR, FREED, LATE, MISSED, STATE}


@pytest.mark.parametrize("name", ["arm64-common", "riscv64-common", "x86_64-common"])
def test_the_function_and_its_ops_part_also_where_every_cpu_sees_all_text_at_once(name):
    assert run(name, fetch=COHERENT).violation.which == PAIR


def test_exploring_leaves_the_machine_as_it_was():
    s = scheme("riscv64-call-ops").subject()
    spans = [(seg.address, seg.size) for seg in s.machine.image.segments]
    spans += [(a.address, a.size) for a in (*s.machine.places.stacks, s.machine.places.heap)]
    held = {at: s.machine.read(at, size) for at, size in spans}
    first = explore(s, 2)
    assert {at: s.machine.read(at, size) for at, size in spans} == held
    again = explore(s, 2)
    assert (first.states, first.transitions, first.verdict) == (again.states, again.transitions, again.verdict)


@pytest.mark.parametrize("name", ["arm64-common", "riscv64-pair-preempt"])
def test_the_same_scheme_gives_the_same_words_each_time(name):
    chosen = scheme(name)
    assert as_json(chosen, explore(chosen.subject(), 3, chosen.fetch), []) == as_json(chosen, run(name, 3), [])


def test_a_limit_is_no_verdict():
    found = run("arm64-call-ops", 3, most=500)
    assert (found.verdict, found.limit, found.violation) == (NOT_DECIDED, "500 states", None) and found.states == 500
    late = run("x86_64-int3", 3, seconds=1e-6)
    assert (late.verdict, late.limit) == (NOT_DECIDED, "1e-06 s") and late.states


@pytest.mark.parametrize("name, without", [("x86_64-int3", "text_poke_sync-1"), ("riscv64-call-ops", "flush_icache_all-2")])
def test_a_schedule_is_told_whole_and_fits(name, without):
    found = run(name, without=without)
    for folded in (False, True):
        told = schedule.lines(found, folded)
        numbers = [n for line in told for n in range(line.first, line.last + 1)]
        assert numbers == list(range(1, len(found.schedule) + 1))
        assert max(map(len, schedule.text(found, folded).splitlines())) <= 72
    assert len(schedule.lines(found)) < len(schedule.lines(found, folded=False)) / 2
    assert schedule.text(found).splitlines()[-1].startswith(("=>", "   "))


def test_what_was_executed_before_changes_nothing():
    """Of all plans and models of one subject, in another order."""
    name = "riscv64-fixed-auipc"
    fresh = [(m, explore(subject(name), 2, m, dropped(name, w))) for m in MODELS for w in ("", "flush_icache_all")]
    ran = Executions(subject(name))
    for n, (model, before) in reversed(list(enumerate(fresh))):
        again = explore(subject(name), 2, model, dropped(name, ("", "flush_icache_all")[n % 2]), executions=ran)
        assert (again.verdict, again.states, again.transitions) == (before.verdict, before.states, before.transitions)
        assert [t[:2] for t in again.schedule] == [t[:2] for t in before.schedule]


def test_what_is_made_visible_is_what_was_written_and_nothing_else():
    """IC IVAU is by address: one of the site does nothing for the call in the trampoline."""
    found = run("arm64-bl", without="ic-ivau+isb-1")
    assert found.violation.which == MISSED
    last = [t for t in found.schedule if t.instruction][-1]
    assert found.threads_of.moments[last.moment].unseen, "though every CPU has looked again"
    assert run("arm64-bl", without="ic-ivau+isb-2").violation.which == MISSED


def test_two_that_use_one_machine_in_turn_find_what_each_finds_alone():
    """What one knows to be in the registers, the other has changed."""
    s = subject("arm64-call-ops")
    moves, goes_on = first_two(s)
    alone, one, other = Executions(s), Executions(s), Executions(s)
    wanted = alone.locals[alone.step(moves(alone, 0), goes_on, 0).next]
    alone.restore()
    here = moves(one, 0)
    one.restore()
    moves(other, 8)
    other.restore()
    assert one.locals[one.step(here, goes_on, 0).next] == wanted
    one.restore()


def first_two(s):
    """MOV X9, X30 of a thread whose registers are so much more than usual, and a MOV X10, X9 behind it."""

    def moves(ran, more):
        registers = tuple(r + more for r in ran.start)
        begun = ran.locals.number(Local(s.entry, registers, (), (), frozenset()))
        return ran.step(begun, bytes.fromhex("e9031eaa"), 0).next

    return moves, bytes.fromhex("ea0309aa")


def test_only_what_waits_can_be_left_out():
    with pytest.raises(TramplabError, match="only a wait"):
        explore(subject("riscv64-pair"), 1, STALE, [0])
