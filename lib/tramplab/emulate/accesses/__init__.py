"""The memory accesses of each instruction, from its text: one small table per ISA.

An access is at most 8 bytes, so a load-pair of 64-bit registers is two. An instruction that may touch memory and is in no
table raises: a total with a guess in it is not a count.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accesses:
    """Accesses of one instruction: how many, and bytes in total."""

    loads: int = 0
    stores: int = 0
    load_bytes: int = 0
    store_bytes: int = 0

    def __add__(self, other: Accesses) -> Accesses:
        return Accesses(
            self.loads + other.loads,
            self.stores + other.stores,
            self.load_bytes + other.load_bytes,
            self.store_bytes + other.store_bytes,
        )


NOTHING = Accesses()


def load(size: int, count: int = 1) -> Accesses:
    """`count` loads of `size` bytes each."""
    return Accesses(loads=count, load_bytes=size * count)


def store(size: int, count: int = 1) -> Accesses:
    """`count` stores of `size` bytes each."""
    return Accesses(stores=count, store_bytes=size * count)
