"""The violations that must not happen, and the words for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Property = Literal["target", "torn", "pair", "late", "freed", "state", "missed"]
TARGET, TORN, PAIR, LATE, FREED, STATE, MISSED = get_args(Property)

#: What must hold, by the name under which a violation of it is reported.
PROPERTIES = {
    TARGET: "control only reaches trampolines, and returns where it came from",
    TORN: "every instruction that is executed was written as a whole",
    PAIR: "a callback is called with an ops of its own",
    LATE: "nobody calls an ops once its removal is over",
    FREED: "nothing is executed or read that was given back",
    STATE: "arguments, link register, stack, saved registers and result are right",
    MISSED: "an ops that is attached during a whole call is called once, and a new one is in the end",
}


@dataclass(frozen=True)
class Violation:
    """A property that does not hold (which), and in words how one sees it."""

    which: str
    how: str

    def __str__(self) -> str:
        return f"{self.which}: {self.how}"
