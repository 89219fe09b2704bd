"""A schedule as two walks to step through side by side, the patcher's and the thread's; lab/reading/walk.py has their form."""

from __future__ import annotations

import abc
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..base.errors import TramplabError
from ..emulate import decode
from ..ftrace.steps import Write
from ..lab.reading.wording import Wording
from .explore import Result
from .model.locals import IDLE, Local
from .schedule import PATCHER, THREAD, Line, lines
from .search.automaton import CALLS, EXECUTES, PATCHES
from .subject import overlap

#: Both walks begin here, before anything has happened; then comes a milestone for each stretch of steps of one side.
START = "start"
_BEFORE = {PATCHER: ("nothing done yet", PATCHER), THREAD: ("elsewhere", "caller")}
_WORD = 8


def strips(result: Result) -> list[dict[str, Any]]:
    """The patcher's walk and the thread's. Both have all milestones, START and then the side and the number of the first step of
    each stretch, such as "thread-15"; where a stretch is the other side's, a walk has no steps in it.

    The thread's registers are those of the ISA, and memory on its stack; of other memory it has what it read first. The
    patcher's memory is what the thread fetches or reads on its way: instructions, or words. shown: registers that are shown also
    if they never change, as the last instruction uses them. """
    all_lines, say = lines(result, folded=False), _wording(result)
    made = {PATCHER: _Patcher(result, say), THREAD: _Thread(result, say)}
    marks: dict[str, dict[str, int]] = {who: {START: 0} for who in made}
    for who, stretch in itertools.groupby(all_lines, lambda line: line.who):
        some = list(stretch)
        for other, side in made.items():
            marks[other][f"{who}-{some[0].first}"] = len(side.steps)
        for line in some:
            made[who].take(line)
    names = {PATCHER: "what it writes", THREAD: f"calls {result.subject.name_of(result.subject.entry)}"}
    return [
        {
            "isa": who,
            "sp": side.sp,
            "config": names[who],
            "call": names[who],
            "symbols": [list(symbol) for symbol in side.symbols],
            "code": side.code,
            "registers": side.registers,
            "shown": side.shown,
            "memory": side.memory,
            "fields": {},
            "steps": side.steps,
            "milestones": marks[who],
        }
        for who, side in made.items()
    ]


class _Side(abc.ABC):
    """A walk that is being built. sp: its stack pointer's name, "" for none. say: formats values for it."""

    sp = ""

    def __init__(self, result: Result, who: str, say: Wording) -> None:
        self.result, self.subject, self.say = result, result.subject, say
        self.symbols: list[tuple[str, str]] = []
        self.code: list[list[Any]] = []
        self.steps: list[list[Any]] = []
        self.registers: dict[str, str] = {}
        self.shown: list[str] = []
        self.memory: dict[str, str] = {}
        text, symbol = _BEFORE[who]
        self.add(symbol, symbol, 0, text)

    def add(
        self, symbol: str, component: str, offset: int, text: str, changed: Any = (), stores: Any = (), loads: Any = ()
    ) -> None:
        """Add a step to the walk."""
        if (symbol, component) not in self.symbols:
            self.symbols.append((symbol, component))
        self.steps.append([len(self.code), dict(changed), dict(stores), list(loads)])
        self.code.append([self.symbols.index((symbol, component)), offset, text])

    @abc.abstractmethod
    def take(self, line: Line) -> None:
        """Add the step of a schedule's line."""


@dataclass(frozen=True)
class _Place:
    """Memory that the plan writes and the thread meets: its name, and whether it is code (text)."""

    address: int
    size: int
    name: str
    text: bool


class _Patcher(_Side):
    def __init__(self, result: Result, say: Wording) -> None:
        super().__init__(result, PATCHER, say)
        self._places = list(_met(result, say))
        self.memory = {p.name: self._holds(p, 0) for p in self._places}

    def take(self, line: Line) -> None:
        taken = self.result.schedule[line.first - 1]
        moment = self.result.threads_of.moments[taken.moment]
        step, stores = self.result.step(taken), {}
        if isinstance(step, Write) and moment.during is None:
            written = step.address, len(step.data)
            some = [p for p in self._places if overlap((p.address, p.size), written)]
            stores = {p.name: self._holds(p, moment.done) for p in some}
        self.add(PATCHER, PATCHER, 0, line.text, stores=stores)

    def _holds(self, place: _Place, done: int) -> str:
        data = self.result.threads_of.executions.held(place.address, place.size, done)
        if not place.text:
            return self.say.value(int.from_bytes(data, "little"))
        found, at = [], 0
        while at < place.size:
            try:
                instruction = decode.at(self.subject.machine.isa, place.address + at, data[at:])
            except TramplabError:  # x86-64 writes parts of instructions
                return data.hex()
            found.append(self.say.instruction(instruction.text, place.address + at))
            at += instruction.size
        return "; ".join(found)


