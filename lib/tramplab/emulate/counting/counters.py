"""The counters that hooks fill: how often each instruction was issued and left by a jump, and the accesses of a recorded one."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

INSTRUCTION, LOAD, STORE = 0, 1, 2
#: Instructions of one stretch of text that are listed when a run first touches them.
MOST_TOUCHED = 1 << 16
#: One recorded event, as meter.c lays it out.
EVENT = np.dtype([("pc", "<u8"), ("address", "<u8"), ("sp", "<u8"), ("size", "<u4"), ("kind", "<u4")])


@dataclass(frozen=True, eq=False)
class Tally:
    """The instructions that one run issued.

    stretches: per stretch of text its base, and of its instructions, in any order, the offset, the number of times each was issued,
        and the number of times it was left by a taken branch.
    """

    stretches: tuple[tuple[int, np.ndarray, np.ndarray, np.ndarray], ...]
    stopped: bool  # the instruction budget ran out

    @classmethod
    def of(cls, text: Iterable[Counters], touched: Iterable[int], stopped: bool) -> Tally:
        """The counts so far. touched: for each of the counters, the number of instructions that it has."""
        return cls(tuple(counters.issued(n) for counters, n in zip(text, touched, strict=True) if n), stopped)

    @functools.cached_property
    def issued(self) -> dict[int, tuple[int, int]]:
        """pc -> (times issued, times left by a taken branch), in order."""
        counts: dict[int, tuple[int, int]] = {}
        for base, offsets, executed, taken in self.stretches:
            order = np.argsort(offsets)
            pcs = (offsets[order].astype(np.uint64) + np.uint64(base)).tolist()
            counts |= zip(pcs, zip(executed[order].tolist(), taken[order].tolist(), strict=True), strict=True)
        return counts

    def has(self, address: int) -> bool:
        """Was the instruction at an address issued?"""
        return any((offsets == address - base).any() for base, offsets, *_ in self.stretches)

    @property
    def instructions(self) -> int:
        """How many instructions were issued in all."""
        return sum(int(executed.sum()) for _, _, executed, _ in self.stretches)


@dataclass(frozen=True)
class RawRun:
    """One call as it was recorded, not yet interpreted.

    registers: their values after the return.
    tally: counts per instruction.
    events: the recording, see EVENT; empty without the meter "record".
    """

    registers: dict[str, int]
    tally: Tally
    events: np.ndarray


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

    def _touched(self, number: int) -> np.ndarray:
        """The offsets of what was issued, in any order; number: how many instructions were touched."""
        return self.touched[:number] if number <= len(self.touched) else self.executed.nonzero()[0]

    def clear(self, number: int) -> None:
        """Make what was touched zero again."""
        at = self._touched(number)
        self.executed[at] = self.taken[at] = 0

    def issued(self, number: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """The counts as one of Tally.stretches: a copy, which later runs do not change."""
        at = self._touched(number).copy()
        return self.base, at, self.executed[at], self.taken[at]


def find(stretches: list[Counters], address: int) -> int:
    """The index of the stretch that holds an address, -1 if none does."""
    for i, s in enumerate(stretches):
        if s.base <= address < s.base + s.size:
            return i
    return -1
