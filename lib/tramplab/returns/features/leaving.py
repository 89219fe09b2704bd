"""Functions that are left without a return: the caller of a caller goes on (guest/include/jump.h)."""

from __future__ import annotations

from ..counted import references, shadow_words
from .cell import HARMS, PART, YES, Cell
from .stage import Seen, Stage

#: Leaves without a return if its first argument is odd; a caller's caller of it, where it goes on then.
LEFT, GOES_ON = "left_early", "goes_on"
#: Times that it is left at most, until its calls are not seen any more.
MOST = 150


def alone(stage: Stage) -> Cell:
    """Only the function that is left is hooked. Are later calls right, and what is lost? Lost instances or words of the shadow
    stack are found by leaving it until ordinary calls are not seen any more, a lost reference by its counter."""
    left, plain = stage.expected(GOES_ON, 1, 5), stage.expected(LEFT, 2, 6)
    with stage.attached(LEFT) as registered:
        for times in range(1, MOST + 1):
            gone, back = stage.call(GOES_ON, 1, 5), stage.call(LEFT, 2, 6)
            if gone.value != left or back.value != plain or gone.exits:
                return Cell(HARMS)
            if [row.value for row in back.exits] != [plain]:
                return Cell(PART, f"{times} times", times)
        lost, words = references(stage.kernel, registered), shadow_words(stage.kernel, stage.kernel.cpus[0].task)
    if lost or words:
        losses = "a reference each" if lost == MOST else f"{lost} references, {words} words"
        return Cell(PART, losses, lost or words)
    return Cell(YES)


def below_another(stage: Stage) -> Cell:
    """The function where it goes on is hooked as well: does that one return, to its caller and with its value?"""
    value = stage.expected(GOES_ON, 1, 5)
    with stage.attached(LEFT, GOES_ON):
        seen = stage.call(GOES_ON, 1, 5)
    if seen.value != value:
        return Cell(HARMS, _ended(seen))
    return Cell(YES if [row.value for row in seen.exits] == [value] else PART)


def _ended(seen: Seen) -> str:
    if seen.panicked:
        return "panic"
    return "warns, astray" if seen.warnings else "astray"
