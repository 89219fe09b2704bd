"""What the explorer takes for bad, one promise at a time: of an instruction that is made up, and of memory that is given back."""

import dataclasses
import functools

import pytest

from tramplab.base.errors import TramplabError
from tramplab.ftrace.steps import Write
from tramplab.races.explore import SAFE, explore
from tramplab.races.model.cpu import Cpu, Executed
from tramplab.races.model.executions import Executions
from tramplab.races.model.fetches import COHERENT, Fetches
from tramplab.races.model.judge import Judge
from tramplab.races.model.locals import IDLE, Local
from tramplab.races.model.plan import moments
from tramplab.races.model.threads import Threads
from tramplab.races.model.verdicts import FREED, MISSED, PAIR, STATE, TARGET
from tramplab.races.schemes.schemes import scheme

#: A scheme of each ISA.
ONE = {"x86_64": "x86_64-int3", "arm64": "arm64-call-ops", "riscv64": "riscv64-call-ops"}
ISAS = list(ONE)


@functools.cache
def executions(isa):
    return Executions(scheme(ONE[isa]).subject())


class Returning:
    """A thread whose next instruction returns to the caller, and what is thought of that."""

    def __init__(self, isa):
        self.ran = executions(isa)
        self.subject, self.isa = self.ran.subject, self.ran.subject.machine.isa
        self._judge = Judge(self.subject, Cpu(self.subject), self.ran.start, self.ran.locals)
        self.ops = self.subject.ops[0].address

    def registers(self, **changed):
        """As they are to be then: as at the start, with the result, and on x86-64 with the way back taken off the stack."""
        now = dict(zip(self.ran.names, self.ran.start, strict=True))
        now[self.isa.returns[0]] = self.subject.call.value
        now[self.isa.sp] += 0 if self.isa.link else 8
        return tuple({**now, **{name: now[name] + more for name, more in changed.items()}}.values())

    def wrong(self, called=(), due=(), memory=(), stores=(), **changed):
        after, back = self.registers(**changed), self.subject.machine.return_to
        local = Local(self.subject.body, self.ran.start, (), called, frozenset(due))
        step = self._judge.outcome(local, 4, Executed(back, after, memory, (), stores))
        assert step.next == IDLE
        return step.wrong


@pytest.mark.parametrize("isa", ISAS)
def test_a_call_that_returns_as_it_is_to_is_fine(isa):
    thread = Returning(isa)
    assert thread.wrong() is None
    assert thread.wrong(called=(thread.ops,), due=[thread.ops]) is None
    assert thread.wrong(called=(thread.ops, thread.ops)) is None, "one that is attached or removed meanwhile"


@pytest.mark.parametrize("isa", ISAS)
def test_every_register_that_is_kept_is_compared_and_the_stack_pointer(isa):
    thread = Returning(isa)
    kept = {*thread.isa.callee_saved, thread.isa.sp}
    for name in kept:
        for more in (8, -8, 16):
            wrong = thread.wrong(**{name: more})
            assert wrong is not None and wrong.which == STATE and wrong.how == f"{name} not as before the call"
    for name in {*thread.isa.args, *thread.isa.scratch} - kept - {thread.isa.returns[0]}:
        assert thread.wrong(**{name: 8}) is None
    wrong = thread.wrong(**{thread.isa.returns[0]: 1})
    assert wrong.which == STATE and wrong.how.startswith("it returns ")


@pytest.mark.parametrize("isa", ISAS)
def test_an_ops_that_is_due_is_called_once(isa):
    """Not at all is as bad as twice, whatever else was called."""
    thread, other = Returning(isa), 0x1234
    for called, often in (
        ((), "not at all"),
        ((other,), "not at all"),
        ((thread.ops,) * 2, "2 times"),
        ((thread.ops, other, thread.ops, thread.ops), "3 times"),
    ):
        wrong = thread.wrong(called=called, due=[thread.ops])
        assert wrong.which == MISSED and wrong.how.endswith(f" is attached and called {often}")
    assert thread.wrong(called=(other, thread.ops), due=[thread.ops]) is None
    for missed in (other, (1 << 64) - 8):
        assert thread.wrong(called=(thread.ops,), due=[thread.ops, missed]).which == MISSED


@pytest.mark.parametrize("isa", ISAS)
def test_what_a_thread_has_for_itself_is_as_it_was(isa):
    """And it writes nowhere else."""
    thread = Returning(isa)
    at, size = thread.subject.private[0]
    assert thread.wrong(memory=((at, 5),), stores=(at,)).how.endswith(" is not as before the call")
    assert thread.wrong(memory=((at + size - 1, 5),), stores=(at,)).which == STATE
    assert thread.wrong(memory=((0x1000, 5),)) is None
    stack = thread.subject.machine.stack
    assert thread.wrong(memory=((stack.address, 5),), stores=(stack.address,)) is None
    with pytest.raises(TramplabError, match="which is no thread's own"):
        thread.wrong(stores=(thread.subject.entry,))


class Led(Returning):
    """A thread whose next instruction leads from one address to another, and what is thought of that."""

    def led(self, pc, to, **changed):
        local = Local(pc, self.ran.start, (), (), frozenset())
        wrong = self._judge.outcome(local, 4, Executed(to, self.registers(**changed), (), (), ())).wrong
        return (wrong.which, wrong.how) if wrong else None


