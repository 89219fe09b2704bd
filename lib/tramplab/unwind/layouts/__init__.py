"""The layout of the stack before each instruction of a function, worked out from its code: one file per ISA that needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Where the caller's frame begins: `offset` bytes above the frame pointer if `by_frame_pointer`, else above the stack
    pointer. The return address lies right below it; saved: where the caller's frame pointer lies, in bytes from there, None
    while it is still in its register."""

    by_frame_pointer: bool
    offset: int
    saved: int | None = None
