"""One thread and the patcher: everything that can happen, and the shortest way to what must not.

Threads write nothing that another one reads, so what one of several can do is what it can do alone: the others only keep the
patcher waiting. The table of a thread's steps that is made here is complete for any number of them.

Reduced, a thread goes on at once through instructions that commute with all that the patcher still does: whatever comes before or
after them, the same states follow. So of the orders in which these could happen one is visited.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model.locals import IDLE
from ..model.moments import COUNTED, EVERYBODY, INSIDE, Moment
from ..model.threads import Threads
from ..model.verdicts import Violation

#: Moment, local, and whether the thread is noted down for a wait.
State = tuple[int, int, bool]
#: Kinds of steps: a call begins, an instruction, an interrupt for which the patcher waits, an exception whose handler calls the
#: function, a thread's sleep, or a step of the patcher's.
CALLS, EXECUTES, INTERRUPTED, NESTS, SLEEPS, PATCHES = "calls", "executes", "interrupted", "nests", "sleeps", "patches"


class Taken(NamedTuple):
    """One step of a schedule.

    moment: the moment at which a thread took it, or to which the patcher's step led.
    at: the thread's local before.
    instruction: the bytes that it executed, if it executed any.
    step: the number of the patcher's step in the plan, -1 where there is none, or it only begins.
    """

    what: str
    moment: int
    at: int
    instruction: bytes = b""
    step: int = -1


class Move(NamedTuple):
    """A transition between two states: its first step, the thread's state after it, the number of steps including those that are
    taken at once with it, and the violation, if it is one."""

    to: State
    first: Taken
    behind: int
    length: int
    wrong: Violation | None


@dataclass
class Automaton:
    """The states of one thread, for every moment of a plan.

    table: state of a thread -> its next states, as (local, noted), or (-1 - its number, False) of a violation.
    carried: (moment, local) -> the states of the same thread when the patcher gets there.
    wrong: the violations.
    worst: the shortest schedule that ends with a violation, and that violation; None if none does.
    states, transitions: how many were visited.
    """

    threads: Threads
    reduced: bool = True
    table: dict[State, tuple[tuple[int, bool], ...]] = field(default_factory=dict)
    carried: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    wrong: list[Violation] = field(default_factory=list)
    worst: tuple[list[Taken], Violation] | None = None
    states: int = 0
    transitions: int = 0
    _ends: dict[int, tuple[int, int]] = field(default_factory=dict)

    def build(self, tick: Callable[[int], None] = lambda states: None, whole: bool = True) -> None:
        """Visit all states, those first that take the fewest steps; without `whole` only until the worst is known. tick: told
        now and then how many there are; may raise to end it."""
        start: State = (0, IDLE, False)
        came: dict[State, tuple[State, Move] | None] = {}
        queue: list[tuple[int, int, State, tuple[State, Move] | None]] = [(0, 0, start, None)]
        pushed = 0
        while queue:
            length, _, state, how = heapq.heappop(queue)
            if self.worst and not whole and length >= len(self.worst[0]):
                break
            if state in came:
                continue
            came[state] = how
            self.states = len(came)
            if self.states % 64 == 0:
                tick(self.states)
            for move in self._moves(state):
                self.transitions += 1
                after = length + move.length
                if move.wrong is not None:
                    if self.worst is None or after < len(self.worst[0]):
                        self.worst = [*self._way(came, state), move.first], move.wrong
                elif move.to not in came:
                    pushed += 1
                    heapq.heappush(queue, (after, pushed, move.to, (state, move)))

    # inside

    def _moves(self, state: State) -> Iterator[Move]:
        moment, at, noted = state
        row = []
        for what, to, still, wrong, instruction in self._steps(state):
            end, more = (to, 0) if wrong else self._on(moment, to, still)
            noted_on = self._still(self.threads.moments[moment], still, end)
            row.append((-1 - self._number(wrong), False) if wrong else (end, noted_on))
            yield Move((moment, end, noted_on), Taken(what, moment, at, instruction), to, 1 + more, wrong)
        self.table[state] = tuple(row)
        for after in () if noted else self.threads.moments[moment].after:
            ahead = self.threads.moments[after]
            if ahead.empty and at != IDLE:
                continue
            to = self.threads.moved(after, at)
            still = self._still(ahead, bool(ahead.notes), to)
            end, more = self._on(after, to, still)
            still = self._still(ahead, still, end)
            self.carried[after, at] = end, still
            step = (ahead.done & ~self.threads.moments[moment].done).bit_length() - 1
            yield Move((after, end, still), Taken(PATCHES, after, at, step=step), to, 1 + more, None)

    def _still(self, current: Moment, noted: bool, at: int) -> bool:
        """Is a thread that was noted down for a wait still waited for?"""
        if current.notes == COUNTED:
            return noted and self.threads.counted(at)
        return noted and (current.notes == EVERYBODY or at != IDLE)

    def _steps(self, state: State) -> Iterator[tuple[str, int, bool, Violation | None, bytes]]:
        """What a thread can do by itself: what, where it is then, whether it is still noted down, what is wrong, the
        instruction."""
        moment, at, noted = state
        threads, current = self.threads, self.threads.moments[moment]
        if current.frozen or (current.stopping and not noted):
            return
        refetched = current.notes == EVERYBODY and not noted
        if at == IDLE:
            yield CALLS, threads.begins(moment, refetched), noted, None, b""
        else:
            for to, wrong, instruction in threads.follow(moment, at, refetched):
                yield EXECUTES, to, self._still(current, noted, to), wrong, instruction
            if (inner := threads.nested(moment, at, refetched)) is not None:
                yield NESTS, inner, noted, None, b""
            if noted and current.notes == INSIDE and threads.sleeps(at):
                yield SLEEPS, at, False, None, b""
        if current.notes == EVERYBODY and noted and not threads.masked(at):
            yield INTERRUPTED, at, False, None, b""

    def _on(self, moment: int, at: int, noted: bool) -> tuple[int, int]:
        """Where a thread is when it has gone through all steps in a row that are alone(), and how many these are."""
        if not self.reduced or self.threads.moments[moment].frozen:
            return at, 0
        end, steps = self._through(at)
        while (step := self._alone(moment, end, noted)) is not None:
            end, more = self._through(step[0])
            steps += 1 + more
        return end, steps

    def _through(self, at: int) -> tuple[int, int]:
        """Where a thread is when it has gone through all steps in a row that are quiet(), and how many these are; worked out
        once."""
        if at not in self._ends:
            end, steps = at, 0
            while (step := self.threads.quiet(end)) is not None:
                end, steps = step[0], steps + 1
            self._ends[at] = end, steps
        return self._ends[at]

    def _alone(self, moment: int, at: int, noted: bool) -> tuple[int, bytes] | None:
        return self.threads.alone(moment, at, noted, self.threads.moments[moment].notes == EVERYBODY and not noted)

    def _way(self, came: dict[State, tuple[State, Move] | None], state: State) -> list[Taken]:
        """The steps by which a state was reached, first one first."""
        moves = []
        while (before := came[state]) is not None:
            state, move = before
            moves.append(move)
        return [taken for move in reversed(moves) for taken in (move.first, *self._taken(move))]

    def _taken(self, move: Move) -> Iterator[Taken]:
        """The steps that a thread takes at once behind the first of a move."""
        (moment, _, noted), at = move.to, move.behind
        for _ in range(move.length - 1):
            step = self._alone(moment, at, noted)
            assert step is not None, "it has gone this way before"
            yield Taken(EXECUTES, moment, at, step[1])
            at = step[0]

    def _number(self, wrong: Violation) -> int:
        if wrong not in self.wrong:
            self.wrong.append(wrong)
        return self.wrong.index(wrong)
