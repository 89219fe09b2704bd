"""Replay of a call on a return stack: which returns a core would mispredict, and which returns of its callers.

The model. A core keeps the last `entries` return addresses in a circular buffer. A call pushes; when the buffer is full
the oldest entry is lost. A return is predicted to go where the top entry says and pops it; it is mispredicted if it goes
elsewhere. Where no entry is left, a core that has its stack `checked` predicts nothing and misses; one that has not goes
round the buffer and predicts what it last held there. Nothing repairs the stack after a misprediction: entries that are
one off stay so. What pushes and pops is the ISA's rule (see links/).

What is counted, per call. The traced function is called at the end of a chain of callers, each of which has its return
address on the stack; the call is made; then the callers return, innermost first, without calling anything else. `own`
are the mispredicted returns of the call itself, from the traced function's first instruction to its return; `outer` those
of its callers. A return without a call (or a call without a return) shifts the stack, and then every caller's return is
mispredicted: `outer` grows with the length of the chain, which is why the two are kept apart.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..base.arguments import switch, whole
from ..emulate.decode import Instruction
from ..isa import Isa
from ..lab.call import RecordedCall
from ..lab.run import Run
from .links import NOTHING, Link, arm64, riscv64, x86_64

_RULES = {
    name: functools.lru_cache(1 << 14)(module.link)
    for name, module in (("x86_64", x86_64), ("arm64", arm64), ("riscv64", riscv64))
}

#: Entries where no core is chosen, and callers above the traced function. Every core with an own file but the smallest
#: in-order ones has at least 16.
ENTRIES, CALLERS = 16, 8
#: Entries, or callers, at most: no core has as many.
MOST = 1 << 12


#: A call holds its kernel, so nothing but the call's owner may keep it.
_EVENTS: weakref.WeakKeyDictionary[RecordedCall, tuple[Event, ...]] = weakref.WeakKeyDictionary()


def pushes(isa: Isa, instruction: Instruction) -> bool:
    """Is an instruction a call, as a return stack sees it?"""
    behind = instruction.address + instruction.size
    return _RULES[isa.name](instruction.mnemonic, instruction.operands, behind).pushes


@dataclass(frozen=True)
class Miss:
    """A mispredicted return: which step it is (None: one of the callers'), where it lies, what the stack said (None: it was
    empty), where it went. Addresses are symbol+offset."""

    step: int | None
    place: str
    predicted: str | None
    actual: str


@dataclass(frozen=True)
class ReturnStackResult:
    """The counts of a replay; see the module's own text for `own` and `outer`."""

    own: int
    outer: int
    callers: int
    entries: int
    where: tuple[Miss, ...]


class Event(NamedTuple):
    """One step that uses the return stack: its index, what it does, the address behind it and where execution went."""

    step: int
    link: Link
    behind: int
    went: int


class Stack:
    """The circular buffer. checked: an empty one is noticed; else it goes round to what it held before."""

    def __init__(self, entries: int, checked: bool = True) -> None:
        self._entries: list[int | None] = [None] * entries
        self._checked = checked
        self._top = self._valid = 0

    def push(self, address: int) -> None:
        """A call: where it returns to, over the oldest entry if the stack is full."""
        self._top = (self._top + 1) % len(self._entries)
        self._entries[self._top] = address
        self._valid = min(self._valid + 1, len(self._entries))

    def pop(self) -> int | None:
        """The predicted address; None if there is none."""
        if self._checked and not self._valid:
            return None
        address = self._entries[self._top]
        self._top = (self._top - 1) % len(self._entries)
        self._valid = max(self._valid - 1, 0)
        return address

    def state(self) -> tuple[int, int, tuple[int | None, ...]]:
        """All that decides what it says from now on."""
        return self._top, self._valid, tuple(self._entries)


def events(call: RecordedCall) -> tuple[Event, ...]:
    """The steps of a call that push or pop, in order; found once, and kept as long as the call."""
    if call not in _EVENTS:
        _EVENTS[call] = _events(call)
    return _EVENTS[call]


def _events(call: RecordedCall) -> tuple[Event, ...]:
    rule = _RULES[call.isa.name]
    links = {pc: rule(i.mnemonic, i.operands, pc + i.size) for pc, i in call.instructions.items()}
    used = {pc: (link, pc + call.instructions[pc].size) for pc, link in links.items() if link != NOTHING}
    steps = np.flatnonzero(call.recording.each(used.__contains__))
    at, went = (
        call.recording.pc[steps].tolist(),
        np.append(call.recording.pc[1:], np.uint64(call.returns_to))[steps].tolist(),
    )
    return tuple([Event(n, *used[pc], to) for n, pc, to in zip(steps.tolist(), at, went, strict=True)])


def play(stack: Stack, happened: Iterable[Event]) -> list[tuple[Event, int | None]]:
    """Push and pop; returns the mispredicted returns with what the stack had said."""
    missed = []
    for e in happened:
        if e.link.pops:
            predicted = stack.pop()
            if predicted != e.went:
                missed.append((e, predicted))
        if e.link.pushes:
            stack.push(e.behind)
    return missed


def replay(run: Run | RecordedCall, entries: int = ENTRIES, callers: int = CALLERS, checked: bool = True) -> ReturnStackResult:
    """Replay one call below a chain of callers; see the module's own text for what is counted."""
    entries, callers, checked = whole(entries, "entries", 1, MOST), whole(callers, "callers", 0, MOST), switch(checked, "checked")
    call = RecordedCall.of(run)
    chain, stack = _chain(callers), Stack(entries, checked)
    for address in (*chain, call.returns_to):
        stack.push(address)
    where = [
        Miss(
            e.step,
            call.where(int(call.recording.pc[e.step])),
            None if predicted is None else _named(call, chain, predicted),
            _named(call, chain, e.went),
        )
        for e, predicted in play(stack, events(call))
    ]
    first = len(where)
    for actual in reversed(chain):
        predicted = stack.pop()
        if predicted != actual:
            name = _named(call, chain, actual)
            named = None if predicted is None else _named(call, chain, predicted)
            where.append(Miss(None, f"the return to {name}", named, name))
    return ReturnStackResult(first, len(where) - first, callers, entries, tuple(where))


def steady(call: RecordedCall, entries: int, checked: bool) -> Iterator[frozenset[int]]:
    """The call made over and over by one loop: per repetition, without end, the steps whose return is mispredicted."""
    stack, happened = Stack(entries, checked), events(call)
    for address in _chain(entries):
        stack.push(address)
    before = None
    while (now := stack.state()) != before:
        stack.push(call.returns_to)
        missed = frozenset(e.step for e, _ in play(stack, happened))
        before = now
        yield missed
    yield from itertools.repeat(missed)  # each repetition leaves the stack as it found it


def settled(run: Run | RecordedCall, entries: int = ENTRIES, checked: bool = True) -> int:
    """Mispredicted returns per call when one loop makes the call over and over, as a native measurement does.

    Unlike replay(), no caller returns: what is counted is what a counter of mispredicted branches shows.
    """
    entries, checked = whole(entries, "entries", 1, MOST), switch(checked, "checked")
    rounds = list(itertools.islice(steady(RecordedCall.of(run), entries, checked), 4 * entries))
    return len(rounds[-1])


def _chain(callers: int) -> list[int]:
    """Return addresses into callers, outermost first; no code is there."""
    return [-1 - n for n in reversed(range(callers))]


def _named(call: RecordedCall, chain: list[int], address: int) -> str:
    return f"caller {-address}" if address in chain else call.where(address)
