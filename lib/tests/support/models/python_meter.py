"""The counting hooks in Python, about thirty times slower than meter.c, to hold that against."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tramplab import Kernel, TramplabError
from tramplab.emulate import machine
from tramplab.emulate.counting.counters import EVENT, INSTRUCTION, LOAD, STORE, Counters, Tally, find
from tramplab.emulate.engine import Engine

MEM_WRITE = 17  # the emulator's access type of a store; 16 is a load


class PyMeter:
    """As meter.CMeter, which is given functions of the engine; they are not used here."""

    def __init__(self, lib: object, spans: list[tuple[int, int]], *_: object) -> None:
        self._text = [Counters(base, size) for base, size in spans]
        self._touched = [0] * len(spans)

    def watch(self, engine: Engine, of: int, which: str) -> Callable[[], None]:
        """See CMeter.watch."""
        self._stop, self._read_sp = engine.stop, lambda: engine.register(engine.isa.sp)
        return engine.hook(of, getattr(self, f"on_{which}"))

    def begin(self, start: int, budget: int, max_events: int, clear: bool = True) -> None:
        """See CMeter.begin."""
        if clear:
            for n, counters in enumerate(self._text):
                counters.clear(self._touched[n])
                self._touched[n] = 0
        self._here, self._last, self._next = max(find(self._text, start), 0), 0, start
        self._budget = self._whole_budget = budget
        self._stopped, self._pc = False, 0
        self._events: list[tuple[int, int, int, int, int]] = []
        self._max_events, self._lost = max_events, 0

    def on_count(self, _engine: object, address: int, size: int, _data: object) -> bool:
        """An instruction is issued."""
        if not self._budget:
            self._stopped = True
            self._stop()
            return False
        self._budget -= 1
        if address != self._next:
            self._text[self._here].taken[self._last] += 1
        self._next = address + size
        stretch = find(self._text, address)
        if stretch < 0:
            return True
        self._here, counters = stretch, self._text[stretch]
        self._last = address - counters.base
        if not counters.executed[self._last]:
            if self._touched[stretch] < len(counters.touched):
                counters.touched[self._touched[stretch]] = self._last
            self._touched[stretch] += 1
        counters.executed[self._last] += 1
        return True

    def on_record(self, engine: object, address: int, size: int, data: object) -> None:
        """The same, and record the instruction."""
        if self.on_count(engine, address, size, data):
            self._pc = address
            self._record(address, size, INSTRUCTION, self._read_sp())

    def on_access(self, _engine: object, kind: int, address: int, size: int, _value: int, _data: object) -> None:
        """The engine's hook at each access to memory: record it."""
        self._record(address, size, STORE if kind == MEM_WRITE else LOAD, 0)

    def end(self, pc: int) -> Tally:
        """See CMeter.end."""
        if not self._stopped and self._next != pc:
            self._text[self._here].taken[self._last] += 1
        return Tally.of(self._text, self._touched, self._stopped)

    @property
    def last(self) -> int | None:
        """The address of the last instruction issued; None if none was."""
        if self._budget == self._whole_budget:
            return None
        return self._text[self._here].base + self._last

    def events(self) -> np.ndarray:
        """The recording, in order; raises TramplabError if there was no room for all of it."""
        if self._lost:
            raise TramplabError(f"the recording is full: {self._lost} events were lost; record a shorter call.")
        return np.array(self._events, EVENT)

    def _record(self, address: int, size: int, kind: int, sp: int) -> None:
        if len(self._events) >= self._max_events:
            self._lost += 1
        else:
            self._events.append((self._pc, address, sp, size, kind))


def kernel(python: bool, *which: str, **how: object) -> Kernel:
    """A kernel; python: one whose instructions are counted in Python."""
    with pytest.MonkeyPatch.context() as patch:
        if python:
            patch.setattr(machine, "CMeter", PyMeter)
        return Kernel(*which, **how)
