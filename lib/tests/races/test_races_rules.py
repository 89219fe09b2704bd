"""Each rule of the model by itself: what a fence orders, who is waited for, and what a thread does that is no instruction.

Without any one of them a test here fails: what is said to be safe would be unsafe, or the reverse.
"""

import dataclasses
import functools
import itertools
import math

import pytest

from tramplab.base.errors import TramplabError
from tramplab.ftrace.steps import BYTE, INSTRUCTION, POINTER, Sync, Wait, Write, word
from tramplab.races.barriers import numbers_of
from tramplab.races.explore import SAFE, UNSAFE, explore
from tramplab.races.model.executions import Executions
from tramplab.races.model.fetches import COHERENT, MODELS, STALE, Fetches
from tramplab.races.model.moments import DATA, ORDERED, UNORDERED
from tramplab.races.model.plan import moments
from tramplab.races.model.threads import Threads
from tramplab.races.model.verdicts import FREED, PAIR, TARGET
from tramplab.races.schemes.schemes import SCHEMES, scheme
from tramplab.races.schemes.tasks import flavours
from tramplab.races.search.automaton import NESTS, SLEEPS, Automaton

FIRST, SECOND, THIRD = (word(0x1000 * n, n, "a store") for n in (1, 2, 3))
JALR = Write(0x9000, bytes(4), True, "text", INSTRUCTION)


def wait(sync):
    return Wait(sync, "a reason")


def visible(isa, *steps, data=UNORDERED, preemptible=True):
    """The sets of stores that every CPU may see at some moment, by their numbers in the plan."""
    made = moments(isa, steps, preemptible, False, (), data)
    stores = [n for n, step in enumerate(steps) if isinstance(step, Write)]
    return {frozenset(n for n in stores if m.done >> n & 1) for m in made}


def sets(*these):
    return {frozenset(one) for one in these}


# -- the order of stores


@pytest.mark.parametrize("isa", ["arm64", "riscv64"])
def test_stores_are_seen_in_any_order_up_to_a_fence(isa):
    assert visible(isa, FIRST, SECOND) == sets((), (0,), (1,), (0, 1))
    assert visible(isa, FIRST, wait(Sync.WMB), SECOND) == sets((), (0,), (0, 2))
    assert visible(isa, FIRST, SECOND, data=ORDERED) == visible("x86_64", FIRST, SECOND) == sets((), (0,), (0, 1))


def test_stores_to_the_same_bytes_keep_their_order():
    again = dataclasses.replace(FIRST, data=bytes(8))
    assert visible("arm64", FIRST, again) == sets((), (0,), (0, 1))
    assert visible("arm64", FIRST, Write(FIRST.address + 7, b"x", False, "one byte of it", BYTE)) == sets((), (0,), (0, 1))


def test_a_store_release_orders_what_was_before_it_and_on_arm64_nothing_behind():
    plan = (FIRST, wait(Sync.RELEASE), SECOND, THIRD)
    assert frozenset({3}) in visible("arm64", *plan) and frozenset({2}) not in visible("arm64", *plan)
    assert not {frozenset({3}), frozenset({2})} & visible("riscv64", *plan)


@pytest.mark.parametrize("sync", [Sync.IC_IVAU, Sync.FTRACE_IPI, Sync.RCU_TASKS])
def test_every_wait_is_a_fence_but_flush_icache_all(sync):
    assert frozenset({2}) not in visible("arm64", FIRST, wait(sync), SECOND)
    assert frozenset({2}) in visible("riscv64", FIRST, wait(Sync.FLUSH_ICACHE), SECOND)
    assert frozenset({3}) not in visible("riscv64", FIRST, wait(Sync.FENCE_WO), wait(Sync.FLUSH_ICACHE), SECOND)


def test_a_hart_that_was_asked_too_early_keeps_what_it_has():
    """The text may become visible behind the FENCE.I that was for it: then that did nothing."""
    plan = (JALR, wait(Sync.FLUSH_ICACHE))
    last = [m for m in moments("riscv64", plan, True, False, (), UNORDERED) if not m.after]
    made = moments("riscv64", plan, True, False, (), UNORDERED)
    assert {made[m.horizon].done & 1 for m in last} == {0, 1}
    fenced = moments("riscv64", (JALR, wait(Sync.FENCE_WO), plan[1]), True, False, (), UNORDERED)
    assert {fenced[m.horizon].done & 1 for m in fenced if not m.after} == {1}


def test_too_many_stores_without_a_fence_are_refused():
    many = [word(0x1000 * n, n, "a store") for n in range(1, 20)]
    with pytest.raises(TramplabError, match="too many to take in any order"):
        visible("arm64", *many)


