"""The steps of one thread: from where it is, at a moment, to where it can be next, or to what must not happen."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Sequence

from ...ftrace.steps import Free, Write
from .cpu import Cpu
from .fetches import Fetches
from .judge import Judge, Step, overlap
from .locals import IDLE, INTERRUPTS, Interned, Local
from .moments import EVERYBODY, INSIDE, Moment
from .subject import FixUp, Subject
from .verdicts import FREED, LATE, MISSED, TORN, Violation


class Threads:
    """All that one thread can do, over the moments of a plan."""

    def __init__(self, subject: Subject, moments: Sequence[Moment], fetches: Fetches) -> None:
        self.subject, self.moments, self._fetches = subject, moments, fetches
        self.locals = Interned()
        self._cpu = Cpu(subject)
        self._isa = subject.machine.isa
        self._index = {name: n for n, name in enumerate(self._cpu.names)}
        self._start = self._cpu.begin(dict(subject.call.registers), subject.call.stack)
        mask = INTERRUPTS.get(self._isa.name) if subject.vector else None
        self._mask = (self._index[mask[0]], mask[1]) if mask else None
        self._data = [(n, m.step) for n, m in enumerate(moments) if isinstance(m.step, Write) and not m.during]
        self._known: dict[tuple[int, bytes], Step] = {}
        self._depending: dict[tuple[int, bytes, int], Step] = {}
        self._versions = [sum(n <= at for n, _ in self._data) for at in range(len(moments))]
        self._values = [self._held(version) for version in range(len(self._data) + 1)]
        frees = [(n, m.steps - 1) for n, m in enumerate(moments) if isinstance(m.step, Free)]
        self._freed = [(n, subject.freed[number]) for n, number in frees if number in subject.freed]
        self._judge = Judge(subject, self._cpu, self._start, self.locals, [(w.address, len(w.data)) for _, w in self._data])
        self._gone = {o.address: self._after(o.gone) for o in subject.ops if o.gone is not None}

    # what the search asks

    def begins(self, number: int, anew: bool) -> int:
        """A thread that begins a call at a moment; anew: on a CPU that has been made to look at its text again."""
        return self.locals.number(Local(self.subject.entry, self._start, (), (), self._due(number, anew)))

    def _due(self, number: int, anew: bool) -> frozenset[int]:
        """The ops that every call must reach that begins at a moment, wherever the CPU has its text from; at the last moment all
        that are attached then, as nothing will ever make it look again."""
        last = number == len(self.moments) - 1
        seen = self.moments[number if last else self._fetches.earliest(number, anew)].steps
        steps = self.moments[number].steps
        return frozenset(
            o.address for o in self.subject.ops if o.on is not None and o.on <= seen and (o.off is None or steps <= o.off)
        )

    def follow(self, number: int, at: int, anew: bool) -> list[tuple[int, Violation | None, bytes]]:
        """Where a thread can be after its next instruction at a moment: (local, what must not happen, the instruction), in
        order."""
        local = self.locals[at]
        found: list[tuple[int, Violation | None, bytes]] = []
        for instruction in self._fetches.at(number, local.pc, anew):
            if self._changes(local.pc) and not self._fetches.written(number, local.pc, instruction):
                wrong = Violation(TORN, f"{instruction.hex()} at {self._where(local.pc)}, which nobody wrote")
                found.append((at, wrong, instruction))
                continue
            step = self._step(number, at, instruction)
            found.append((step.next, self._wrong(number, local, step), instruction))
        return found

    def masked(self, at: int) -> bool:
        """Has a thread interrupts off?"""
        if self._mask is None or at == IDLE:
            return False
        register, bit = self._mask
        return not self.locals[at].registers[register] & bit

    def alone(self, number: int, at: int, noted: bool, anew: bool) -> tuple[int, bytes] | None:
        """Where a thread's next instruction leads, and that instruction, if from this moment on nothing that the patcher does
        before it must wait for this thread can change or notice it, and it cannot go wrong; else None."""
        if at == IDLE:
            return None
        pc, end = self.locals[at].pc, self._waited_for(number, at, noted)
        if self._fetches.changes(pc, self._fetches.earliest(number, anew), end):
            return None
        (instruction,) = self._fetches.at(number, pc, anew)
        step = self._step(number, at, instruction)
        if step.wrong or step.next == IDLE or self.masked(at) != self.masked(step.next):
            return None
        if self._gone.get(step.called, end + 1) <= end:
            return None
        if any(n <= end for touched in ((pc, len(instruction)), *step.reads) for n in self._given_back(touched)):
            return None
        changes = any(number < n <= end for read in step.reads for n in self._written(read))
        return None if changes else (step.next, instruction)

    @functools.cache  # noqa: B019 - as long-lived as the exploration it is for
    def _given_back(self, touched: tuple[int, int]) -> tuple[int, ...]:
        """The moments from which on some of these bytes are nobody's."""
        return tuple(n for n, area in self._freed if overlap(touched, area))

    @functools.cache  # noqa: B019
    def _written(self, read: tuple[int, int]) -> tuple[int, ...]:
        """The moments that writes of these bytes lead to."""
        return tuple(n for n, w in self._data if overlap(read, (w.address, len(w.data))))

    @functools.cache  # noqa: B019
    def _waited_for(self, number: int, at: int, noted: bool) -> int:
        """The last moment that there can be before the patcher has to wait for a thread that is there now."""
        stop = (INSIDE, EVERYBODY) if self.masked(at) else (INSIDE,)
        first = number if noted else number + 1
        return next((n for n in range(first, len(self.moments)) if self.moments[n].notes in stop), len(self.moments) - 1)

    def moved(self, number: int, at: int) -> int:
        """A thread behind the patcher's step that leads to a moment: the same, unless that step puts threads elsewhere."""
        step = self.moments[number].step
        if at == IDLE or not isinstance(step, FixUp) or self.locals[at].pc != step.at:
            return at
        return self.locals.number(self.locals[at]._replace(pc=step.to))

    def touched(self, at: int, instruction: bytes) -> set[tuple[int, int]]:
        """The (address, size) that a thread's next instruction is fetched from, and of all that it has ever read there."""
        known = (*self._known.items(), *self._depending.items())
        steps = [step for (local, data, *_), step in known if (local, data) == (at, instruction)]
        return {(self.locals[at].pc, len(instruction)), *(read for step in steps for read in step.reads)}

    def concerns(self, touched: tuple[int, int]) -> bool:
        """Does the plan write any of these bytes, or give them back?"""
        return bool(self._written(touched) or self._given_back(touched))

    def restore(self) -> None:
        """Leave the machine as it was found."""
        self._cpu.restore()

    # inside: one step

    def _changes(self, pc: int) -> bool:
        return self._fetches.changes(pc)

    def _step(self, number: int, at: int, instruction: bytes) -> Step:
        key = at, instruction
        found = self._known.get(key) or self._depending.get((*key, self._versions[number]))
        if found is None:
            self._cpu.set_data(self._values[self._versions[number]])
            local = self.locals[at]
            done = self._cpu.execute(local, instruction)
            found = self._judge.outcome(local, len(instruction), done)
            if any(map(self._written, done.reads)):
                self._depending[(*key, self._versions[number])] = found
            else:
                self._known[key] = found
        return found

    def _held(self, version: int) -> dict[int, bytes]:
        """What the data that the plan writes at any moment holds after so many of those writes: address -> bytes."""
        held: dict[int, bytearray] = {}
        for low, size in _merged((w.address, len(w.data)) for _, w in self._data):
            held[low] = bytearray(self._cpu.before(low, size))
        for _, write in self._data[:version]:
            for low, data in held.items():
                if low <= write.address < low + len(data):
                    data[write.address - low : write.address - low + len(write.data)] = write.data
        return {low: bytes(data) for low, data in held.items()}

    # inside: what depends on the moment

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
        """Not, if what was not called has begun to go away meanwhile."""
        steps = self.moments[number].steps
        for ops in self.subject.ops:
            if ops.address in local.due and local.called.count(ops.address) != 1 and (ops.off is None or steps <= ops.off):
                return wrong
        return None

    def _after(self, steps: int) -> int:
        """The first moment at which so many steps are done."""
        return bisect.bisect_left([m.steps for m in self.moments], steps)

    def _where(self, address: int) -> str:
        return self.subject.name_of(address)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches, (address, size), as few as cover these."""
    found: list[tuple[int, int]] = []
    for low, size in sorted(spans):
        if found and low <= sum(found[-1]):
            found[-1] = found[-1][0], max(sum(found[-1]), low + size) - found[-1][0]
        else:
            found.append((low, size))
    return found

