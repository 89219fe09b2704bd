"""An error in a guest, in one sentence: where, at which instruction, with which registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.errors import GuestFault, Recursion, StepLimit

#: Instructions for which a run that does not end is watched, to see which loop it is in; names that are shown of it.
WATCHED, NAMED = 400, 6


@dataclass(frozen=True)
class Situation:
    """The state of a guest at its error.

    place: symbol+offset of the instruction issued last; after a trap or a jump the pc is elsewhere already.
    instruction: its text.
    registers: those that matter to it.
    access: the kind of access that failed, and its address, if one was the cause.
    exhausted: is that address in the page below a stack?
    recursion: the calls that fill that stack, if they repeat.
    """

    isa: str
    place: str
    instruction: str
    registers: tuple[tuple[str, int], ...]
    access: tuple[str, int] | None
    exhausted: bool
    recursion: Recursion | None = None

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value:#x}" for name, value in self.registers)
        return f"at {self.place} ({self.instruction}); {values}"


def fault(where: Situation, reason: str) -> GuestFault:
    """The error for a run that the CPU could not go on with; reason is the engine's word for it."""
    what = reason.split("(", maxsplit=1)[0].strip().lower()
    if where.access:
        kind, address = where.access
        what = f"{kind} {address:#x}"
        if where.exhausted:
            what += f" (the stack is exhausted{_again(where.recursion)})"
    error = GuestFault(f"guest fault on {where.isa}: {what} {where}.")
    error.recursion = where.recursion
    return error


def _again(recursion: Recursion | None) -> str:
    """The recursion that fills the stack, and what can be done about it."""
    if recursion is None:
        return ""
    return (
        f" by recursion: {' -> '.join(recursion.functions)} -> ... ran {recursion.rounds} times, with {recursion.size} bytes of "
        "stack each; break that circle, or put a guard into it"
    )


def halted(where: Situation) -> GuestFault:
    """The error for a run that ended before it returned, without a fault."""
    return GuestFault(f"the {where.isa} guest stopped by itself {where}.")


def endless(where: Situation, seen: Iterable[str], budget: int) -> StepLimit:
    """The error for a run that used up its instructions; seen: the places, symbol+offset, that it came by when it was
    watched a little longer, to name the loop."""
    loop = " -> ".join(list(dict.fromkeys(place.split("+")[0] for place in seen))[:NAMED])
    return StepLimit(
        f"the {where.isa} guest did not return within {budget} instructions and goes round in {loop}: "
        f"stopped {where}. Raise the limit if that is meant."
    )
