"""What a trampoline saves and shows, before it is code."""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes below the function's stack pointer that a callback which changes the stack may write to.
GAP = 32


@dataclass(frozen=True)
class SavePlan:
    """What goes into the frame and comes back.

    keeps: general registers, stored before the callback and, where the kernel's own trampoline does so too, loaded again
    after it. ip: is ip in its slot, and taken from there? sp: is sp in its slot? stack: is it taken from there, the return
    address with it, with GAP bytes to push into? whole: is this an ftrace_regs as the kernel fills it, with the constants
    that go with it? full: with flags and segments, where a pt_regs has them?
    """

    keeps: tuple[str, ...]
    ip: bool = False
    sp: bool = False
    stack: bool = False
    whole: bool = False
    full: bool = False
