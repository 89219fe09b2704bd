"""The plan of a trampoline: the registers that it saves and shows."""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes below the function's stack pointer that a callback which changes the stack may write to.
GAP = 32


@dataclass(frozen=True)
class SavePlan:
    """The registers that go into the frame and come back.

    keeps: general registers, stored before the callback and, where the kernel's own trampoline does so too, loaded again after it.
    ip: is ip stored in its slot, and loaded from there?
    sp: is sp stored in its slot?
    stack: are sp and the return address loaded from their slots? A callback then has GAP bytes below the stack to push into.
    whole: is this an ftrace_regs as the kernel fills it, with the constants that go with it?
    full: does it have flags and segments, where a pt_regs has them?
    """

    keeps: tuple[str, ...]
    ip: bool = False
    sp: bool = False
    stack: bool = False
    whole: bool = False
    full: bool = False
