"""The memory access of an instruction, as the scheduler has to know it: one small file per ISA makes these."""

from __future__ import annotations

from dataclasses import dataclass

#: As scheduler.c numbers them. An ACCESS is at base + offset; what is SHARED may be anywhere.
UNKNOWN, LOCAL, ACCESS, SHARED, LOAD_LINKED, STORE_CONDITIONAL, CLEAR, COMPARE_SWAP = range(8)


@dataclass(frozen=True)
class Touch:
    """One access to memory.

    kind: one of the above.
    base, value, status: registers, "" for zero or none.
    offset, size: in bytes.
    """

    kind: int = LOCAL
    base: str = ""
    offset: int = 0
    value: str = ""
    status: str = ""
    size: int = 0


def number(text: str) -> int:
    """A displacement as a disassembler prints it.

    >>> number("-0x10"), number("8"), number("")
    (-16, 8, 0)
    """
    return int(text.replace(" ", ""), 0) if text else 0
