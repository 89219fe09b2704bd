"""How fast races are explored, and how SPIN does with models of the same schemes: `make bench`, or `python -m bench races`.

Both decide whether anything bad can happen, with three threads, from nothing: the explorer makes its kernels and plans, executes
the threads' machine code and searches; SPIN generates a checker for each model, which is compiled and searches with partial-order
reduction. They do not visit the same states: the explorer takes threads that change places for the same, and may, as they are.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from tramplab.races.explore import NOT_DECIDED, Result, explore
from tramplab.races.schemes.schemes import SCHEMES

from .spin import Checker, missing

THREADS = 3
#: The scheme with most states for a few threads, and how many of them are visited where nothing is left out.
LARGEST, STATES = "arm64-call-ops", 5_000_000


def unreduced() -> float:
    """States per second of all threads' steps one by one, execution of their code included."""
    found = explore(SCHEMES[LARGEST].subject(), THREADS, SCHEMES[LARGEST].fetch, reduced=False, most=STATES)
    return found.states / found.seconds


def explored(threads: int) -> tuple[dict[str, Result], float]:
    """Every scheme, and the seconds that all take together."""
    start = time.perf_counter()
    found = {name: explore(scheme.subject(), threads, scheme.fetch) for name, scheme in SCHEMES.items()}
    return found, time.perf_counter() - start


def searched() -> tuple[dict[str, str], float, float]:
    """The same by SPIN: the verdicts, and the seconds for making all checkers and for running them."""
    verdicts, making, running = {}, 0.0, 0.0
    for name, scheme in SCHEMES.items():
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            built = Checker(name, Path(folder), ("-O2", "-DCOLLAPSE"))
            made = time.perf_counter()
            verdicts[name] = "unsafe" if built.check(scheme.fetch, threads=THREADS, first=True).bad else "safe"
            making, running = making + made - start, running + time.perf_counter() - made
    return verdicts, making, running


def peak(of: int) -> float:
    """MiB that this process, or the largest of those that it has started, has had at most."""
    return resource.getrusage(of).ru_maxrss / 1024


def main() -> None:
    """Measure and print; takes a minute or two."""
    explore(SCHEMES[LARGEST].subject(), 1)  # what is compiled once for all
    found, three = explored(THREADS)
    four_found, four = explored(THREADS + 1)
    undecided = [name for name, r in (*found.items(), *four_found.items()) if r.verdict == NOT_DECIDED]
    print(f"explorer, {len(SCHEMES)} schemes: {three:.2f} s with {THREADS} threads, {four:.2f} s with {THREADS + 1}")
    print(f"  not decided: {', '.join(undecided) or 'none'}")
    rate = unreduced()
    print(f"  {LARGEST} without reduction, {THREADS} threads: {rate / 1e3:.0f} thousand states/s")
    print(f"  peak memory: {peak(resource.RUSAGE_SELF):.0f} MiB")
    if program := missing():
        print(f"SPIN: not measured (no {program})")
        return
    verdicts, making, running = searched()
    differ = [name for name, verdict in verdicts.items() if verdict != found[name].verdict]
    print(f"SPIN, {THREADS} threads: {making:.1f} s for the checkers, {running:.1f} s for their searches")
    print(f"  as a ratio to the explorer: {(making + running) / three:.1f}, of their searches alone {running / three:.1f}")
    print(f"  other verdicts: {', '.join(differ) or 'none'}; peak memory of a child: {peak(resource.RUSAGE_CHILDREN):.0f} MiB")
