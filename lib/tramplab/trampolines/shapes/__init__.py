"""Trampolines of a given shape, to hold estimates against: so many registers saved, so many calls made, and a way out.

A shape is called from the patch site as a direct call is. It saves registers in a frame of its own, calls a small leaf,
restores, and goes on to the traced function's body. (There are no landing pads.) How it goes there is what matters to
the return stack, on which the patch site's call has pushed the body's address, above the caller's:

balanced      by what the CPU takes for a return: x86-64 RET, arm64 RET x10, riscv64 JR t0. It pops what the site's call
              pushed, so the return stack is right and stays right.
unbalanced    by an indirect jump that is no return: x86-64 POP r11 and JMP *r11, arm64 BR x10, riscv64 JR t1. The site's
              push stays, and the return of the function itself meets it: one misprediction a call, and one entry too
              many below it.
"""

from __future__ import annotations

from ..guest import ROOM
from ..kind import Kind
from .maker import ShapeCalls, code
from .request import GRID, GRID_SAVES, MAX_NESTED, MAX_SAVES, MIN_SAVES, Shape

__all__ = ["GRID", "GRID_SAVES", "KIND", "MAX_NESTED", "MAX_SAVES", "MIN_SAVES", "ROOM", "Shape", "ShapeCalls", "code"]

#: Without hooks, as no release has a shape.
KIND = Kind(ShapeCalls)
