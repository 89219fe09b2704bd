"""The CPU's part of a breakpoint, and of the instruction that returns from it, which the emulator does not have.

What the hardware itself moves to and from the stack is in no count, as it is no instruction's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..engine import Engine
from . import arm64, riscv64, x86_64


@dataclass(frozen=True)
class Vector:
    """Where a guest takes its breakpoints: entry, the address of the first instruction; leaves, that of the one that returns
    (IRETQ, ERET, SRET)."""

    entry: int
    leaves: int


class TrapArch(Protocol):
    """What the module of each ISA has."""

    @property
    def INTERRUPT(self) -> int | None:
        """The number under which the engine reports a breakpoint; None: as an instruction that it does not know."""

    @property
    def BEHIND(self) -> int:
        """Bytes from the breakpoint to where the engine then is."""

    def enter(self, engine: Engine, pc: int) -> None:
        """Take the exception: store the state where the architecture does. pc: the breakpoint's address."""

    def leave(self, engine: Engine) -> int:
        """Return from the exception: restore the state, and give the address to go on at."""


MODULES: dict[str, TrapArch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
