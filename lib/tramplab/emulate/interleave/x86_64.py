"""x86-64: CMPXCHG, whose outcome is in a flag. Every other locked instruction does its work at once, and never fails."""

from __future__ import annotations

import re

from ..decode import Instruction
from .touch import ACCESS, COMPARE_SWAP, LOCAL, SHARED, Touch, number

#: The register with its flags, and what is there at first, as in a lab kernel: interrupts off.
FLAGS, START = "eflags", 0x2
_SIMPLE = re.compile(r"ptr \[(\w+)( [+-] [0-9]\w*)?\]")
_STACK = ("push", "pop", "call", "ret")


def touch(instruction: Instruction) -> Touch:
    """The touch of an instruction that accesses memory."""
    if instruction.mnemonic.endswith("cmpxchg"):
        return Touch(COMPARE_SWAP)
    if "[" not in instruction.operands and instruction.mnemonic.startswith(_STACK):
        return Touch(LOCAL)
    match = _SIMPLE.search(instruction.operands)
    return Touch(ACCESS, match[1], number(match[2] or "")) if match else Touch(SHARED)
