"""What counting hooks fill: how often each instruction was issued and left by a jump, and what a recorded one touched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

INSTRUCTION, LOAD, STORE = 0, 1, 2
#: Instructions of one stretch of text that are listed when a run first touches them.
MOST_TOUCHED = 1 << 16
#: One recorded event, as meter.c lays it out.
EVENT = np.dtype([("pc", "<u8"), ("address", "<u8"), ("sp", "<u8"), ("size", "<u4"), ("kind", "<u4")])


@dataclass(frozen=True)
class Tally:
    """What one run issued: pc -> (times issued, times left by a taken branch)."""

    issued: dict[int, tuple[int, int]]
    stopped: bool  # the instruction budget ran out

    @property
    def instructions(self) -> int:
        """How many were issued in all."""
        return sum(n for n, _ in self.issued.values())


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
        return np.sort(self._touched(number))

    def _touched(self, number: int) -> np.ndarray:
        """The same in any order."""
        return self.touched[:number] if number <= len(self.touched) else self.executed.nonzero()[0]

    def clear(self, number: int) -> None:
        """Make what was touched zero again."""
        at = self._touched(number)
        self.executed[at] = self.taken[at] = 0

    def issued(self, number: int) -> dict[int, tuple[int, int]]:
        """pc -> (times issued, times left by a taken branch)."""
        at = self.at(number)
        pcs = (at.astype(np.uint64) + np.uint64(self.base)).tolist()
        return dict(zip(pcs, zip(self.executed[at].tolist(), self.taken[at].tolist(), strict=True), strict=True))


def find(stretches: list[Counters], address: int) -> int:
    """The index of the stretch that holds an address, -1 if none does."""
    for i, s in enumerate(stretches):
        if s.base <= address < s.base + s.size:
            return i
    return -1
