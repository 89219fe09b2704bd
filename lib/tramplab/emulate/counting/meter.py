"""Exact counting: how often each instruction was issued, how often it was left by a jump, and (recording) what it touched.

What counts is meter.c, compiled by the compiler wheel and called by the emulator without going through Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...base.errors import TramplabError
from ..compiled import library as compiled
from ..engine import Engine
from .counters import EVENT, Counters, Tally, find

SOURCE = Path(__file__).with_name("meter.c")


class _Range(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("executed", ctypes.c_void_p),
        ("taken", ctypes.c_void_p),
        ("touched", ctypes.c_void_p),
        ("nr_touched", ctypes.c_uint64),
        ("max_touched", ctypes.c_uint64),
    ]


class _Meter(ctypes.Structure):
    _fields_ = [
        ("here", ctypes.c_void_p),
        ("next", ctypes.c_uint64),
        ("last", ctypes.c_uint64),
        ("budget", ctypes.c_uint64),
        ("ranges", ctypes.c_void_p),
        ("nr_ranges", ctypes.c_uint64),
        ("stop", ctypes.c_void_p),
        ("events", ctypes.c_void_p),
        ("nr_events", ctypes.c_uint64),
        ("max_events", ctypes.c_uint64),
        ("lost_events", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("read_register", ctypes.c_void_p),
        ("sp_id", ctypes.c_int32),
        ("stopped", ctypes.c_uint32),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled hooks."""
    return compiled(SOURCE)


class CMeter:
    """The compiled hooks. `spans` are (address, size) of the text to count; stop, read_register: addresses of the engine's
    functions."""

    def __init__(
        self, lib: ctypes.CDLL, spans: list[tuple[int, int]], stop: int, read_register: int, sp_id: int
    ) -> None:
        self._text = [Counters(base, size) for base, size in spans]
        self._ranges = (_Range * len(spans))(
            *(
                _Range(s.base, s.size, s.executed.ctypes.data, s.taken.ctypes.data, s.touched.ctypes.data, 0, len(s.touched))
                for s in self._text
            )
        )
        self._at = [ctypes.addressof(self._ranges) + n * ctypes.sizeof(_Range) for n in range(len(spans))]
        self._events = np.zeros(0, EVENT)
        self._state = _Meter(
            ranges=ctypes.addressof(self._ranges),
            nr_ranges=len(spans),
            stop=stop,
            read_register=read_register,
            sp_id=sp_id,
        )
        self._calls = {
            name: ctypes.cast(getattr(lib, f"tramplab_{name}"), ctypes.c_void_p) for name in ("count", "record", "access")
        }

    def watch(self, engine: Engine, of: int, which: str) -> Callable[[], None]:
        """Have "count", "record" or "access" called for each of a kind; gives the function that ends this."""
        return engine.hook_c(of, self._calls[which], ctypes.c_void_p(ctypes.addressof(self._state)))

    def begin(self, start: int, budget: int, max_events: int, clear: bool = True) -> None:
        """Get ready for a run from `start`. Without `clear` the counters go on from where they are."""
        if clear:
            for counters, r in zip(self._text, self._ranges, strict=True):
                if r.nr_touched:
                    counters.clear(r.nr_touched)
                    r.nr_touched = 0
        if max_events > len(self._events):
            self._events = np.empty(max_events, EVENT)  # megabytes, of which most calls fill a few pages
            self._state.events = self._events.ctypes.data
        s = self._state
        s.here = self._at[max(find(self._text, start), 0)]
        s.next, s.last, s.budget, s.stopped = start, 0, budget, 0
        self._budget = budget
        s.nr_events, s.max_events, s.lost_events = 0, max_events, 0

    def end(self, pc: int) -> Tally:
        """Close the run that left the CPU at pc: the last branch is only visible from there."""
        s = self._state
        if not s.stopped and s.next != pc:
            self._text[self._here].taken[s.last] += 1
        return Tally.of(self._text, (r.nr_touched for r in self._ranges), bool(s.stopped))

    @property
    def last(self) -> int | None:
        """The address of the last instruction issued; None if none was."""
        if self._state.budget == self._budget:
            return None
        return self._text[self._here].base + self._state.last

    @property
    def _here(self) -> int:
        """The index of the stretch that the last instruction was in."""
        return self._at.index(self._state.here)

    def events(self) -> np.ndarray:
        """What was recorded, in order; raises TramplabError if there was no room for all of it."""
        if self._state.lost_events:
            raise TramplabError(
                f"the recording is full: {self._state.lost_events} events were lost; record a shorter call."
            )
        return self._events[: self._state.nr_events].copy()
