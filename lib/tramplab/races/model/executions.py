"""The effects of instructions on threads of one subject, executed once for each state and each value of what they read.

None of it depends on when a step comes or which waits a plan has, so it serves every exploration of the same subject.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ...emulate import decode
from ...ftrace.steps import Write
from ..subject import Subject, overlap
from .cpu import Cpu
from .judge import Judge, Step
from .locals import IDLE, INTERRUPTS, Interned


class Executions:
    """The instructions of one subject's threads, executed once per state.

    locals: the states of threads, numbered.
    names, start: the registers, and their values when a call begins.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject, self.locals = subject, Interned()
        self._cpu = Cpu(subject)
        self.names = self._cpu.names
        self.start = self._cpu.begin(dict(subject.call.registers), subject.call.stack)
        self._writes = [(number, s) for number, s in enumerate(subject.steps) if isinstance(s, Write)]
        spans = _merged((w.address, len(w.data)) for _, w in self._writes)
        self._before = {low: self._cpu.before(low, size) for low, size in spans}
        self._mask = sum(1 << number for number, _ in self._writes)
        self._judge = Judge(subject, self._cpu, self.start, self.locals, self._led_to() if subject.vector else frozenset())
        self._known: dict[tuple[int, bytes], Step] = {}
        self._depending: dict[tuple[int, bytes, int], Step] = {}
        mask = INTERRUPTS.get(subject.machine.isa.name) if subject.vector else None
        self._on = (self._cpu.names.index(mask[0]), mask[1]) if mask else None

    def step(self, at: int, instruction: bytes, done: int) -> Step:
        """The effect of an instruction on a thread; done: the mask of the plan's steps that are done."""
        version = done & self._mask
        key = at, instruction
        stored = self._known.get(key) or self._depending.get((*key, version))
        if stored is None:
            self._cpu.set_data(self._held(version))
            local = self.locals[at]
            executed = self._cpu.execute(local, instruction)
            stored = self._judge.outcome(local, len(instruction), executed)
            if any(map(self.written, executed.reads)):
                self._depending[(*key, version)] = stored
            else:
                self._known[key] = stored
        return stored

    @functools.cache  # noqa: B019 - as long-lived as what it is for
    def written(self, span: tuple[int, int]) -> tuple[int, ...]:
        """The numbers of the plan's steps that write some of these bytes, (address, size)."""
        return tuple(number for number, w in self._writes if overlap(span, (w.address, len(w.data))))

    def masked(self, at: int) -> bool:
        """Has a thread interrupts off?"""
        if self._on is None or at == IDLE:
            return False
        register, bit = self._on
        return not self.locals[at].registers[register] & bit

    def text(self, address: int, size: int) -> bytes:
        """Text as it is before the plan."""
        content = bytearray(self.subject.machine.read(address, size))
        for low, data in self._before.items():
            overlay(content, address, low, data)
        return bytes(content)

    def held(self, address: int, size: int, done: int) -> bytes:
        """The bytes in memory; done: the mask of the plan's steps that are done."""
        return self._after(address, self.text(address, size), done)

    def read(self, at: int, instruction: bytes) -> set[tuple[int, int]]:
        """(address, size) of all that a thread's next instruction, if it is this one, was ever seen to read."""
        executed = (*self._known.items(), *self._depending.items())
        steps = [step for (local, data, *_), step in executed if (local, data) == (at, instruction)]
        return {read for step in steps for read in step.reads}

    def restore(self) -> None:
        """Leave the machine as it was found."""
        self._cpu.restore()

    # inside

    def _led_to(self) -> frozenset[int]:
        """The targets of the jumps and calls that the plan writes, and of those that it overwrites."""
        machine = self.subject.machine
        ever = [self._held(first & self._mask) for first in (0, *((2 << number) - 1 for number, _ in self._writes))]
        texts = {(low, data) for held in ever for low, data in held.items() if machine.is_text(low)}
        operands = (decode.at(machine.isa, low, data).operands for low, data in texts)
        return frozenset(int(to, 16) for to in operands if to.startswith("0x"))

    @functools.cache  # noqa: B019
    def _held(self, done: int) -> dict[int, bytes]:
        """Address -> bytes of all memory that the plan ever writes, when the steps of this mask are done."""
        return {low: self._after(low, data, done) for low, data in self._before.items()}

    def _after(self, base: int, before: bytes, done: int) -> bytes:
        """The bytes of a stretch that begins at base, when the steps of this mask are done."""
        content = bytearray(before)
        for number, write in self._writes:
            if done >> number & 1:
                overlay(content, base, write.address, write.data)
        return bytes(content)


def overlay(here: bytearray, base: int, address: int, data: bytes) -> None:
    """Put data into a stretch that begins at base, as far as it lies in there."""
    low, high = max(base, address), min(base + len(here), address + len(data))
    if low < high:
        here[low - base : high - base] = data[low - address : high - address]


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches, (address, size), as few as cover these."""
    ranges: list[tuple[int, int]] = []
    for low, size in sorted(spans):
        if ranges and low <= sum(ranges[-1]):
            ranges[-1] = ranges[-1][0], max(sum(ranges[-1]), low + size) - ranges[-1][0]
        else:
            ranges.append((low, size))
    return ranges
