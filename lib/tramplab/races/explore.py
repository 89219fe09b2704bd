"""Exploring one subject: is there an order of steps that ends badly, and which is the shortest?"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, get_args

from ..base.arguments import seconds as span
from ..base.arguments import switch, whole, wholes
from ..base.errors import TramplabError
from .model.executions import Executions
from .model.fetches import STALE, Fetches
from .model.moments import ORDERED
from .model.plan import moments
from .model.threads import Threads
from .model.verdicts import Violation
from .search.automaton import Automaton, Taken
from .search.rows import rows
from .search.search import ALL_SEEN, LARGEST, MOST_THREADS, WRONG, search
from .subject import Planned, Subject

#: Threads, states and seconds, by default.
THREADS, MOST_STATES, SECONDS = 3, 20_000_000, 60.0
Verdict = Literal["safe", "unsafe", "not decided"]
SAFE, UNSAFE, NOT_DECIDED = get_args(Verdict)


class _Late(Exception):
    """Raised when the time is over."""


@dataclass(frozen=True)
class Result:
    """The result of one exploration.

    verdict: SAFE, UNSAFE or NOT_DECIDED.
    violation, schedule: what goes wrong, and the fewest steps that lead there.
    states, transitions: of all threads together; of one thread where it is unsafe, as one is enough for that.
    limit: the limit that ended the search, "" for none.
    seconds: the time it took, which no file keeps.
    threads_of: the automaton that the steps refer to.
    """

    subject: Subject
    threads: int
    fetch: str
    data: str
    verdict: str
    violation: Violation | None
    schedule: tuple[Taken, ...]
    states: int
    transitions: int
    limit: str
    seconds: float
    threads_of: Threads

    @property
    def outcome(self) -> str:
        """The property that is violated, or the verdict where none is."""
        return self.violation.which if self.violation else self.verdict

    def step(self, taken: Taken) -> Planned | None:
        """The step of the plan that the patcher takes, or begins; None for what only happens."""
        moment = self.threads_of.moments[taken.moment]
        return self.subject.steps[taken.step] if moment.step is None and taken.step >= 0 else moment.step


def explore(
    subject: Subject,
    threads: int = THREADS,
    fetch: str = STALE,
    dropped: Collection[int] = (),
    data: str = ORDERED,
    reduced: bool = True,
    most: int = MOST_STATES,
    seconds: float = SECONDS,
    tick: Callable[[int], None] = lambda states: None,
    executions: Executions | None = None,
) -> Result:
    """Every interleaving of so many threads with a subject's plan. dropped: numbers of steps that are left out. data: one of
    moments.DATA, the order in which CPUs see the patcher's stores. reduced: leave out what commutes, which changes no verdict.
    most, seconds: after so many states, or so long, it is not decided. tick: told now and then how many states there are. Raises
    TramplabError for an unknown model, too many threads, a number that is none, or a step that is not modelled."""
    began = time.monotonic()
    threads, reduced, most = allowed(threads), switch(reduced, "reduced"), whole(most, "most", 1, LARGEST)
    seconds, dropped = span(seconds, "seconds"), wholes(dropped, "dropped", 0, len(subject.steps) - 1)

    def tell(states: int) -> None:
        tick(states)
        if time.monotonic() - began > seconds:
            raise _Late

    when = moments(subject.machine.isa.name, subject.steps, subject.preemptible, subject.vector is not None, dropped, data)
    executions = executions or Executions(subject)
    one = Automaton(Threads(executions, when, Fetches(executions, when, fetch), data != ORDERED), reduced)
    try:
        verdict, states, transitions, limit = _decided(one, threads, most, reduced, tell)
    except _Late:
        verdict, states, transitions, limit = NOT_DECIDED, one.states, one.transitions, f"{seconds:g} s"
    finally:
        executions.restore()
    schedule, violation = one.worst or ([], None)
    path, took = tuple(schedule), time.monotonic() - began
    return Result(subject, threads, fetch, data, verdict, violation, path, states, transitions, limit, took, one.threads)


def _decided(
    one: Automaton, threads: int, most: int, reduced: bool, tell: Callable[[int], None]
) -> tuple[Verdict, int, int, str]:
    """The verdict, states, transitions, and the limit that ended the search."""
    one.build(tell, whole=not reduced)
    if one.worst and reduced:
        return UNSAFE, one.states, one.transitions, ""  # the others may as well stay out of it
    searched = search(rows(one), threads, most, reduced, tell)
    verdict: Verdict = {ALL_SEEN: SAFE, WRONG: UNSAFE}.get(searched.how, NOT_DECIDED)
    return verdict, searched.states, searched.transitions, f"{most} states" if verdict == NOT_DECIDED else ""


def allowed(threads: int) -> int:
    """A number of threads; raises TramplabError for too many, or none."""
    threads = whole(threads, "threads")
    if not 1 <= threads <= MOST_THREADS:
        raise TramplabError(f"there are 1 to {MOST_THREADS} threads, not {threads}.")
    return threads
