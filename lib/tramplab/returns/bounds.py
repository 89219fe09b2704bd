"""How many calls can be on their way at once until one is not seen returning: found by trying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.arguments import whole
from ..ftrace.ops import Request
from ..lab.kernel import Kernel
from .nest import Nested, nest
from .tasks import StackEnded

#: What ends the growth: a call is not seen returning; a task's own stack has no room for the next call; nothing, up to the limit.
MISSED, STACK, NOTHING = "missed", "stack", "nothing"


@dataclass(frozen=True)
class Bound:
    """The largest number of calls of which all are seen returning.

    most: that number; with one call more, `ends` happens.
    beyond: that run, None where a stack ended it or nothing did.
    """

    most: int
    ends: str
    beyond: Nested | None = None


class Bounds:
    """The bounds of one probe.

    kernel: makes a kernel, which is used again until a stack has ended in it.
    request: makes the probe.
    beside: makes further probes on the same function.
    """

    def __init__(
        self, kernel: Callable[[], Kernel], request: Callable[[], Request], beside: Callable[[], tuple[Request, ...]] = tuple
    ) -> None:
        self._make, self._request, self._beside = kernel, request, beside
        self._kernel: Kernel | None = None
        self._tried: dict[tuple[int, int], Nested | StackEnded] = {}

    def run(self, tasks: int, depth: int) -> Nested | None:
        """Run this many tasks with calls nested this deep, all in progress at once; None where a task's stack ends first."""
        run = self._run(tasks, depth)
        return None if isinstance(run, StackEnded) else run

    def _run(self, tasks: int, depth: int) -> Nested | StackEnded:
        if (tasks, depth) not in self._tried:
            self._kernel = self._kernel or self._make()
            try:
                self._tried[tasks, depth] = nest(self._kernel, self._request(), tasks, depth, self._beside())
            except StackEnded as ended:
                self._kernel, self._tried[tasks, depth] = None, ended
        return self._tried[tasks, depth]

    def depth(self, limit: int, tasks: int = 1, guess: int = 1) -> Bound:
        """The bound of how deep the calls of each of so many tasks can be, up to a limit. guess: the depth that is tried first."""
        tasks, guess = whole(tasks, "tasks", 1), whole(guess, "guess")
        return self._bound(limit, lambda n: self._run(tasks, n), guess)

    def tasks(self, limit: int, depth: int = 1) -> Bound:
        """The bound of how many tasks can be in calls so deep, up to a limit."""
        depth = whole(depth, "depth", 1)
        return self._bound(limit, lambda n: self._run(n, depth))

    def _bound(self, limit: int, tried: Callable[[int], Nested | StackEnded], first: int = 1) -> Bound:
        """The largest number with which all is seen: more is never less of a problem. Steps double up to the first run that is not
        all seen; how many that one saw is tried next, and one more. As a rule that is the bound, else halving finds it."""
        limit = whole(limit, "limit", 1)
        good, bad, step, guess = 0, limit + 1, 1, 0
        n = min(max(first, 1), limit)
        beyond: Nested | None = None
        ends = NOTHING
        while bad - good > 1:
            run = tried(n)
            if isinstance(run, StackEnded):
                bad, beyond, ends, guess = n, None, STACK, run.depth
            elif run.counted.seen < run.calls:
                bad, beyond, ends, guess = n, run, MISSED, run.counted.seen * n // run.calls
            else:
                good = n
            if ends == NOTHING:
                n = min(good + step, limit)
            elif good <= guess < bad:
                n = max(guess, good + 1)
            else:
                n = (good + bad) // 2
            step *= 2
        return Bound(good, ends, beyond)
