"""The layout of the stack before each instruction of a function, worked out from its code: one file per ISA that needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The layout of the stack: the caller's frame begins `offset` bytes above the frame pointer if `by_frame_pointer`, else above
    the stack pointer. Right below it lies the return address; saved: bytes from there to the caller's saved frame pointer, None
    while that is still in its register."""

    by_frame_pointer: bool
    offset: int
    saved: int | None = None
