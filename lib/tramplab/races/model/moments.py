"""The moments of a plan: between two steps everything is as the last one left it, and what a CPU may still have is bounded.

Which moments a plan has, and in which order they can come, is plan.py's matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ...ftrace.steps import Write
from ..subject import Planned

#: How CPUs see the patcher's stores: in program order, or in any order between two fences.
Data = Literal["ordered", "unordered"]
ORDERED, UNORDERED = DATA = get_args(Data)
#: Who is noted down, and waited for: nobody; threads inside the function or a trampoline; those that hold a reference; every CPU,
#: until it takes an interrupt.
NOBODY, INSIDE, COUNTED, EVERYBODY = "", "inside", "counted", "everybody"


@dataclass(frozen=True)
class Moment:
    """A point in a plan between two steps.

    done: the steps that are done, as a mask of their numbers; of a store: that every CPU sees it.
    step: the one that led here; None at first, and where several could have been the last one.
    why: its reason, for the reader.
    horizon: the moment at which every CPU last refetched: each has text of that moment or a later one.
    loads: the moment at which every CPU last took an interrupt or switched tasks: none of their loads is older.
    unseen: the steps that wrote text which a CPU need not have seen then, as it had not been made visible.
    frozen: are all threads stopped?
    stopping: does a thread that has taken the interrupt stay where it is?
    notes: which threads are noted as this moment begins; the next moment does not begin before all of them have left.
    empty: does this moment only begin when no thread is inside at all?
    during: a write of several granules is half done.
    after: the moments that can be next.
    """

    done: int
    step: Planned | None
    why: str
    horizon: int
    loads: int = 0
    unseen: frozenset[int] = frozenset()
    frozen: bool = False
    stopping: bool = False
    notes: str = NOBODY
    empty: bool = False
    during: Write | None = None
    after: tuple[int, ...] = ()
