"""What a booted process writes, as results: instructions per system call with each probe and without, and who was called how
often."""

from __future__ import annotations

import re
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..base.errors import TramplabError
from ..isa import Isa
from . import module, plan, protocol
from .probes import TRACING, Probe
from .protocol import Line
from .qemu import MACHINES

#: Instructions of a turn of the loop that waits for the counter's next unit, see edge() in init/counting.h.
_TURN = {"x86_64": 0, "arm64": 4, "riscv64": 3}
_NEAR = 0.05  # instructions per call within which two blocks say the same
_WORDS = 5  # of the kernel on a module that it refuses


@dataclass(frozen=True)
class Measured:
    """Instructions per call: the median over pairs of blocks, and how many pairs say the same."""

    instructions: float
    same: int


@dataclass
class Row:
    """What came of one probe.

    refused: (error, step) of each step that the kernel refused while it was attached, and still: while it was removed.
    counted: what counts -> how much it counted in READ calls.
    handlers: instructions of a call in handlers of ours; None where others' handlers run.
    again: the call when the probe has been removed.
    absent: why it was not tried, "" where it was.
    """

    probe: Probe
    measured: Measured | None = None
    refused: list[tuple[str, str]] = field(default_factory=list)
    still: list[tuple[str, str]] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    handlers: int | None = None
    again: Measured | None = None
    absent: str = ""

    @property
    def hits(self) -> dict[str, float]:
        """What counts -> how much it counts in a call."""
        return {kind: n / plan.READ for kind, n in self.counted.items()}


@dataclass
class Booted:
    """A boot as far as it came: the kernel's words on itself, the loop of three instructions, calls without a probe before and
    after all probes, and a row for each probe.

    refused: (error, step) of each module that the kernel did not load. words: what it wrote on them.
    """

    version: str = ""
    loop: float = 0.0
    before: dict[str, Measured] = field(default_factory=dict)
    after: dict[str, Measured] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def added(self, row: Row) -> float | None:
        """Instructions that a probe adds to a call; None where it could not be attached."""
        if row.measured is None or row.refused or row.absent:
            return None
        return row.measured.instructions - self.before[row.probe.on].instructions

    def left(self, row: Row) -> float:
        """Instructions that a call executes more when the probe has been removed than before the first one."""
        return row.again.instructions - self.before[row.probe.on].instructions if row.again else 0.0


def measured(isa: Isa, line: Line, calls: int) -> Measured:
    """A line "counted ...", for so many calls in a block and twice as many in the next.

    >>> from ..isa import get
    >>> measured(get("x86_64"), protocol.line("counted bc3 0 177b 0"), 1000)
    Measured(instructions=3.0, same=1)
    """
    unit, turn = MACHINES[isa.name].nanoseconds, _TURN[isa.name]
    taken = [units * unit - turns * turn for units, turns in zip(line.numbers[::2], line.numbers[1::2], strict=True)]
    each = [(twice - once) / calls for once, twice in zip(taken[::2], taken[1::2], strict=True)]
    middle = statistics.median(each)
    return Measured(round(middle, 2), sum(abs(one - middle) < _NEAR for one in each))


def require_all(text: str, line: Line) -> None:
    """Raises TramplabError for a line "counted ..." that has not all blocks of the plan."""
    if len(line.numbers) != 4 * plan.BLOCKS:
        raise protocol.damaged(text)


def read(isa: Isa, lines: Iterable[str], handlers: Mapping[str, int], rows: Sequence[Row]) -> Iterator[Booted]:
    """The boot whenever it is a step further: after each probe, and at the end. handlers: instructions of the module's, by name.
    rows: of the plan, to be filled in, and of absent probes. Raises what the lines raise, and TramplabError where one is damaged
    or lacks."""
    booted, left, known, state, call = Booted(), deque(rows), dict(handlers), "", ""
    for text in lines:
        line = protocol.line(text)
        row = booted.rows[-1] if booted.rows else None
        if line.word in _STATES:
            state, call = line.word, line.rest
            if state == "probe":
                _begin(booted, left, text, call)
                known.pop("program", None)
            elif call not in (plan.FUNCTIONS if state in ("before", "after") else ("",)):
                raise protocol.damaged(text)
        elif line.word == "refused":
            where = booted.refused if row is None else row.refused if state in _ATTACHED else row.still
            where.append(line.refusal)
        elif line.word == "code":
            known |= _program(isa, text, line)
        elif line.word == "counted":
            require_all(text, line)
            count = measured(isa, line, 10 * plan.CALLS if state == "loop" else plan.CALLS)
            if state == "loop":
                booted.loop = count.instructions
            elif state in ("before", "after"):
                (booted.before if state == "before" else booted.after)[call] = count
            elif row and state == "again":
                row.again = count
                yield booted
            elif row:
                row.measured, row.handlers = count, _instructions(row.probe, known)
        elif state == "version" and line.word == "|":
            booted.version = line.rest
        elif state == "modules" and text and len(booted.words) < _WORDS:
            booted.words.append(text)
        elif row and state in ("read", "called") and line.word in ("|", "hits"):
            _count(row, state, line)
    _end(booted, left)
    yield booted


