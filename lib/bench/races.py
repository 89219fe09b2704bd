"""How fast races are explored, and how SPIN does with models of the same schemes: `make bench`, or `python -m bench races`.

Both decide whether anything bad can happen, with three threads, from nothing: the explorer makes its kernels and plans, executes
the threads' machine code and searches; SPIN generates a checker for each model, which is compiled and searches with partial-order
reduction. They do not visit the same states: the explorer takes threads that change places for the same, and may, as they are.
"""

from __future__ import annotations

import functools
import resource
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tramplab.races.explore import NOT_DECIDED, explore
from tramplab.races.schemes.schemes import SCHEMES

from .spin import Checker, missing

THREADS = 3
#: The scheme with most states for a few threads, and how many of them are visited where nothing is left out.
LARGEST, STATES = "arm64-call-ops", 5_000_000
#: Seconds of one search, and of all of them: the rest of ten minutes is for what `make bench` measures besides.
LONGEST, BUDGET = 10, 240


def unreduced() -> float:
    """States per second of all threads' steps one by one, execution of their code included."""
    found = explore(SCHEMES[LARGEST].subject(), THREADS, SCHEMES[LARGEST].fetch, reduced=False, most=STATES)
    return found.states / found.seconds


@dataclass
class Timed:
    """What was decided of schemes: verdicts and seconds of a processor by their names, and which searches did not end."""

    verdicts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def said(self) -> str:
        """The seconds of those that ended, and which did not."""
        left = f"; not decided in {LONGEST} s each: {', '.join(self.open)}" if self.open else ""
        return f"{sum(self.seconds.values()):.2f} s for {len(self.seconds)} schemes{left}"


def explored(threads: int, end: float) -> Timed:
    """Every scheme by the explorer, up to a moment of the clock."""
    found = Timed()
    for name, scheme in SCHEMES.items():
        left, start = end - time.perf_counter(), time.process_time()
        if left <= 0:
            found.open.append(name)
            continue
        result = explore(scheme.subject(), threads, scheme.fetch, seconds=min(LONGEST, left))
        if result.verdict == NOT_DECIDED:
            found.open.append(name)
        else:
            found.verdicts[name], found.seconds[name] = result.verdict, time.process_time() - start
    return found


def searched(end: float) -> tuple[Timed, Timed]:
    """The same by SPIN with THREADS: making the checkers, and their searches."""
    making, running = Timed(), Timed()
    for name, scheme in SCHEMES.items():
        with tempfile.TemporaryDirectory() as folder:
            if time.perf_counter() >= end:
                running.open.append(name)
                continue
            start = _of_children()
            built = Checker(name, Path(folder), ("-O2", "-DCOLLAPSE"))
            made, left = _of_children(), end - time.perf_counter()
            making.seconds[name] = made - start
            try:
                bad = built.check(scheme.fetch, threads=THREADS, first=True, seconds=max(1, min(LONGEST, left))).bad
            except TimeoutError:
                running.open.append(name)
            else:
                running.verdicts[name], running.seconds[name] = "unsafe" if bad else "safe", _of_children() - made
    return making, running


def _of_children() -> float:
    """Seconds of a processor that the processes have had which this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak(of: int) -> float:
    """MiB that this process, or the largest of those that it has started, has had at most."""
    return resource.getrusage(of).ru_maxrss / 1024


def main(budget: float = BUDGET) -> None:
    """Measure and print, each line when it is known; takes at most as many seconds, and those of what it is in the middle of."""
    end = time.perf_counter() + budget
    say = functools.partial(print, flush=True)
    explore(SCHEMES[LARGEST].subject(), 1)  # what is compiled once for all
    found = explored(THREADS, end)
    say(f"explorer, {THREADS} threads: {found.said()}")
    say(f"explorer, {THREADS + 1} threads: {explored(THREADS + 1, end).said()}")
    say(f"  {LARGEST} without reduction, {THREADS} threads: {unreduced() / 1e3:.0f} thousand states/s")
    say(f"  peak memory: {peak(resource.RUSAGE_SELF):.0f} MiB")
    if program := missing():
        say(f"SPIN: not measured (no {program})")
        return
    making, running = searched(end)
    both = [name for name in running.verdicts if name in found.verdicts]
    differ = [name for name in both if running.verdicts[name] != found.verdicts[name]]
    made, ran, ours = (sum(each.seconds[name] for name in both) for each in (making, running, found))
    say(f"SPIN, {THREADS} threads: {running.said()}; {sum(making.seconds.values()):.1f} s for the checkers")
    if both:
        ratios = f"{(made + ran) / ours:.1f}, searches alone {ran / ours:.1f}"
        say(f"  as a ratio to the explorer over the {len(both)} that both decide: {ratios}")
    say(f"  other verdicts: {', '.join(differ) or 'none'}; peak memory of a child: {peak(resource.RUSAGE_CHILDREN):.0f} MiB")