@pytest.mark.parametrize("isa", ISAS)
def test_a_site_leads_on_in_its_function_or_to_a_target_and_nowhere_else(isa):
    """Not even to where calls return: only what is called comes back there."""
    thread = Led(isa)
    s = thread.subject
    back, (callback, *_) = s.machine.return_to, s.callbacks
    assert thread.led(s.entry, s.body) is None and all(thread.led(s.entry, to) is None for to in s.targets)
    for to in (back, s.end, *{callback} - {*s.targets}):
        assert thread.led(s.entry, to)[0] == TARGET
    assert thread.led(s.body, back) is None
    middle = callback + 4
    assert s.name_of(middle) != s.name_of(callback) and thread.led(s.body, middle)[0] == TARGET


@pytest.mark.parametrize("isa", ISAS)
def test_a_callback_is_told_where_it_is_and_who_called(isa):
    thread = Led(isa)
    s, (ip, parent, ops) = thread.subject, thread.isa.args[:3]
    callback, (one, *_) = next(iter(s.callbacks.items()))
    now = dict(zip(thread.ran.names, thread.registers(), strict=True))
    right = {ip: s.ip - now[ip], parent: s.machine.return_to - now[parent], ops: one - now[ops]}
    assert thread.led(s.body, callback, **right) is None
    for name in (ip, parent):
        which, how = thread.led(s.body, callback, **{**right, name: right[name] + 4})
        assert which == STATE and how.startswith("a callback is told ip ")
    assert thread.led(s.body, callback, **{**right, ops: right[ops] + 8})[0] == PAIR


def explored(name, freed):
    """A scheme whose plan gives other memory back: number of a step -> that."""
    return explore(dataclasses.replace(scheme(name).subject(), freed=freed), 1, COHERENT)


@pytest.mark.parametrize("isa", ISAS)
def test_memory_that_is_given_back_is_neither_executed_nor_read(isa):
    """Its first byte is enough and so is its last; beside it nothing happens."""
    ran = executions(isa)
    s, name = ran.subject, ONE[isa]
    assert explored(name, {}).verdict == explored(name, {0: (s.end, 64)}).verdict == SAFE
    for area in ((s.body, 4), (s.body - 64, 65)):
        found = explored(name, {0: area})
        assert found.violation.which == FREED and found.violation.how.endswith(" is executed")
    result = explored(name, {})
    at, size = next(read for read in sorted(reads(result)) if not s.machine.is_text(read[0]) and not own(s, read))
    for area in ((at, size), (at - 64, 65), (at + size - 1, 64)):
        found = explored(name, {0: area})
        assert found.violation.which == FREED and " is read at " in found.violation.how
    assert explored(name, {0: (0x1000, 4096)}).verdict == SAFE


def reads(result):
    """What threads have read, (address, size), on any path."""
    return {read for step in result.threads_of.executions._known.values() for read in step.reads} | {
        read for step in result.threads_of.executions._depending.values() for read in step.reads
    }


def own(s, read):
    stack = s.machine.stack
    return any(at <= read[0] < at + size for at, size in [(stack.address, stack.size), *s.private, *s.scratch])


def test_it_may_be_touched_until_it_is_given_back():
    """From the moment on to which that step leads."""
    of = scheme("arm64-call-ops").subject()
    when = moments("arm64", of.steps, of.preemptible, of.vector is not None)
    last = max(number for number, step in enumerate(of.steps) if isinstance(step, Write))
    of = dataclasses.replace(of, freed={last: (of.body, 4)})
    ran = Executions(of)
    threads = Threads(ran, when, Fetches(ran, when, COHERENT))
    at = ran.locals.number(Local(of.body, ran.start, (), (), frozenset()))
    since = next(n for n, moment in enumerate(when) if moment.done >> last & 1)

    def outcomes(number):
        return {wrong and wrong.which for _, wrong, _ in threads.follow(number, at, True)}

    assert since and outcomes(since - 1) == {None} and outcomes(since) == outcomes(len(when) - 1) == {FREED}
    ran.restore()


def test_a_call_that_is_due_twice_is_one_too_many_where_it_returns():
    """Unless the ops has begun to go away: then whatever was called is fine."""
    of = scheme("arm64-call-ops").subject()
    when = moments("arm64", of.steps, of.preemptible, of.vector is not None)
    first, *_, off, gone = sorted({moment.done.bit_length() for moment in when})
    ops = dataclasses.replace(of.ops[0], on=0, off=off)
    of = dataclasses.replace(of, ops=[ops])
    ran = Executions(of)
    threads = Threads(ran, when, Fetches(ran, when, COHERENT))
    names = list(ran.names)
    registers = list(ran.start)
    registers[names.index("x0")] = of.call.value
    ret = bytes.fromhex("c0035fd6")

    def which(called, steps):
        number = next(n for n, moment in enumerate(when) if moment.done.bit_length() == steps)
        at = ran.locals.number(Local(of.body, tuple(registers), (), called, frozenset([ops.address])))
        step = ran.step(at, ret, when[number].done)
        wrong = threads._wrong(number, ran.locals[at], step)
        return wrong and wrong.which

    for steps in (first, off):
        assert [which((ops.address,) * times, steps) for times in range(4)] == [MISSED, None, MISSED, MISSED]
    assert [which((ops.address,) * times, gone) for times in range(4)] == [None] * 4
    ran.restore()
