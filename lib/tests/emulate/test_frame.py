"""The frame of a trampoline: what it takes of the stack, and which bytes of it are written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tramplab import Kernel
from tramplab.base.errors import TramplabError
from tramplab.emulate.counting import counters
from tramplab.emulate.counting.trace import Issued, Recording, StackFrame, frame_of

TRAMPOLINE = range(0x1000, 0x2000)


def frame(*steps: tuple[int, int, list[tuple[int, int, bool]]]) -> StackFrame:
    events = []
    for pc, sp, accesses in steps:
        events += [(pc, pc, sp, 4, counters.INSTRUCTION)]
        events += [(pc, a, 0, size, counters.STORE if store else counters.LOAD) for a, size, store in accesses]
    recording = Recording(np.array(events, counters.EVENT), {pc for pc, _, _ in steps})
    assert recording.steps == [Issued(pc, sp, tuple(accesses)) for pc, sp, accesses in steps]
    return frame_of(recording, lambda pc: pc in TRAMPOLINE)


def test_frame_of_a_hand_made_call():
    """A site at sp 0x8000; a trampoline that takes 64 bytes, writes 8 + 16 of them (8 twice), calls something that goes
    0x90 deep, and gives its frame back: 64 bytes of frame, 24 written, 0x90 deepest."""
    assert frame(
        (0x500, 0x8000, []),
        (0x1000, 0x8000, []),
        (0x1004, 0x7FC0, [(0x7FC0, 8, True)]),
        (0x1008, 0x7FC0, [(0x7FC8, 8, True), (0x7FD0, 8, True)]),
        (0x100C, 0x7FC0, [(0x7FC8, 8, True)]),  # the same bytes again
        (0x1010, 0x7FC0, [(0x7FC0, 8, False)]),  # a load writes nothing
        (0x3000, 0x7FC0, [(0x7F70, 8, True)]),
        (0x3004, 0x7F70, []),
        (0x1014, 0x7FC0, []),
        (0x504, 0x8000, []),
    ) == StackFrame(frame=64, written=24, deepest=0x90)


def test_only_bytes_of_the_frame_count_as_written():
    """A store to data, above the frame or partly above it counts only with the bytes inside."""
    assert frame(
        (0x1000, 0x8000, [(0x8000, 8, True)]),  # the caller's
        (0x1004, 0x7FF0, [(0x7FFC, 8, True)]),  # half of it the caller's
        (0x1008, 0x7FF0, [(0x40, 8, True)]),  # data
        (0x100C, 0x7FF0, [(0x7FF1, 1, True)]),
    ) == StackFrame(frame=16, written=5, deepest=16)


def test_no_trampoline_no_frame():
    """An unhooked call has no frame; how deep it goes is still known, from the stack pointer and from stores below
    it."""
    assert frame((0x500, 0x8000, []), (0x504, 0x7FE0, [(0x7FD8, 8, True)]), (0x508, 0x8000, [])) == StackFrame(0, 0, 0x28)
    assert frame((0x500, 0x8000, [(0x90000, 8, True)])) == StackFrame(0, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 120), st.sampled_from([1, 2, 4, 8])), max_size=12))
@settings(max_examples=settings.default.max_examples // 2)
def test_written_bytes_are_a_set(stores):
    """However stores overlap, each byte of the frame is counted once."""
    expected = {b for at, size in stores for b in range(at, min(at + size, 128))}
    steps = [(0x1000, 0x8000, []), *((0x1004, 0x8000 - 128, [(0x8000 - 128 + at, size, True)]) for at, size in stores)]
    assert frame(*steps) == StackFrame(128 if stores else 0, len(expected), 128 if stores else 0)


def test_steps_need_a_recording():
    """A kernel that only counts says how to get the steps."""
    run = Kernel("riscv64", meter="count").call("one_arg", 1)
    for what in ("steps", "frame", "entry"):
        with pytest.raises(TramplabError, match="meter='record'"):
            getattr(run, what)