@functools.cache
def subject(name):
    return scheme(name).subject()


def found(name, without="", data=ORDERED, **changed):
    of = dataclasses.replace(subject(name), **changed) if changed else subject(name)
    return explore(of, 1, scheme(name).fetch, numbers_of(of, [without] if without else []), data)


@pytest.mark.parametrize("name", [n for n, s in SCHEMES.items() if s.isa != "x86_64"])
def test_what_is_safe_is_so_with_stores_in_any_order_too(name):
    """As long as every fence of its plan is there."""
    assert found(name, data=UNORDERED).verdict == found(name).verdict


@pytest.mark.parametrize(("name", "fence"), [("arm64-call-ops", "dsb-ishst"), ("riscv64-call-ops", "rcu_assign_pointer")])
def test_without_a_fence_the_pointer_is_seen_before_the_ops(name, fence):
    assert found(name, fence).verdict == SAFE, "where data are ordered nothing is lost"
    assert found(name, fence, UNORDERED).violation.which == TARGET


def test_a_load_of_the_pointer_may_be_early():
    """It finds what was there at any moment since the CPU last took an interrupt, and nothing older."""
    early = found("arm64-call-ops", "ic-ivau+isb", UNORDERED)
    threads = early.threads_of
    literal = next(s.address for s in subject("arm64-call-ops").steps if isinstance(s, Write) and s.why.endswith("its only ops"))
    last = len(threads.moments) - 1
    assert not threads._since(last, [(literal, POINTER)], False), "it has just taken one"
    assert any(threads._since(n, [(literal, POINTER)], False) for n in range(last))
    assert not any(threads._since(n, [(literal, POINTER)], True) for n in range(last)), "it has taken the one of this moment"
    assert not any(threads._since(n, [(FIRST.address, POINTER)], False) for n in range(last)), "no word among the text"


@pytest.mark.parametrize("name", ["arm64-call-ops", "arm64-direct", "arm64-direct-far"])
def test_a_call_whose_load_is_early_need_not_reach_what_came_since(name):
    """Also where text is never old: the call would find the new BL and the pointer of before."""
    assert explore(subject(name), 1, COHERENT, data=UNORDERED).verdict == SAFE


@pytest.mark.parametrize("name", SCHEMES)
def test_no_model_is_safer_than_a_weaker_one(name):
    """A machine that may fetch older text, or see stores in more orders, can do all that the stronger one can: it goes wrong where
    that does, and after no more steps."""
    ran, models = Executions(subject(name)), list(itertools.product(MODELS, DATA))
    steps = {}
    for fetch, data in models:
        result = explore(ran.subject, 1, fetch, data=data, executions=ran)
        assert not result.limit
        steps[fetch, data] = len(result.schedule) or math.inf
    rank = {model: (MODELS.index(model[0]), DATA.index(model[1])) for model in models}
    weaker = [(a, b) for a in models for b in models if rank[a][0] <= rank[b][0] and rank[a][1] <= rank[b][1]]
    assert len(weaker) == 18, "each with itself as well"
    assert not [(a, b) for a, b in weaker if steps[b] > steps[a]], "of a stronger model and a weaker one, which is safer"


# -- who is waited for


def test_which_flavours_of_rcu_a_kernel_calls():
    rude, tasks, plain = Sync.RCU_TASKS_RUDE, Sync.RCU_TASKS, Sync.RCU
    assert flavours("v6.1", True) == flavours("v6.12", True) == [rude, tasks] and flavours("v6.13", True) == [tasks]
    assert flavours("v6.9", False) == [rude] and flavours("v6.12", False) == [rude, plain] and flavours("v6.16", False) == [plain]


@pytest.mark.parametrize("sync", [Sync.RCU_TASKS_RUDE, Sync.RCU])
def test_a_switch_of_tasks_empties_a_kernel_without_preemption(sync):
    """With preemption a thread may have been switched away inside, so it is no wait for it."""
    notes = {m.notes for m in moments("riscv64", (wait(sync),), False, False)}
    assert "inside" in notes
    if sync is Sync.RCU_TASKS_RUDE:
        assert {m.notes for m in moments("riscv64", (wait(sync),), True, False)} == {""}


def test_tasks_rcu_does_not_wait_for_who_sleeps_and_a_reference_does():
    assert found("arm64-fexit").verdict == SAFE
    gone = found("arm64-fexit", "percpu_ref_kill")
    assert gone.violation.which == FREED and SLEEPS in {taken.what for taken in gone.schedule}
    awake = found("arm64-fexit", "percpu_ref_kill", sleeps=False)
    assert awake.verdict == SAFE, "a thread that never sleeps is waited for by Tasks RCU alone"
    uncounted = found("arm64-fexit", counter=None)
    assert uncounted.violation.which == FREED, "a reference that is not seen keeps nobody waiting"


