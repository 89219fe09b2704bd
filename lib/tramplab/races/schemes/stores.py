"""Plans that no kernel carries out, for sites of five bytes on x86-64: what the breakpoint is there for.

The three stores that a kernel makes under a breakpoint, to a site or to the call in a common trampoline, become one of all five
bytes. It is taken at once where it lies within eight aligned ones, which is what both makers promise of a store (AMD64 manual,
volume 2, 7.3.2; Intel's SDM, volume 3, 9.1.1, promises it within a cache line). A site behind a landing pad does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import TramplabError
from ...ftrace.steps import POINTER, Wait, Write, text
from ...isa.x86_64 import INT3
from ..subject import Planned, Subject, replanned

#: Three stores with a wait behind each: a breakpoint, the instruction's tail, its first byte. The last wait stays.
_STEPS = 6


def storing(subject: Subject) -> Subject:
    """A plan that stores each instruction without a breakpoint, and has every CPU look again behind it. Raises TramplabError for a
    plan whose breakpoints are not each followed by one instruction's tail and first byte."""
    instead: dict[int, list[Planned]] = {}
    for number, step in enumerate(subject.steps):
        if isinstance(step, Write) and step.text and step.data == INT3:
            instead |= {number + n: [] for n in range(_STEPS - 1)}
            instead[number + _STEPS - 2] = [_whole(step, subject.steps[number + 1 : number + _STEPS])]
    return replanned(subject, lambda number: instead.get(number, [subject.steps[number]]))


def _whole(breakpoint: Write, behind: Sequence[Planned]) -> Write:
    """The instruction that takes the place of a breakpoint, which its plan makes of two stores."""
    match behind:
        case [Wait(), Write() as tail, Wait(), Write() as first, Wait()]:
            if (first.address, tail.address) == (breakpoint.address, breakpoint.address + len(INT3)):
                return text(first.address, first.data + tail.data, first.why.replace("first byte, ", ""), POINTER)
    raise TramplabError(f"{breakpoint.why}: no tail and first byte of one site come behind it; take a plan for one site.")
