"""The memory that the owner of an image reserves in a machine."""

from __future__ import annotations

from dataclasses import dataclass

from .memory.memory import Area
from .traps import Vector


@dataclass(frozen=True)
class Places:
    """Where a machine has room besides its image.

    return_to: the return address of a call; code there is never executed.
    modules: for code made at run time.
    heap: for data.
    stacks: one per CPU; the pages below and above each are not mapped.
    vector: the address that breakpoints jump to; without one, a breakpoint ends the run.
    more: further areas to map.
    """

    return_to: int
    modules: Area
    heap: Area
    stacks: tuple[Area, ...]
    vector: Vector | None = None
    more: tuple[Area, ...] = ()
