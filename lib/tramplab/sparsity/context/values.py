"""The verifier's knowledge of a register or a stack slot on one path; None where nothing was ever written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """A number: which one, or None where that is not known."""

    value: int | None = None


@dataclass(frozen=True)
class Context:
    """The address of the program's context plus an offset in bytes; None where that is not a constant."""

    offset: int | None = 0


@dataclass(frozen=True)
class Stack:
    """The frame pointer plus an offset in bytes."""

    offset: int = 0


@dataclass(frozen=True)
class Map:
    """A map, by its number."""

    number: int


@dataclass(frozen=True)
class Found:
    """The result of a lookup, of this many bytes. lookup: the instruction that called it. checked: is it known not to be null?"""

    lookup: int
    offset: int = 0
    checked: bool = False


Value = Scalar | Context | Stack | Map | Found | None
UNKNOWN = Scalar()


def called(value: Value) -> str:
    """The name of a value in an error."""
    match value:
        case None:
            return "nothing that was written"
        case Scalar():
            return "a number"
        case Context():
            return "the context"
        case Stack():
            return "the stack"
        case Map():
            return "a map"
    return "a map's value" if value.checked else "a map's value or null"