def test_a_grace_period_of_tasks_begins_when_every_cpu_has_looked_again():
    """Else a CPU with the old BL could enter, unwaited for, what the wait is about to free."""
    assert found("arm64-fexit", "ftrace_sync_ipi").verdict == SAFE
    begins = next(m for m in moments("arm64", (JALR, wait(Sync.IC_IVAU), wait(Sync.RCU_TASKS)), True, False) if m.notes)
    assert begins.horizon == 3 and not begins.unseen


# -- exceptions


def test_exceptions_nest_where_registers_are_put_back():
    lost = found("riscv64-newest-pc")
    assert lost.violation.which == TARGET and NESTS in {taken.what for taken in lost.schedule}
    assert found("riscv64-newest-pc", nests=0).verdict == SAFE, "without nesting the newest is the only one"
    assert found("riscv64-saved-pc", nests=2).verdict == SAFE and found("riscv64-newest-pc", nests=2).verdict == UNSAFE


@pytest.mark.parametrize("name", ["arm64-call-ops", "riscv64-call-ops", "riscv64-fixed-auipc", "riscv64-pair-preempt"])
def test_an_exception_in_the_site_changes_no_other_verdict(name):
    """It is what another thread could do; only where saved registers are changed it is more."""
    assert found(name, nests=1).verdict == found(name).verdict


def test_who_is_in_a_handler_keeps_the_machine_from_being_stopped():
    """It has interrupts off; and once it has taken the stopper's it stays where it is."""
    of = subject("riscv64-trap-stopped")
    made = moments("riscv64", of.steps, of.preemptible, True)
    stopping = [n for n, m in enumerate(made) if m.stopping]
    assert stopping and all(made[n].notes == "everybody" and made[n + 1].frozen for n in stopping)
    ran = Executions(of)
    one = Automaton(Threads(ran, made, Fetches(ran, made, STALE)))
    one.build()
    ran.restore()
    masked = {n for n in range(1, len(one.threads.locals)) if one.threads.masked(n)}
    assert masked, "some thread was in the handler"
    waiting = {state: after for state, after in one.table.items() if state[0] in stopping}
    assert any(after for (_, _, noted), after in waiting.items() if noted), "until it takes the interrupt it goes on"
    assert not any(after for (_, _, noted), after in waiting.items() if not noted)


# -- plays


def lived(name, *plays):
    return dataclasses.replace(scheme(name), plays=plays).subject()


def test_an_ops_that_comes_again_is_another_one():
    """The first one's memory was given back: who still calls it is late, and who calls the second is right."""
    first, second, third = lived("arm64-call-ops", "+module", "-module", "+module", "-module", "+module").ops
    assert [o.name for o in (first, second, third)] == ["module", "module again", "module again again"]
    assert len({o.address for o in (first, second, third)}) == 3
    assert first.on <= first.off < first.gone < second.on <= second.off < second.gone < third.on and third.off is None


@pytest.mark.parametrize("plays", [("+module", "-module", "+module"), ("+a", "-a", "+a"), ("+b", "+a", "-b", "+b", "-a", "+a")])
@pytest.mark.parametrize("name", ["arm64-call-ops", "riscv64-call-ops", "riscv64-pair"])
def test_on_off_and_on_again_is_safe_where_ops_have_a_pointer_or_the_machine_stops(name, plays):
    assert explore(lived(name, *plays), 1, STALE, data=UNORDERED).verdict == SAFE


def test_what_was_removed_is_not_what_came_again():
    """Without the wait for tasks a thread reads the first ops, which is not the one that is attached."""
    of = lived("arm64-call-ops", "+module", "-module", "+module")
    late = explore(of, 1, STALE, numbers_of(of, ["synchronize_rcu_tasks"]))
    assert late.violation.which == FREED and late.violation.how.startswith(of.name_of(of.ops[0].address))


@pytest.mark.parametrize("name", ["arm64-bl", "riscv64-fixed-auipc"])
def test_one_static_ops_is_enough_where_a_trampoline_is_shared(name):
    """It is called with the end of the list, which a thread loaded while it was added."""
    found = explore(lived(name, "+a"), 1, COHERENT)
    assert found.violation.which == PAIR and found.violation.how.endswith("ftrace_list_end")
    assert explore(lived(name, "+module", "-module", "+module"), 1, STALE).verdict == SAFE