def _end(booted: Booted, left: deque[Row]) -> None:
    """Have the rows of absent probes that come last. Raises TramplabError where the lines ended before the last count."""
    booted.rows += _absent(left)
    lacking = [row.probe.name for row in (*booted.rows, *left) if not (row.absent or (row.measured and row.again))]
    if lacking:
        raise protocol.lacks("the count of " + (f"{lacking[0]} and {len(lacking) - 1} more" if lacking[1:] else lacking[0]))
    if not (booted.version and booted.loop and booted.before.keys() == booted.after.keys() != set()):
        raise protocol.lacks("the count of a call without a probe")


#: What the plan has the process say before what follows: of a probe until it is removed, and else.
_ATTACHED = ("probe", "attached", "read", "called")
_STATES = ("version", "modules", "measured", "loop", "before", "after", *_ATTACHED, "removed", "again")


def _begin(booted: Booted, left: deque[Row], text: str, name: str) -> None:
    """Have the row of the probe that comes next, and of absent ones before it. Raises TramplabError where this is not its name."""
    booted.rows += _absent(left)
    if not left or left[0].probe.name != name or left[0].probe.on not in booted.before:
        raise protocol.damaged(text)
    booted.rows.append(row := left.popleft())
    row.absent = _without_module(row.probe, booted)


def _without_module(probe: Probe, booted: Booted) -> str:
    refused = any(step.endswith(plan.MODULE) for _, step in booted.refused)
    return "the kernel refused our module" if refused and any(part.hits == "module" for part in probe.parts) else ""


def _absent(left: deque[Row]) -> list[Row]:
    """The absent ones that come next."""
    out = []
    while left and left[0].absent:
        out.append(left.popleft())
    return out


def _program(isa: Isa, text: str, line: Line) -> dict[str, int]:
    """The instructions of a BPF program, by the name of its handler; nothing where it has no machine code."""
    try:
        return {"program": module.straight(isa, bytes.fromhex(line.rest.split()[1]))} if " " in line.rest else {}
    except TramplabError:
        raise protocol.damaged(text) from None


def _instructions(probe: Probe, handlers: Mapping[str, int]) -> int | None:
    """Of one call in the handlers of ours."""
    if not all(part.handlers or not part.each for part in probe.parts) or any(p.hits.startswith(TRACING) for p in probe.parts):
        return None
    names = [name for part in probe.parts for name in part.handlers]
    return sum(handlers[name] for name in names) if all(name in handlers for name in names) else None


def _count(row: Row, state: str, line: Line) -> None:
    """Take what a counter says into the row: before the calls with a minus, after them with a plus."""
    sign = 1 if state == "called" else -1
    kinds = {part.hits for part in row.probe.parts}
    if line.word == "hits":
        found = line.named
    elif found_stat := re.match(r"(entries|overrun): (\d{1,18})", line.rest):
        # of several buffers the lines follow each other; each has both
        found = {"records": int(found_stat[2])}
    elif re.fullmatch(module.COUNTERS, line.rest):
        found = {"module": line.named["called"]}
    else:
        return
    for kind, number in found.items():
        if kind in kinds or kind == "records":
            row.counted[kind] = row.counted.get(kind, 0) + sign * number


def expected(probe: Probe) -> dict[str, int]:
    """What counts -> how much it should count in a call."""
    out: dict[str, int] = {}
    for part in probe.parts:
        kind = "records" if part.hits.startswith(TRACING) else part.hits
        out[kind] = out.get(kind, 0) + part.each
    return out


def whole(value: float) -> float:
    """As it is saved: an integer where it is one."""
    return int(value) if value == int(value) else round(value, 2)
