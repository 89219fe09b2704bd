"""Why a program is refused: kinds of reasons, and a refusal that says where."""

from __future__ import annotations

from dataclasses import dataclass

#: Reasons that lie in the layout: another one may serve.
UNFILLED = "nobody fills it"
HELPER = "a helper needs a pt_regs"
THROUGH = "a helper reads through the pointer"
PATHS = "paths need different offsets"
SPLIT = "its parts lie apart"
RANGE = "does not fit the instruction"
BY_LAYOUT = (UNFILLED, HELPER, THROUGH, PATHS, SPLIT, RANGE)
#: Reasons that lie in the program, whatever the layout: what it does with its context.
STORE = "stores into the context"
VARIABLE = "variable offset"
ESCAPE = "the pointer escapes"
NUMBER = "the pointer as a number"
OUTSIDE = "no field of the context"
#: It is no program that a verifier lets run.
INVALID = "no valid program"
BY_PROGRAM = (STORE, VARIABLE, ESCAPE, NUMBER, OUTSIDE, INVALID)


@dataclass(frozen=True)
class Refused:
    """A program that is not allowed to run.

    kind: one of the above.
    at: the slot of the instruction that it fails at.
    text: that instruction.
    why: what is wrong with it, with the slot of pt_regs where it is about one.
    """

    kind: str
    at: int
    text: str
    why: str
    slot: str | None = None

    def __str__(self) -> str:
        return f"instruction {self.at}, {self.text!r}: {self.why}"


class Refusal(Exception):
    """A refusal on its way out of the verifier or the rewriter."""

    def __init__(self, kind: str, why: str, slot: str | None = None) -> None:
        super().__init__(why)
        self.kind, self.why, self.slot = kind, why, slot

    def at(self, at: int, text: str) -> Refused:
        """The refusal with the instruction that it is about."""
        return Refused(self.kind, at, text, self.why, self.slot)
