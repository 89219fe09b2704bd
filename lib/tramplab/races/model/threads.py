"""The steps of one thread: from where it is, at a moment, to where it can be next, or to what must not happen."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from ..subject import Attachment, FixUp, overlap
from .executions import Executions
from .fetches import Fetches
from .judge import Step
from .locals import IDLE, Local
from .moments import EVERYBODY, INSIDE, Moment
from .verdicts import FREED, LATE, MISSED, TORN, Violation

#: A count has so many bits.
_COUNT = (1 << 32) - 1


def _first_steps(count: int) -> int:
    """The mask of so many first steps.

    >>> _first_steps(3)
    7
    """
    return (1 << count) - 1


class Threads:
    """All that one thread can do, over the moments of a plan.

    early: may a load of a word among the text, whose address no other load has given, be done long before the instruction that
        comes to it is fetched? Then it finds what was there at any moment since the CPU last took an interrupt.
    """

    def __init__(self, executions: Executions, moments: Sequence[Moment], fetches: Fetches, early: bool = False) -> None:
        self._early = early
        self.subject, self.locals, self.moments = executions.subject, executions.locals, moments
        self.executions, self._fetches = executions, fetches
        self._quiet: dict[int, tuple[int, bytes] | None] = {}
        taken = {id(m.step) for m in moments}
        given = [(number, area) for number, area in self.subject.freed.items() if id(self.subject.steps[number]) in taken]
        self._freed = [(self._first(1 << number), area) for number, area in given]
        self._gone = {o.address: self._first(_first_steps(o.gone)) for o in self.subject.ops if o.gone is not None}

    # what the search asks

    def begins(self, number: int, refetched: bool) -> int:
        """A thread that begins a call at a moment; refetched: on a CPU that has been made to look at its text again."""
        return self.locals.number(Local(self.subject.entry, self.executions.start, (), (), self._due(number, refetched)))

    def nested(self, number: int, at: int, refetched: bool) -> int | None:
        """The call of the function in an exception that interrupts a thread here; None outside a site that the plan changes, where
        it could do nothing that another thread cannot."""
        if at == IDLE or not self._changes(self.locals[at].pc) or self._nesting(at) == self.subject.nests:
            return None
        begun = Local(self.subject.entry, self.executions.start, (), (), self._due(number, refetched), at)
        return self.locals.number(begun)

    def _nesting(self, at: int) -> int:
        """How many calls are interrupted below the one that a thread is in."""
        outer = self.locals[at].outer
        return 0 if outer == IDLE else 1 + self._nesting(outer)

    def sleeps(self, at: int) -> bool:
        """Can a thread sleep where it is?"""
        return self.subject.sleeps and at != IDLE and self.locals[at].pc == self.subject.body

    def counted(self, at: int) -> bool:
        """Does a thread hold a reference?"""
        counter = self.subject.counter
        if counter is None or at == IDLE:
            return False
        word = dict(self.locals[at].memory).get(counter & -8, 0)
        return bool(word >> 8 * (counter & 7) & _COUNT)

    def _due(self, number: int, refetched: bool) -> frozenset[int]:
        """The ops that every call must reach that begins at a moment, from whatever moments the CPU has its text and what it loads;
        at the last moment all that are attached then."""
        last = number == len(self.moments) - 1
        seen = self.moments[number if last else self._oldest(number, refetched)].done
        on = [o for o in self.subject.ops if o.on is not None and not _first_steps(o.on) & ~seen]
        return frozenset(o.address for o in on if not self._leaves(o, number))

    def _oldest(self, number: int, refetched: bool) -> int:
        """The earliest moment from which a CPU may have what it fetches, and what it loads early."""
        text = self._fetches.earliest(number, refetched)
        return min(text, self._loads(number, refetched)) if self._early else text

    def _loads(self, number: int, refetched: bool) -> int:
        """The earliest moment from which a CPU may have what it loads; refetched: has it taken an interrupt in this one?"""
        return number if refetched else self.moments[number].loads

    def _leaves(self, ops: Attachment, number: int) -> bool:
        """Has an ops begun to go away?"""
        return ops.off is not None and bool(self.moments[number].done >> ops.off)

    def follow(self, number: int, at: int, refetched: bool) -> list[tuple[int, Violation | None, bytes]]:
        """Where a thread can be after its next instruction at a moment: (local, what must not happen, the instruction), in
        order."""
        local = self.locals[at]
        found: list[tuple[int, Violation | None, bytes]] = []
        for instruction in self._fetches.at(number, local.pc, refetched):
            if self._changes(local.pc) and instruction not in self._fetches.written(number, local.pc):
                wrong = Violation(TORN, f"{instruction.hex()} at {self._where(local.pc)}, which nobody wrote")
                found.append((at, wrong, instruction))
                continue
            for step in self._outcomes(number, at, instruction, refetched):
                found.append((step.next, self._wrong(number, local, step), instruction))
        return found

    def _outcomes(self, number: int, at: int, instruction: bytes, refetched: bool) -> list[Step]:
        """The outcomes of one instruction: with what is in memory, and where loads may be early, with what was there."""
        done, step = self.moments[number].done, self._step(number, at, instruction)
        late = self._since(number, step.reads, refetched)
        return [step, *(self._step(number, at, instruction, done & _first_steps(n)) for n in late)]

    def _since(self, number: int, reads: Sequence[tuple[int, int]], refetched: bool) -> list[int]:
        """The writes of words among the text that an early load need not have seen, of those that are done."""
        if not self._early:
            return []
        now, seen = self.moments[number].done, self.moments[self._loads(number, refetched)].done
        words = [n for read in reads if self.subject.machine.is_text(read[0]) for n, _ in self._written(read)]
        return [n for n in words if now >> n & 1 and not seen >> n & 1]

    def masked(self, at: int) -> bool:
        """Has a thread interrupts off?"""
        return self.executions.masked(at)

    def alone(self, number: int, at: int, noted: bool, refetched: bool) -> tuple[int, bytes] | None:
        """Where a thread's next instruction leads, and that instruction, if from this moment on nothing that the patcher does
        before it must wait for this thread can change or notice it, and it cannot go wrong; else None."""
        if at == IDLE or self.sleeps(at):
            return None
        pc, end = self.locals[at].pc, self._waited_for(number, self.masked(at), noted)
        if not self._fetches.settled(pc, number, refetched, end):
            return None
        (instruction,) = self._fetches.at(number, pc, refetched)
        step = self._step(number, at, instruction)
        if step.wrong or step.next == self.locals[at].outer or self.masked(at) != self.masked(step.next):
            return None
        if self._gone.get(step.called, end + 1) <= end:
            return None
        if any(n <= end for touched in ((pc, len(instruction)), *step.reads) for n in self._given_back(touched)):
            return None
        done = self.moments[number].done
        changes = (first <= end for read in step.reads for n, first in self._written(read) if not done >> n & 1)
        return None if any(changes) or self._since(number, step.reads, refetched) else (step.next, instruction)

    def quiet(self, at: int) -> tuple[int, bytes] | None:
        """Where a thread's next instruction leads, and that instruction, if at every moment it is alone(); else None."""
        if at not in self._quiet:
            self._quiet[at] = self._always_alone(at)
        return self._quiet[at]

    def _always_alone(self, at: int) -> tuple[int, bytes] | None:
        if at == IDLE or self.sleeps(at) or self._fetches.near(self.locals[at].pc):
            return None
        found = self.alone(0, at, False, False)
        if found is None or not found[0]:
            return None
        step = self._step(0, at, found[1])
        touched = ((self.locals[at].pc, len(found[1])), *step.reads)
        return None if step.called in self._gone or any(map(self.concerns, touched)) else found

    @functools.cache  # noqa: B019 - as long-lived as the exploration it is for
    def _given_back(self, touched: tuple[int, int]) -> tuple[int, ...]:
        """The moments from which on some of these bytes are nobody's."""
        return tuple(n for n, area in self._freed if overlap(touched, area))

    @functools.cache  # noqa: B019
    def _written(self, read: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """The plan's writes of these bytes: number, and the first moment at which it can be done."""
        return tuple((number, self._first(1 << number)) for number in self.executions.written(read))

    @functools.cache  # noqa: B019
    def _waited_for(self, number: int, masked: bool, noted: bool) -> int:
        """The last moment that can come before the patcher has to wait for a thread that is inside a call now."""
        stop = (INSIDE, EVERYBODY) if masked else (INSIDE,)
        first = number if noted else number + 1
        return next((n for n in range(first, len(self.moments)) if self.moments[n].notes in stop), len(self.moments) - 1)

    def moved(self, number: int, at: int) -> int:
        """A thread after the patcher's step that leads to a moment: unchanged, unless that step is a FixUp."""
        step = self.moments[number].step
        if at == IDLE or not isinstance(step, FixUp):
            return at
        local = self.locals[at]
        outer = self.moved(number, local.outer) if step.every else local.outer
        return self.locals.number(local._replace(pc=step.to if local.pc == step.at else local.pc, outer=outer))

    def touched(self, at: int, instruction: bytes) -> set[tuple[int, int]]:
        """The (address, size) that a thread's next instruction is fetched from, and of all that it has ever read there."""
        return {(self.locals[at].pc, len(instruction)), *self.executions.read(at, instruction)}

    def concerns(self, touched: tuple[int, int]) -> bool:
        """Does the plan write any of these bytes, or give them back?"""
        return bool(self._written(touched) or self._given_back(touched))

    # inside

    def _changes(self, pc: int) -> bool:
        return bool(self._fetches.near(pc))

    def _step(self, number: int, at: int, instruction: bytes, done: int | None = None) -> Step:
        """The outcome of a thread's instruction; when a call that has interrupted another returns, that one goes on. done: the mask
        of steps whose writes it finds, by default those of the moment."""
        local, done = self.locals[at], self.moments[number].done if done is None else done
        if local.outer == IDLE:
            return self.executions.step(at, instruction, done)
        step = self._step(number, self.locals.number(local._replace(outer=IDLE)), instruction, done)
        if step.next == IDLE:
            return replace(step, next=local.outer)
        return replace(step, next=self.locals.number(self.locals[step.next]._replace(outer=local.outer)))

    def _wrong(self, number: int, local: Local, step: Step) -> Violation | None:
        for touched in ((local.pc, 1), *step.reads) if self._freed else ():
            if any(number >= since for since in self._given_back(touched)):
                does = "executed" if touched == (local.pc, 1) else f"read at {self._where(local.pc)}"
                return Violation(FREED, f"{self._where(touched[0])} is {does}")
        if step.called and step.called in self._gone and number >= self._gone[step.called]:
            return Violation(LATE, f"{self.subject.ops_name(step.called)} is called")
        if step.wrong and step.wrong.which == MISSED:
            return self._missed(number, step.wrong, local)
        return step.wrong

    def _missed(self, number: int, wrong: Violation, local: Local) -> Violation | None:
        """The violation that an ops was not called; None if it has begun to go away meanwhile."""
        for ops in self.subject.ops:
            if ops.address in local.due and local.called.count(ops.address) != 1 and not self._leaves(ops, number):
                return wrong
        return None

    @functools.cache  # noqa: B019
    def _first(self, steps: int) -> int:
        """The first moment at which the steps of a mask are done."""
        return next((n for n, m in enumerate(self.moments) if not steps & ~m.done), len(self.moments))

    def _where(self, address: int) -> str:
        return self.subject.name_of(address)

