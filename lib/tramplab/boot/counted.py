"""What a booted process writes, as results: instructions per system call with each probe and without, and who was called how
often."""

from __future__ import annotations

import errno
import re
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..isa import Isa
from . import module, plan
from .probes import TRACING, Probe, get
from .qemu import MACHINES

#: Instructions of a turn of the loop that waits for the counter's next unit, see edge() in init/init.c.
_TURN = {"x86_64": 0, "arm64": 4, "riscv64": 3}
#: Error numbers that user space has no name for.
_NAMES = {524: "ENOTSUPP"}
_NEAR = 0.05  # instructions per call within which two blocks say the same


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
    """

    probe: Probe
    measured: Measured | None = None
    refused: list[tuple[str, str]] = field(default_factory=list)
    still: list[tuple[str, str]] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    handlers: int | None = None

    @property
    def hits(self) -> dict[str, float]:
        """What counts -> how much it counts in a call."""
        return {kind: n / plan.READ for kind, n in self.counted.items()}


@dataclass
class Booted:
    """A boot as far as it came: the kernel's words on itself, the loop of three instructions, calls without a probe before and
    after all probes, and a row for each probe."""

    version: str = ""
    loop: float = 0.0
    before: dict[str, Measured] = field(default_factory=dict)
    after: dict[str, Measured] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def added(self, row: Row) -> float | None:
        """Instructions that a probe adds to a call; None where it could not be attached."""
        if row.measured is None or row.refused:
            return None
        return row.measured.instructions - self.before[row.probe.on].instructions


def measured(isa: Isa, line: str, calls: int) -> Measured:
    """A line "counted ...", for so many calls in a block and twice as many in the next.

    >>> from ..isa import get
    >>> measured(get("x86_64"), "counted bc3 0 177b 0", 1000)
    Measured(instructions=3.0, same=1)
    """
    numbers = [int(word, 16) for word in line.split()[1:]]
    unit, turn = MACHINES[isa.name].nanoseconds, _TURN[isa.name]
    taken = [units * unit - turns * turn for units, turns in zip(numbers[::2], numbers[1::2], strict=True)]
    each = [(twice - once) / calls for once, twice in zip(taken[::2], taken[1::2], strict=True)]
    middle = statistics.median(each)
    return Measured(round(middle, 2), sum(abs(one - middle) < _NEAR for one in each))


def read(isa: Isa, lines: Iterable[str], handlers: dict[str, int]) -> Iterator[Booted]:
    """The boot whenever it has come a step further: after each probe, and at the end. handlers: instructions of the module's, by
    name. Raises what the lines raise, when what came before has been given."""
    booted, state, call, code = Booted(), "", "", 0
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "probe":
            booted.rows.append(Row(get(rest)))
            code = 0
        if word in ("version", "loop", "before", "after", "probe", "attached", "read", "called", "removed"):
            if state == "removed":
                yield booted
            state, call = word, rest
        row = booted.rows[-1] if booted.rows else None
        if word == "refused":
            number, _, step = rest.partition(" ")
            said = error(int(number, 16)), step
            where = booted.refused if row is None or state == "after" else row.still if state == "removed" else row.refused
            where.append(said)
        elif word == "code":
            code = module.straight(isa, bytes.fromhex(rest.split()[1]))
        elif word == "counted":
            if state == "loop":
                booted.loop = measured(isa, line, 10 * plan.CALLS).instructions
            elif state in ("before", "after"):
                (booted.before if state == "before" else booted.after)[call] = measured(isa, line, plan.CALLS)
            elif row:
                row.measured = measured(isa, line, plan.CALLS)
                row.handlers = _instructions(row.probe, {**handlers, "program": code})
        elif state == "version" and word == "|":
            booted.version = rest
        elif row and state in ("read", "called") and word in ("|", "hits"):
            _count(row, state, word, rest)
    yield booted


def error(number: int) -> str:
    """The name of an error number."""
    return errno.errorcode.get(number) or _NAMES.get(number, str(number))


def _instructions(probe: Probe, handlers: dict[str, int]) -> int | None:
    """Of one call in the handlers of ours."""
    if not all(part.handlers or not part.each for part in probe.parts) or any(p.hits.startswith(TRACING) for p in probe.parts):
        return None
    return sum(handlers.get(name, 0) for part in probe.parts for name in part.handlers)


def _count(row: Row, state: str, word: str, rest: str) -> None:
    """Take what a counter says into the row: before the calls with a minus, behind them with a plus."""
    sign = 1 if state == "called" else -1
    kinds = {part.hits for part in row.probe.parts}
    if word == "hits":
        programs, events = (int(n, 16) for n in rest.split())
        found = {"programs": programs, "event": events}
    elif found_stat := re.match(r"(entries|overrun): (\d+)", rest):
        # of several buffers the lines follow each other; each has both
        found = {"records": int(found_stat[2])}
    elif re.fullmatch(r"[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ ?", rest):
        found = {"module": int(rest.split(maxsplit=1)[0], 16)}
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
