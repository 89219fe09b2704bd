"""Timing in windows: short runs of the child, apart in time, until enough of them agree."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

from ..base.errors import TramplabError
from . import host
from .agreement import NEEDED, agreed, steady
from .counted import counts
from .result import Result
from .run import run
from .script import CHAIN, CHAIN_ADDITIONS, COUNTERS, TimingPlan
from .states import BASELINE, NativeKernel

#: Windows at most, seconds between two of them, and seconds after which none is begun that is not needed.
MOST, PAUSE, LONGEST = 20, 0.5, 40.0


class Series:
    """The windows of one subject: what each gave, and whether they agree.

    rounds: batches per hook in a window.
    args: integer arguments of the traced function.
    cpu: the CPU to stay on, None for the last.
    columns: hook -> further columns of its row.

    add() runs one more window; result() is what all of them say.
    """

    def __init__(
        self,
        subject: NativeKernel,
        rounds: int,
        args: int,
        cpu: int | None = None,
        columns: dict[str, dict[str, object]] | None = None,
    ):
        self.subject, self.columns = subject, columns or {}
        pinned = host.last_cpu() if cpu is None else cpu
        self.plan = TimingPlan(pinned, rounds=rounds, counters=COUNTERS)
        self.facts = host.facts(pinned)
        self.warnings = host.warnings(self.facts)
        self.facts |= {"release": subject.release, "arguments": args, "rounds": rounds}
        self.failures: list[str] = []
        self._code = {s.name: s.code for s in subject.states}
        self.windows: dict[str, list[float]] = {}  # nanoseconds per call, the least of each window, by hook
        self._batches: dict[str, list[float]] = {}
        self._counted: dict[str, list[list[int]]] = {}
        self._refused: list[int] = []
        self._broken = False

    def add(self) -> None:
        """Run one more window; raises TramplabError if it is the first and nothing runs at all."""
        try:
            outcome = run(self.subject, self.plan)
        except TramplabError as e:
            if not self.windows:
                raise
            self.failures.append(f"after {self.count} windows: {e}")
            self._broken = True
            return
        answers, self.subject = outcome.answers, outcome.subject
        self.failures += outcome.failures
        if answers.pinned and self.facts["pinned to"] is not None:
            why = os.strerror(answers.pinned)
            self.warnings.append(f"the run could not be kept on CPU {self.plan.cpu} ({why}): it may have moved.")
            self.facts["pinned to"] = None
        for name, batches in answers.time.items():
            times = answers.batch[name][0] * (CHAIN_ADDITIONS if name == CHAIN else 1)
            ns = [b / times for b in batches]
            self.windows.setdefault(name, []).append(min(ns))
            self._batches.setdefault(name, []).extend(ns)
        for name, counted in answers.count.items():
            self._counted.setdefault(name, []).extend(counted)
        self._refused = answers.counters

    @property
    def count(self) -> int:
        """The number of windows so far."""
        return len(self.windows.get(CHAIN, ()))

    @property
    def hooks(self) -> list[str]:
        """The hooks that ran in every window, the baseline first."""
        return [s.name for s in self.subject.states]

    def agrees(self, hook: str) -> bool:
        """Do the windows agree on what a hook adds?"""
        baseline = None if hook == BASELINE else self.windows[BASELINE]
        return agreed(self.windows[hook], self.windows[CHAIN], baseline)

    def steady(self, hook: str) -> bool:
        """Has a hook one speed?"""
        both = (self._batches[hook], self._batches[BASELINE])
        return steady(*(of(batches) for batches in both for of in (min, statistics.median)))

    @property
    def done(self) -> bool:
        """Is another window of no use: because each hook agrees or has several speeds, or because none can be run any more?"""
        decided = self.count >= NEEDED and all(self.agrees(h) or not self.steady(h) for h in self.hooks)
        return self._broken or decided

    def result(self) -> Result:
        """The result of all windows together."""
        cycle = min(self.windows[CHAIN])
        counted, why = counts(self._refused, self._counted)
        provenance = {**self.facts, "GHz": round(1 / cycle, 3) if cycle > 0 else None}
        rows = tuple(self._row(hook, cycle, counted.get(hook, {})) for hook in self.hooks)
        clock_windows = tuple(round(w, 6) for w in self.windows[CHAIN])
        return Result(rows, clock_windows, (*self.warnings, *why), tuple(self.failures), provenance)

    def _row(self, hook: str, cycle: float, counted: dict[str, float]) -> dict[str, object]:
        ns, base = sorted(self._batches[hook]), min(self.windows[BASELINE])
        quartiles = statistics.quantiles(ns, n=4, method="inclusive") if len(ns) > 1 else ns * 3
        over = ns[0] - base
        direct = min(self.windows["direct"]) - base if "direct" in self.hooks else 0
        row: dict[str, Any] = {
            "hook": hook,
            "code": self._code[hook],
            "ns_min": ns[0],
            **dict(zip(("ns_q1", "ns_median", "ns_q3"), quartiles, strict=True)),
            "ns_over": over,
            "cycles_over": over / cycle if cycle > 0 else None,
            "ratio_direct": over / direct if direct > 0 else None,
            **counted,
        }
        row = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
        row |= self.columns.get(hook, {})
        one = self.steady(hook)
        return row | {
            "windows": [round(w, 4) for w in self.windows[hook]],
            "steady": one,
            "agreed": one and self.agrees(hook),
        }


def fill(series: Sequence[Series], most: int = MOST) -> None:
    """Add windows to each series in turn, with pauses in between, until all agree or a limit is met.

    most: windows of each; more than MOST take as long as they take. Raises TramplabError where nothing runs at all.
    """
    end = time.monotonic() + (LONGEST if most <= MOST else float("inf"))
    while left := [s for s in series if not s.done and s.count < most]:
        for s in left:
            s.add()
        if time.monotonic() > end:
            most = min(most, NEEDED)
        if any(not s.done and s.count < most for s in left):
            time.sleep(PAUSE)
