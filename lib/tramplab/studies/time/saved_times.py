"""Measured times for figures of any chapter: what a hook added on the machines of data/native/."""

from __future__ import annotations

from collections.abc import Sequence

from ...ftrace.releases import LATEST
from ...native.kept import HOOKS, saved
from ...publish.figures.fitted import digits
from ...publish.said import listed
from . import native_machine


def cycles(hook: str, release: str = LATEST, isa: str = "x86_64") -> dict[str, float]:
    """Cycles that a hook ("ops", "ops:2" for two callbacks) added to a call, by machine, where its windows agree. A machine is
    called by its core where that is modelled, else as its file is."""
    found: dict[str, float] = {}
    for name, result in saved(HOOKS).items():
        facts = native_machine.facts(result)
        if (facts["isa"], facts["release"]) == (isa, release):
            machine = native_machine.called(result, name)
            agreed = [float(str(r["cycles_over"])) for r in result.rows if r["hook"] == hook and r["agreed"]]
            if agreed:
                found[machine] = agreed[0]
    return found


def columns(hooks: Sequence[tuple[str, str, str]]) -> dict[str, list[str]]:
    """For a table with a line per (ISA, release, hook): a column per machine that was timed with any of them, cycles as they are
    written, "-" where there are none."""
    lines = [cycles(hook, release, isa) for isa, release, hook in hooks]
    machines = sorted({machine for line in lines for machine in line})
    return {machine: [digits(line.get(machine)) for line in lines] for machine in machines}


def said(hook: str, release: str = LATEST, isa: str = "x86_64") -> str:
    """The same in words: "9.04 cycles on golden-cove and 8.00 on zen3"."""
    found = [f"{digits(value)} cycles on {machine}" for machine, value in cycles(hook, release, isa).items()]
    return listed(found) if found else "an unknown number of cycles"
