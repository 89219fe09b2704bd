"""Any number of threads and the patcher: every state, by compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...base.arguments import whole
from ...base.errors import TramplabError
from ...emulate import compiled
from .rows import Rows

SOURCE = Path(__file__).with_name("search.c")
_GOES_ON, ALL_SEEN, WRONG, FULL = range(4)
_VIOLATION, _NEVER = 1 << 31, (1 << 32) - 1
#: States that are visited between two progress reports.
_ROUND = 1 << 18
#: States for which there is room at first, and by how much more at each further attempt.
_FIRST_ROOM, _MORE = 1 << 15, 1 << 4
#: Threads that a state has room for at most; fewer where the table is large.
MOST_THREADS = 16
#: States that can have a number: one for each in 32 bits, besides none.
LARGEST = (1 << 32) - 2


@dataclass(frozen=True)
class Searched:
    """The result of one search.

    how: ALL_SEEN, WRONG or FULL.
    states, transitions: how many were found and taken.
    depth: transitions to the last state.
    violation: the number of the one that was found.
    """

    how: int
    states: int
    transitions: int
    depth: int
    violation: int | None


class _Search(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("first", "successors", "carried", "empty", "next_first", "next")),
        *((name, c_uint64) for name in ("nr_moments", "nr_codes", "nr_threads", "sorted", "moment_bits", "code_bits")),
        *((name, c_void_p) for name in ("states", "slots")),
        *((name, c_uint64) for name in ("capacity", "slot_mask", "head", "tail", "level_end", "depth", "transitions")),
        ("violation", c_uint64),
    ]


def search(
    rows: Rows, threads: int, most: int, alike: bool = True, tick: Callable[[int], None] = lambda states: None
) -> Searched:
    """Visit all states, at most so many. alike: threads that change places make no other state. tick: told now and then how
    many there are; may raise to end it. Raises TramplabError for more threads than a state has room for."""
    threads, most = whole(threads, "threads", 1, MOST_THREADS), whole(most, "most", 1, LARGEST)
    room = _FIRST_ROOM
    while room < most:  # begun again with more: a table that is too large costs more than a few states twice
        searched = _compiled(rows, threads, room, alike, tick)
        if searched.how != FULL:
            return searched
        room *= _MORE
    return _compiled(rows, threads, most, alike, tick)


def _compiled(
    rows: Rows, threads: int, most: int, alike: bool, tick: Callable[[int], None]
) -> Searched:
    """The search in C, with room for this many states."""
    moments = len(rows.steps)
    moment_bits, code_bits = (moments - 1).bit_length(), (rows.codes - 1).bit_length()
    if moment_bits + threads * code_bits > 64:
        raise TramplabError(
            f"{threads} threads with {rows.codes} places in {moments} moments do not fit a state of 64 bits: take fewer threads."
        )
    first, successors, carried = _arrays(rows)
    empty = np.array(rows.empty, np.uint8)
    next_first = np.cumsum([0, *map(len, rows.after)], dtype=np.uint32)
    following = np.array([to for after in rows.after for to in after], np.uint32)
    states = np.empty(most, np.uint64)
    slots = np.zeros(1 << max(most * 2 - 1, 1).bit_length(), np.uint32)
    s = _Search(
        first=first.ctypes.data,
        successors=successors.ctypes.data,
        carried=carried.ctypes.data,
        empty=empty.ctypes.data,
        next_first=next_first.ctypes.data,
        next=following.ctypes.data,
        nr_moments=moments,
        nr_codes=rows.codes,
        nr_threads=threads,
        sorted=alike,
        moment_bits=moment_bits,
        code_bits=code_bits,
        states=states.ctypes.data,
        slots=slots.ctypes.data,
        capacity=most,
        slot_mask=len(slots) - 1,
    )
    states[0], slots[0], s.tail, s.level_end = 0, 1, 1, 1  # all are idle at the first moment, whose hash is 0
    how = _GOES_ON
    while how == _GOES_ON:
        tick(s.tail)
        how = compiled.library(SOURCE).tramplab_search(ctypes.byref(s), c_uint64(_ROUND))
    return Searched(how, s.tail, s.transitions, s.depth, s.violation if how == WRONG else None)


def _arrays(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """first, successors and carried, as search.c has them."""
    moments = len(rows.steps)
    first = np.zeros(moments * rows.codes + 1, np.uint32)
    carried = np.full(moments * rows.codes, _NEVER, np.uint32)
    successors: list[int] = []
    for moment, steps in enumerate(rows.steps):
        for code in range(rows.codes):
            successors += [to if to >= 0 else _VIOLATION | (-1 - to) for to in steps.get(code, ())]
            first[moment * rows.codes + code + 1] = len(successors)
        for code, after in rows.carried[moment].items():
            carried[moment * rows.codes + code] = after
    return first, np.array(successors, np.uint32), carried