class _Thread(_Side):
    def __init__(self, result: Result, say: Wording) -> None:
        super().__init__(result, THREAD, say)
        self.sp = self.subject.machine.isa.sp
        self._names = self.subject.machine.isa.registers
        start = result.threads_of.executions.start
        self.registers = {n: self.say.value(v) for n, v in zip(self._names, start, strict=False)}

    def take(self, line: Line) -> None:
        number = line.first - 1
        taken, schedule = self.result.schedule[number], self.result.schedule
        if taken.what == CALLS:
            self.add("caller", "caller", 0, f"calls {self.subject.name_of(self.subject.entry)}")
            return
        before = self.result.threads_of.locals[taken.at]
        symbol, _, offset = self.subject.name_of(before.pc).partition("+")
        text = line.text if taken.what != EXECUTES else self._text(before.pc, taken.instruction)
        self.shown = [r for r in self._names if re.search(rf"\b{r}\b", text)]
        behind = schedule[number + 1].at if number + 1 < len(schedule) else IDLE
        changed, stores = {}, {}
        if behind != IDLE:
            after = self.result.threads_of.locals[behind]
            pairs = zip(self._names, before.registers, after.registers, strict=False)
            changed = {n: self.say.value(new) for n, old, new in pairs if old != new}
            stores = self._stored(before, after)
        self.add(symbol, self._component(before.pc), int(offset or "0", 16), text, changed, stores, self._read(number))

    def _text(self, pc: int, instruction: bytes) -> str:
        return self.say.instruction(decode.at(self.subject.machine.isa, pc, instruction).text, pc)

    def _stored(self, before: Local, after: Local) -> dict[str, str]:
        held = dict(before.memory)
        return {self.say.place(a, _WORD): self.say.value(v) for a, v in after.memory if held.get(a) != v}

    def _read(self, number: int) -> list[str]:
        """The places that an instruction reads; what is in them at first is noted where it is not the thread's own."""
        taken = self.result.schedule[number]
        if taken.what != EXECUTES:
            return []
        places, stack = [], self.subject.machine.stack
        for address, size in sorted(self.result.threads_of.executions.read(taken.at, taken.instruction)):
            name = self.say.place(address, size)
            places.append(name)
            if not stack.address <= address < stack.address + stack.size:
                done = self.result.threads_of.moments[taken.moment].done
                data = self.result.threads_of.executions.held(address, size, done)
                self.memory.setdefault(name, self.say.value(int.from_bytes(data, "little")))
        return places

    def _component(self, pc: int) -> str:
        subject = self.subject
        if subject.entry <= pc < subject.body:
            return "site"
        return subject.machine.image.component_at(pc) or "trampoline"


def _met(result: Result, say: Wording) -> Iterator[_Place]:
    """What of the plan's writes the thread fetches or reads in this schedule, once each."""
    executed = [t for t in result.schedule if t.what == EXECUTES]
    met = {place for t in executed for place in result.threads_of.touched(t.at, t.instruction)}
    seen_places = set()
    for taken in result.schedule:
        step = result.step(taken)
        if taken.what != PATCHES or not isinstance(step, Write):
            continue
        end = step.address + len(step.data)
        most = _WORD if step.text else len(step.data)  # of code a line has a pair of instructions, which fits
        for at in range(step.address, end, most):
            place = at, min(most, end - at)
            if place not in seen_places and any(overlap(m, place) for m in met):
                seen_places.add(place)
                yield _Place(*place, say.place(*place), step.text)


def _wording(result: Result) -> Wording:
    """How values are written: registers that carry nothing by their names, ops by theirs."""
    subject, executions = result.subject, result.threads_of.executions
    isa = subject.machine.isa
    start = dict(zip(isa.registers, executions.start, strict=False))
    kept = {v: n for n, v in start.items() if n not in {isa.sp, isa.link, *subject.call.registers} or n in isa.callee_saved}
    executed = [(result.threads_of.locals[t.at].pc, len(t.instruction)) for t in result.schedule if t.what == EXECUTES]
    return Wording(
        top=start[isa.sp],
        old=kept,
        names={subject.machine.return_to: "caller"} | {o.address: f"ops {o.name}" for o in subject.ops},
        met={place for pc, size in executed for place in (pc, pc + size)} | subject.targets,
        name_of=lambda address: found if "+" in (found := subject.name_of(address)) or not found.startswith("0x") else None,
        is_text=subject.machine.is_text,
    )
