"""The outcome of a run, and in a few words why."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import unknown

#: The probe has the feature; has it in part, or at a price that the user has to know; has it not; would have it, but the kernel
#: refuses it; calls go astray, or do not end.
YES, PART, NO, REFUSED, HARMS = "yes", "in part", "no", "refused", "harms"
OUTCOMES = (YES, PART, NO, REFUSED, HARMS)
#: Outcome -> how much of the feature that is, to compare two mechanisms.
RANK = {HARMS: -1, NO: 0, REFUSED: 0, PART: 1, YES: 2}


@dataclass(frozen=True)
class Cell:
    """The outcome of one run.

    outcome: one of OUTCOMES.
    said: why, in a few words, "" where the outcome says all.
    number: the one that decided, if one did.
    """

    outcome: str
    said: str = ""
    number: int | None = None

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise unknown("outcome", self.outcome, OUTCOMES)


def of(right: bool, said: str = "", number: int | None = None) -> Cell:
    """The cell with YES or NO."""
    return Cell(YES if right else NO, said, number)
