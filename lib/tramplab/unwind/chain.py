"""The result of an unwinder: a chain of return addresses, and why it ended where it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WORD = 8

#: Reads a word of the stack at an address; None outside it.
Read = Callable[[int], int | None]
#: Is there code at an address?
IsText = Callable[[int], bool]
#: Return address, and by what its frame is known -> the address that was there before a return hook; None if nobody knows it.
Recover = Callable[[int, int], int | None]

OUTSIDE, DOWN, CROOKED, NO_CODE, NO_NODE = (
    "leaves the stack",
    "goes down or round",
    "is not aligned",
    "returns to no code",
    "returns to a hook that nobody knows",
)


def as_it_is(address: int, frame: int) -> int | None:
    """The Recover of an unwinder that knows of no return hooks."""
    return address


@dataclass(frozen=True)
class Chain:
    """The result of an unwinder: the program counter and the return addresses, innermost first. error: why a frame could not be
    followed, "" if the chain ended as it should; guessed: the unwinder assumed a frame record in code that it does not know."""

    addresses: tuple[int, ...]
    error: str = ""
    guessed: bool = False
