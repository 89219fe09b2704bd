"""What a CPU does at a breakpoint, and at the instruction that returns from it: the emulator knows neither.

One module per ISA: enter(engine, pc) leaves the state where the architecture does, with pc the breakpoint's address, and
leave(engine) gives the address to go on at. What the hardware itself moves to and from the stack is in no count, as it is no
instruction's.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from . import arm64, riscv64, x86_64


@dataclass(frozen=True)
class Vector:
    """Where a guest takes its breakpoints: entry, the address of the first instruction; leaves, that of the one that returns
    (IRETQ, ERET, SRET)."""

    entry: int
    leaves: int


#: One per ISA.
MODULES: dict[str, ModuleType] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
