"""riscv64: LR and SC of any ordering. An AMO is one instruction that may touch what is shared."""

from __future__ import annotations

import re

from ..decode import Instruction
from .touch import ACCESS, LOAD_LINKED, SHARED, STORE_CONDITIONAL, Touch, number

#: The register with the interrupt flag, and its first value, as in a lab kernel: off.
FLAGS, START = "sstatus", 0
_SIMPLE = re.compile(r"(-?\w*)\((\w+)\)$")
_SIZES = {"w": 4, "d": 8}


def touch(instruction: Instruction) -> Touch:
    """The touch of an instruction that accesses memory."""
    found = _SIMPLE.search(instruction.operands)
    if found is None:
        return Touch(SHARED)
    base, offset = found[2], number(found[1])
    name, operands = instruction.mnemonic.split("."), [o.strip() for o in instruction.operands.split(",")]
    if name[0] == "lr":
        return Touch(LOAD_LINKED, base)
    if name[0] == "sc":
        return Touch(STORE_CONDITIONAL, base, value=operands[1].removeprefix("zero"), status=operands[0], size=_SIZES[name[1]])
    if name[0].startswith("amo"):
        return Touch(SHARED)
    return Touch(ACCESS, base, offset)
