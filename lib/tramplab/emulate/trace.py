"""One call, instruction by instruction: what ran, where the stack was, what was written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .meter import INSTRUCTION, STORE


@dataclass(frozen=True)
class Step:
    """One issued instruction: its address and the stack pointer before it; its accesses as (address, size, is_store)."""

    pc: int
    sp: int
    accesses: tuple[tuple[int, int, bool], ...]


def steps(events: np.ndarray) -> list[Step]:
    """The recording as a list of steps, in order."""
    out: list[Step] = []
    pending: list[tuple[int, int, bool]] = []
    pc = sp = None
    for event_pc, address, event_sp, size, kind in events.tolist():
        if kind == INSTRUCTION:
            if pc is not None:
                out.append(Step(pc, sp, tuple(pending)))
            pc, sp, pending = event_pc, event_sp, []
        else:
            pending.append((address, size, kind == STORE))
    if pc is not None:
        out.append(Step(pc, sp, tuple(pending)))
    return out


@dataclass(frozen=True)
class Frame:
    """What the trampolines of a call did with the stack, in bytes.

    frame: from the stack pointer at the first trampoline instruction down to the lowest it reaches while a trampoline
    runs. written: distinct bytes of that frame that trampoline instructions store to. deepest: from the stack pointer at
    the traced function's first byte down to the lowest stack byte that anything in the call uses.
    """

    frame: int
    written: int
    deepest: int


def frame_of(call: list[Step], is_trampoline) -> Frame:
    """Measure the frame from a recorded call; is_trampoline(pc) tells which instructions are the trampolines'."""
    first = call[0].sp
    lowest = min(
        min(s.sp for s in call),
        min((a for s in call for a, _, w in s.accesses if w and first - 16384 < a < first), default=first),
    )
    own = [s for s in call if is_trampoline(s.pc)]
    if not own:
        return Frame(0, 0, first - lowest)
    top, bottom = own[0].sp, min(s.sp for s in own)
    written = {b for s in own for a, n, w in s.accesses if w for b in range(max(a, bottom), min(a + n, top))}
    return Frame(top - bottom, len(written), first - lowest)
