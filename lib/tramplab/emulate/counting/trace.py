"""One call, instruction by instruction: what ran, where the stack was, what was written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from .counters import INSTRUCTION, STORE


@dataclass(frozen=True)
class Issued:
    """One issued instruction: its address and the stack pointer before it; its accesses as (address, size, is_store)."""

    pc: int
    sp: int
    accesses: tuple[tuple[int, int, bool], ...]


class Recording:
    """A recorded call as arrays, in order.

    Per step: pc and sp, see Issued. Per access: step, the index of the step that made it; address, size in bytes, is_store.
    pcs: the addresses of all steps, each once.
    repeated: those of them whose rounds are one step together.
    """

    def __init__(self, events: np.ndarray, pcs: Iterable[int], repeated: Collection[int] = ()) -> None:
        accessed = events["kind"] != INSTRUCTION
        begins = ~accessed
        if repeated:
            begins[begins] = ~_again(events["pc"][begins], repeated)
        self.pc, self.sp = events["pc"][begins], events["sp"][begins]
        step = np.cumsum(begins) - 1
        made = accessed & (step >= 0)
        self.step, self.address, self.size = step[made], events["address"][made], events["size"][made]
        self.is_store = events["kind"][made] == STORE
        self._pcs = sorted(pcs)
        self._which = np.searchsorted(np.array(self._pcs, self.pc.dtype), self.pc)

    def __len__(self) -> int:
        return len(self.pc)

    @functools.cached_property
    def steps(self) -> list[Issued]:
        """The recording as a list of steps."""
        accesses: list[list[tuple[int, int, bool]]] = [[] for _ in range(len(self))]
        columns = (self.step, self.address, self.size, self.is_store)
        for n, address, size, is_store in zip(*(c.tolist() for c in columns), strict=True):
            accesses[n].append((address, size, is_store))
        return [Issued(*s) for s in zip(self.pc.tolist(), self.sp.tolist(), map(tuple, accesses), strict=True)]

    def each(self, of: Callable[[int], object]) -> np.ndarray:
        """Per step, what of(pc) says of its instruction; asked once per instruction."""
        return np.array([of(pc) for pc in self._pcs])[self._which]


def _again(pcs: np.ndarray, repeated: Collection[int]) -> np.ndarray:
    """Whether each of these addresses is one of the repeated ones, and the same as the one before it."""
    same = np.append(False, pcs[1:] == pcs[:-1])
    return same & np.isin(pcs, np.array(sorted(repeated), pcs.dtype))


@dataclass(frozen=True)
class StackFrame:
    """The bytes of stack that the trampolines of a call use.

    frame: from the stack pointer at the first trampoline instruction down to the lowest it reaches while a trampoline runs.
    written: distinct bytes of that frame that trampoline instructions store to.
    deepest: from the stack pointer at the traced function's first byte down to the lowest stack byte that anything in the call
        uses.
    """

    frame: int
    written: int
    deepest: int


#: Bytes that a kernel's stack has.
_STACK = 16384


def frame_of(call: Recording, is_trampoline: Callable[[int], bool]) -> StackFrame:
    """Measure the frame from a recorded call; is_trampoline(pc) tells which instructions are the trampolines'."""
    first = int(call.sp[0])
    # a kernel's exception entry looks for an overflow with sums and differences in the stack pointer, which are no stack's
    low = max(first - _STACK, 0)
    stored, sp = call.address[call.is_store], call.sp[call.sp > low]
    below = stored[(stored > low) & (stored < first)]
    lowest = min(int(sp.min(initial=first)), int(below.min(initial=first)))
    in_trampoline = call.each(is_trampoline)
    if not in_trampoline.any():
        return StackFrame(0, 0, first - lowest)
    top, bottom = int(call.sp[in_trampoline][0]), int(call.sp[in_trampoline].min())
    made = in_trampoline[call.step] & call.is_store
    spans = set(zip(call.address[made].tolist(), call.size[made].tolist(), strict=True))
    written = {b for a, n in spans for b in range(max(a, bottom), min(a + n, top))}
    return StackFrame(top - bottom, len(written), first - lowest)
