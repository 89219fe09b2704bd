"""A schedule as lines of two columns, the patcher's and the thread's, as those who argue about races write them."""

from __future__ import annotations

import itertools
import re
import textwrap
from dataclasses import dataclass, replace

from ..base.arguments import whole
from ..base.width import WIDTH
from ..emulate import decode
from ..ftrace.steps import Free, Scope, Sync, Wait, Write
from .explore import Result
from .model.plan import resumes
from .search.automaton import CALLS, EXECUTES, INTERRUPTED, NESTS, PATCHES, SLEEPS, Taken
from .subject import FixUp, overlap

#: Who takes a step.
PATCHER, THREAD = "patcher", "thread"
#: Steps that first begin and then are done, which is told in one line.
WRITES = "writes"
_NUMBER, _LEFT = 8, 31
#: What a thread does that is no instruction; {} is the function.
_SAID = {
    CALLS: "calls {}",
    INTERRUPTED: "takes the interrupt",
    NESTS: "takes an exception, whose handler calls {}",
    SLEEPS: "sleeps in {}",
}


@dataclass(frozen=True)
class Line:
    """One step, or several that are printed as one line.

    first, last: their numbers, from 1.
    who: PATCHER or THREAD.
    where: symbol+offset of the instruction, "" for none.
    text: what the step does.
    """

    first: int
    last: int
    who: str
    where: str
    text: str


def lines(result: Result, folded: bool = True) -> list[Line]:
    """The schedule of a result; folded: what one side does and the other does not notice is a line for each stretch of it."""
    single = [_line(result, n, taken) for n, taken in enumerate(result.schedule, 1)]
    if not folded or not single:
        return single
    met = [result.threads_of.touched(t.at, t.instruction) for t in result.schedule if t.what == EXECUTES]
    everything = set().union(*met)
    dull = [_dull(result, taken, everything) for taken in result.schedule]
    dull[-1] = ""
    lines_so_far: list[Line] = []
    for (kind, symbol), group in itertools.groupby(zip(dull, single, strict=True), lambda one: (one[0], _symbol(one))):
        several = [line for _, line in group]
        if kind == WRITES:
            lines_so_far.append(replace(several[-1], first=several[0].first))
        elif not kind or len(several) == 1:
            lines_so_far += several
        elif kind == THREAD:
            lines_so_far.append(Line(several[0].first, several[-1].last, kind, symbol, f"{len(several)} instructions"))
        else:
            lines_so_far.append(Line(several[0].first, several[-1].last, kind, "", f"{len(several)} steps that it does not notice"))
    return lines_so_far


def text(result: Result, folded: bool = True, width: int = WIDTH) -> str:
    """The lines as a table of at most so many columns, with what goes wrong below."""
    width = whole(width, "width", 2 * _LEFT)
    right = width - _NUMBER - _LEFT - 1
    printed = [f"{'':{_NUMBER}}{PATCHER:<{_LEFT}} {THREAD}"]
    for line in lines(result, folded):
        number = f"{line.first}" if line.first == line.last else f"{line.first}-{line.last}"
        indent = "" if line.who == PATCHER else " " * _LEFT + " "
        said = f"{line.where}: {line.text}" if line.where else line.text
        wide = _LEFT if line.who == PATCHER else right
        for at, part in enumerate(textwrap.wrap(said, wide, subsequent_indent="  ", break_on_hyphens=False)):
            head = number if not at else ""
            printed.append(f"{head:<{_NUMBER}}{indent}{part}")
    printed += textwrap.wrap(f"=> {result.violation}", width, subsequent_indent="   ", break_on_hyphens=False)
    return "\n".join(printed) + "\n"


def _line(result: Result, number: int, taken: Taken) -> Line:
    who = PATCHER if taken.what == PATCHES else THREAD
    if who == PATCHER:
        return Line(number, number, who, "", _patched(result, taken))
    if taken.what in _SAID:
        return Line(number, number, who, "", _SAID[taken.what].format(result.subject.name_of(result.subject.entry)))
    pc = result.threads_of.locals[taken.at].pc
    shown = decode.at(result.subject.machine.isa, pc, taken.instruction).text
    named = re.sub(r"#?(0xf\w{11,})", lambda found: result.subject.name_of(int(found[1], 16)), shown)
    return Line(number, number, who, result.subject.name_of(pc), named)


def _patched(result: Result, taken: Taken) -> str:
    moment, step = result.threads_of.moments[taken.moment], result.step(taken)
    if isinstance(step, Wait):
        return f"{'begins to wait' if moment.notes else step.sync.kernel}: {step.why}"
    if isinstance(step, Free):
        return f"free: {step.why}"
    if isinstance(step, FixUp):
        return step.why
    if isinstance(step, Write):
        return f"{'begins to write' if moment.during else 'write'} {len(step.data)} B: {step.why}"
    return moment.why


def _dull(result: Result, taken: Taken, met: set[tuple[int, int]]) -> str:
    """The side whose step it is if the other side does not notice it; WRITES for a write that only begins; else "". met: what the
    thread fetches and reads on its way."""
    if taken.what == PATCHES:
        step = result.step(taken)
        if isinstance(step, Write):
            return WRITES if any(overlap(m, (step.address, len(step.data))) for m in met) else PATCHER
        if isinstance(step, Wait) and step.sync.scope is Scope.EVERY_TASK:
            return WRITES
        interrupts = isinstance(step, Wait) and step.sync is not Sync.STOP_MACHINE and not resumes(step)
        return PATCHER if interrupts or isinstance(step, Free) else ""
    if taken.what == INTERRUPTED:
        return PATCHER
    if taken.what != EXECUTES:
        return ""
    return "" if any(map(result.threads_of.concerns, result.threads_of.touched(taken.at, taken.instruction))) else THREAD


def _symbol(one: tuple[str, Line]) -> str:
    """The key by which lines of one kind are folded: a thread's function, or the text of a write without its verb."""
    kind, line = one
    return {THREAD: line.where.partition("+")[0], WRITES: re.sub("^(begins to )?[a-z_]+[ :]", "", line.text)}.get(kind, "")
