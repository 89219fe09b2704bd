"""Exact counting: how often each instruction was issued, how often it was left by a jump, and (recording) what it touched.

Two implementations with equal results: meter.c, compiled by the compiler wheel and called by the emulator without going
through Python, and PyMeter for hosts where that cannot be built. Both fill the same arrays; `Tally` reads them.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..build.toolchain import publish, run_tool
from ..errors import TramplabError

SOURCE = Path(__file__).with_name("meter.c")
INSTRUCTION, LOAD, STORE = 0, 1, 2
MEM_WRITE = 17  # the emulator's access type of a store; 16 is a load

#: One recorded event, as meter.c lays it out.
EVENT = np.dtype([("pc", "<u8"), ("address", "<u8"), ("sp", "<u8"), ("size", "<u4"), ("kind", "<u4")])


class _Range(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("base", "size")] + [(n, ctypes.c_void_p) for n in ("executed", "taken")]


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


@dataclass(frozen=True)
class Tally:
    """What one run issued: pc -> (times issued, times left by a taken branch)."""

    issued: dict[int, tuple[int, int]]
    stopped: bool  # the instruction budget ran out

    @property
    def instructions(self) -> int:
        return sum(n for n, _ in self.issued.values())


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled hooks; None where they cannot be built or $TRAMPLAB_METER is "python"."""
    if os.environ.get("TRAMPLAB_METER") == "python":
        return None
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    name = f"meter-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}{suffix}"

    def make(folder: Path) -> Path:
        out = folder / name
        flags = ["-O2", "-shared", "-fPIC", "-nostdlib", "-fno-sanitize=undefined"]
        run_tool(
            "cc", *flags, str(SOURCE), "-o", str(out), cwd=folder, env={"ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
        )
        return out

    try:
        lib = ctypes.CDLL(str(publish(make, name)))
    except (TramplabError, OSError):
        return None
    return lib


class Ranges:
    """The counters of some stretches of text, one set of arrays per stretch."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self.spans = spans
        self.executed = [np.zeros(size, np.uint32) for _, size in spans]
        self.taken = [np.zeros(size, np.uint32) for _, size in spans]

    def clear(self) -> None:
        for array in (*self.executed, *self.taken):
            array.fill(0)

    def issued(self) -> dict[int, tuple[int, int]]:
        out = {}
        for (base, _), executed, taken in zip(self.spans, self.executed, self.taken, strict=True):
            (at,) = executed.nonzero()
            rows = zip(at.tolist(), executed[at].tolist(), taken[at].tolist(), strict=True)
            out.update({base + offset: (n, t) for offset, n, t in rows})
        return out

    def find(self, address: int) -> int:
        """The index of the stretch that holds an address, -1 if none does."""
        for i, (base, size) in enumerate(self.spans):
            if base <= address < base + size:
                return i
        return -1


class CMeter:
    """The compiled hooks. `spans` are (address, size) of the text to count; max_events bounds a recording."""

    def __init__(
        self, lib: ctypes.CDLL, spans: list[tuple[int, int]], stop: int, read_register: int, sp_id: int
    ) -> None:
        self.ranges = Ranges(spans)
        self._c_ranges = (_Range * len(spans))(
            *(
                _Range(base, size, e.ctypes.data, t.ctypes.data)
                for (base, size), e, t in zip(spans, self.ranges.executed, self.ranges.taken, strict=True)
            )
        )
        self._events = np.zeros(0, EVENT)
        self._state = _Meter(
            ranges=ctypes.addressof(self._c_ranges),
            nr_ranges=len(spans),
            stop=stop,
            read_register=read_register,
            sp_id=sp_id,
        )
        self.count_hook = ctypes.cast(lib.tramplab_count, ctypes.c_void_p)
        self.record_hook = ctypes.cast(lib.tramplab_record, ctypes.c_void_p)
        self.access_hook = ctypes.cast(lib.tramplab_access, ctypes.c_void_p)

    @property
    def state(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(self._state))

    def begin(self, start: int, budget: int, max_events: int, clear: bool = True) -> None:
        """Get ready for a run from `start`. Without `clear` the counters go on from where they are."""
        if clear:
            self.ranges.clear()
        if max_events > len(self._events):
            self._events = np.zeros(max_events, EVENT)
        s = self._state
        first = max(self.ranges.find(start), 0)
        s.here = ctypes.addressof(self._c_ranges) + first * ctypes.sizeof(_Range)
        s.next, s.last, s.budget, s.stopped = start, 0, budget, 0
        self._budget = budget
        s.events, s.nr_events, s.max_events, s.lost_events = self._events.ctypes.data, 0, max_events, 0

    def end(self, pc: int) -> Tally:
        """Close the run that left the CPU at pc: the last branch is only visible from there."""
        s = self._state
        if not s.stopped and s.next != pc:
            self.ranges.taken[self._here][s.last] += 1
        return Tally(self.ranges.issued(), bool(s.stopped))

    @property
    def last(self) -> int | None:
        """The address of the last instruction issued; None if none was."""
        if self._state.budget == self._budget:
            return None
        return self.ranges.spans[self._here][0] + self._state.last

    @property
    def _here(self) -> int:
        """The index of the stretch that the last instruction was in."""
        return (self._state.here - ctypes.addressof(self._c_ranges)) // ctypes.sizeof(_Range)

    def events(self) -> np.ndarray:
        if self._state.lost_events:
            raise TramplabError(
                f"the recording is full: {self._state.lost_events} events were lost; record a shorter call."
            )
        return self._events[: self._state.nr_events].copy()


class PyMeter:
    """The same hooks in Python, about thirty times slower."""

    def __init__(self, spans: list[tuple[int, int]], stop, read_sp) -> None:
        self.ranges = Ranges(spans)
        self._stop, self._read_sp = stop, read_sp

    def begin(self, start: int, budget: int, max_events: int, clear: bool = True) -> None:
        if clear:
            self.ranges.clear()
        self._here, self._last, self._next = max(self.ranges.find(start), 0), 0, start
        self._budget = self._whole_budget = budget
        self._stopped, self._pc = False, 0
        self._events: list[tuple[int, int, int, int, int]] = []
        self._max_events, self._lost = max_events, 0

    def on_count(self, _engine, address: int, size: int, _data) -> bool:
        if not self._budget:
            self._stopped = True
            self._stop()
            return False
        self._budget -= 1
        r = self.ranges
        if address != self._next:
            r.taken[self._here][self._last] += 1
        self._next = address + size
        here = r.find(address)
        if here < 0:
            return True
        self._here = here
        self._last = address - r.spans[here][0]
        r.executed[here][self._last] += 1
        return True

    def on_record(self, engine, address: int, size: int, data) -> None:
        if self.on_count(engine, address, size, data):
            self._pc = address
            self._record(address, size, INSTRUCTION, self._read_sp())

    def on_access(self, _engine, kind: int, address: int, size: int, _value, _data) -> None:
        self._record(address, size, STORE if kind == MEM_WRITE else LOAD, 0)

    def end(self, pc: int) -> Tally:
        if not self._stopped and self._next != pc:
            self.ranges.taken[self._here][self._last] += 1
        return Tally(self.ranges.issued(), self._stopped)

    @property
    def last(self) -> int | None:
        """The address of the last instruction issued; None if none was."""
        if self._budget == self._whole_budget:
            return None
        return self.ranges.spans[self._here][0] + self._last

    def events(self) -> np.ndarray:
        if self._lost:
            raise TramplabError(f"the recording is full: {self._lost} events were lost; record a shorter call.")
        return np.array(self._events, EVENT)

    def _record(self, address: int, size: int, kind: int, sp: int) -> None:
        if len(self._events) >= self._max_events:
            self._lost += 1
        else:
            self._events.append((self._pc, address, sp, size, kind))
