"""Changing live text and data, as explicit steps: what is written where, and what is waited for.

A plan is a list of steps in the order the kernel performs them. Nothing is hidden between two of them, so that they
can be applied one at a time, shown, reordered or dropped.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Write:
    """Store `data` at `address`; `text` says whether it is code. `why` is for the reader."""

    address: int
    data: bytes
    text: bool
    why: str

    def __str__(self) -> str:
        return f"write {len(self.data):>3} B at {self.address & 0xFFFFFFFF:08x}    {self.why}"


@dataclass(frozen=True)
class Sync:
    """Wait for the other CPUs. `kind` names the mechanism in the kernel's words."""

    kind: str
    why: str

    def __str__(self) -> str:
        return f"{f'wait: {self.kind}':<26} {self.why}"


Step = Write | Sync


def pointer(value: int) -> bytes:
    """A 64-bit pointer as it lies in memory."""
    return (value & (1 << 64) - 1).to_bytes(8, "little")


def text(address: int, data: bytes, why: str) -> Write:
    return Write(address, data, True, why)


def word(address: int, value: int, why: str) -> Write:
    """Store one pointer-sized data word."""
    return Write(address, pointer(value), False, why)
