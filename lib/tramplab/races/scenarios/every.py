"""All scenarios: each scheme under each fetch model, whole and with each of its barriers left out. A scenario is one job."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import schedule
from ..barriers import barriers, numbers_of
from ..explore import Result, explore
from ..model.executions import Executions
from ..model.fetches import MODELS
from ..schemes.schemes import SCHEMES, Scheme, scheme


@dataclass(frozen=True)
class Scenario:
    """One exploration of one scheme.

    without: the barrier that is left out, "" for none.
    most: the number of states after which it is given up. There is no limit on time, which differs between machines.
    """

    scheme: str
    fetch: str
    without: str
    threads: int
    most: int

    def __str__(self) -> str:
        return f"{self.scheme}, fetch {self.fetch}" + f", without {self.without}" * bool(self.without)


def scenarios(names: Iterable[str], threads: int, most: int) -> list[Scenario]:
    """The scenarios of these schemes, in the order in which they are shown."""
    chosen = [name for name in SCHEMES if name in set(names)]
    return [
        Scenario(name, fetch, without, threads, most)
        for name in chosen
        for fetch in MODELS
        for without in ("", *(b.name for b in barriers(_executions(name).subject)))
    ]


def explored(scenario: Scenario) -> dict[str, Any]:
    """The result of one scenario, in JSON's types: it does not depend on what this process has explored before."""
    ran = _executions(scenario.scheme)
    without = [scenario.without] if scenario.without else []
    found = explore(
        ran.subject,
        scenario.threads,
        scenario.fetch,
        numbers_of(ran.subject, without),
        most=scenario.most,
        seconds=math.inf,
        executions=ran,
    )
    return as_json(scheme(scenario.scheme), found, without)


@functools.cache
def _executions(name: str) -> Executions:
    """The executions of a scheme's threads, kept by this process for all of its scenarios."""
    return Executions(scheme(name).subject())


def as_json(chosen: Scheme, result: Result, without: list[str]) -> dict[str, Any]:
    """A result for programs: everything except the time."""
    return {
        "scheme": chosen.name,
        "isa": chosen.isa,
        "release": chosen.release,
        "kernel": result.subject.kernel,
        "hypothetical": chosen.hypothetical,
        "threads": result.threads,
        "fetch": result.fetch,
        "data": result.data,
        "without": without,
        "verdict": result.verdict,
        "states": result.states,
        "transitions": result.transitions,
        "limit": result.limit,
        "violation": None if result.violation is None else {"which": result.violation.which, "how": result.violation.how},
        "schedule": [vars(line) for line in schedule.lines(result, folded=False)],
        "barriers": [{"name": b.name, "why": b.why} for b in barriers(result.subject)],
    }
