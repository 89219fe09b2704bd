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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..build.toolchain import run_tool
from ..cache import publish
from ..errors import TramplabError
from .engine import Engine

SOURCE = Path(__file__).with_name("meter.c")
INSTRUCTION, LOAD, STORE = 0, 1, 2
MEM_WRITE = 17  # the emulator's access type of a store; 16 is a load

#: Instructions of one stretch of text that are listed when a run first touches them.
MOST_TOUCHED = 1 << 16

#: One recorded event, as meter.c lays it out.
EVENT = np.dtype([("pc", "<u8"), ("address", "<u8"), ("sp", "<u8"), ("size", "<u4"), ("kind", "<u4")])


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


@dataclass(frozen=True)
class Tally:
    """What one run issued: pc -> (times issued, times left by a taken branch)."""

    issued: dict[int, tuple[int, int]]
    stopped: bool  # the instruction budget ran out

    @property
    def instructions(self) -> int:
        """How many were issued in all."""
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
        flags = ["-O2", "-g0", "-shared", "-fPIC", "-nostdlib", "-fno-sanitize=undefined"]  # debug info would name the folder
        run_tool(
            "cc", *flags, str(SOURCE), "-o", str(out), cwd=folder, env={"ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
        )
        return out

    try:
        lib = ctypes.CDLL(str(publish(make, name)))
    except (TramplabError, OSError):
        return None
    return lib


class Counters:
    """The counters of one stretch of text: per byte of it, how often an instruction that begins there was issued, and how
    often it was left by a taken branch.

    What a run touched is listed, so that nothing has to look through all of a large text. A run that touches more than fits
    in the list is looked for there all the same.
    """

    def __init__(self, base: int, size: int) -> None:
        self.base, self.size = base, size
        self.executed, self.taken = np.zeros(size, np.uint32), np.zeros(size, np.uint32)
        self.touched = np.zeros(min(size, MOST_TOUCHED), np.uint32)

    def at(self, number: int) -> np.ndarray:
        """The offsets of what was issued, in order; number: how many instructions were touched."""
        if number > len(self.touched):
            return self.executed.nonzero()[0]
        return np.sort(self.touched[:number])

    def clear(self, number: int) -> None:
        """Make what was touched zero again."""
        at = self.at(number)
        self.executed[at] = self.taken[at] = 0

    def issued(self, number: int) -> dict[int, tuple[int, int]]:
        """pc -> (times issued, times left by a taken branch)."""
        at = self.at(number)
        rows = zip(at.tolist(), self.executed[at].tolist(), self.taken[at].tolist(), strict=True)
        return {self.base + offset: (n, t) for offset, n, t in rows}


def find(stretches: list[Counters], address: int) -> int:
    """The index of the stretch that holds an address, -1 if none does."""
    for i, s in enumerate(stretches):
        if s.base <= address < s.base + s.size:
            return i
    return -1


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
            self._events = np.zeros(max_events, EVENT)
        s = self._state
        first = max(find(self._text, start), 0)
        s.here = ctypes.addressof(self._ranges) + first * ctypes.sizeof(_Range)
        s.next, s.last, s.budget, s.stopped = start, 0, budget, 0
        self._budget = budget
        s.events, s.nr_events, s.max_events, s.lost_events = self._events.ctypes.data, 0, max_events, 0

    def end(self, pc: int) -> Tally:
        """Close the run that left the CPU at pc: the last branch is only visible from there."""
        s = self._state
        if not s.stopped and s.next != pc:
            self._text[self._here].taken[s.last] += 1
        issued: dict[int, tuple[int, int]] = {}
        for counters, r in zip(self._text, self._ranges, strict=True):
            if r.nr_touched:
                issued |= counters.issued(r.nr_touched)
        return Tally(issued, bool(s.stopped))

    @property
    def last(self) -> int | None:
        """The address of the last instruction issued; None if none was."""
        if self._state.budget == self._budget:
            return None
        return self._text[self._here].base + self._state.last

    @property
    def _here(self) -> int:
        """The index of the stretch that the last instruction was in."""
        return (self._state.here - ctypes.addressof(self._ranges)) // ctypes.sizeof(_Range)

    def events(self) -> np.ndarray:
        """What was recorded, in order; raises TramplabError if there was no room for all of it."""
        if self._state.lost_events:
            raise TramplabError(
                f"the recording is full: {self._state.lost_events} events were lost; record a shorter call."
            )
        return self._events[: self._state.nr_events].copy()


class PyMeter:
    """The same hooks in Python, about thirty times slower."""

    def __init__(self, spans: list[tuple[int, int]], stop: Callable[[], None], read_sp: Callable[[], int]) -> None:
        self._text = [Counters(base, size) for base, size in spans]
        self._touched = [0] * len(spans)
        self._stop, self._read_sp = stop, read_sp

    def watch(self, engine: Engine, of: int, which: str) -> Callable[[], None]:
        """See CMeter.watch."""
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
        here = find(self._text, address)
        if here < 0:
            return True
        self._here, counters = here, self._text[here]
        self._last = address - counters.base
        if not counters.executed[self._last]:
            if self._touched[here] < len(counters.touched):
                counters.touched[self._touched[here]] = self._last
            self._touched[here] += 1
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
        issued: dict[int, tuple[int, int]] = {}
        for number, counters in zip(self._touched, self._text, strict=True):
            issued |= counters.issued(number)
        return Tally(issued, self._stopped)

    @property
    def last(self) -> int | None:
        """The address of the last instruction issued; None if none was."""
        if self._budget == self._whole_budget:
            return None
        return self._text[self._here].base + self._last

    def events(self) -> np.ndarray:
        """What was recorded, in order; raises TramplabError if there was no room for all of it."""
        if self._lost:
            raise TramplabError(f"the recording is full: {self._lost} events were lost; record a shorter call.")
        return np.array(self._events, EVENT)

    def _record(self, address: int, size: int, kind: int, sp: int) -> None:
        if len(self._events) >= self._max_events:
            self._lost += 1
        else:
            self._events.append((self._pc, address, sp, size, kind))
