"""arm64: LDXR and STXR of any ordering. LSE's atomics, one instruction each, would need nothing here but a table of accesses."""

from __future__ import annotations

import re

from ..decode import Instruction
from .touch import ACCESS, CLEAR, LOAD_LINKED, SHARED, STORE_CONDITIONAL, Touch, number

#: The register with its flags, and what is there at first, as in a lab kernel: interrupts off.
FLAGS, START = "pstate", 0x3C5
_SIMPLE = re.compile(r"\[(\w+)(?:, #(-?\w+))?\](!?)$")


def touch(instruction: Instruction) -> Touch:
    """The touch of an instruction that accesses memory, or ends a reservation."""
    name, operands = instruction.mnemonic, [o.strip() for o in instruction.operands.split(",")]
    if name == "clrex":
        return Touch(CLEAR)
    match = _SIMPLE.search(instruction.operands)
    if match is None:
        return Touch(SHARED)
    base, offset = match[1], number(match[2] or "")
    if name in ("ldxr", "ldaxr"):
        return Touch(LOAD_LINKED, base)
    if name in ("stxr", "stlxr"):
        size = 8 if operands[1].startswith("x") else 4
        return Touch(STORE_CONDITIONAL, base, value=_whole(operands[1]), status=_whole(operands[0]), size=size)
    return Touch(ACCESS, base, offset)


def _whole(register: str) -> str:
    """The register that a name of its lower half belongs to; "" for zero."""
    return "" if register in ("wzr", "xzr") else f"x{register[1:]}"
