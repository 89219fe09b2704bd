"""Measured times for figures of any chapter: what a hook added on the machines of data/native/."""

from __future__ import annotations

from collections.abc import Sequence

from tramplab.ftrace.releases import LATEST
from tramplab.native.cached import HOOKS, saved

from ...publish.figures.fitted import digits
from ...publish.phrases import listed
from . import native_machine

#: What the saved machines are; a test holds it against what their files say.
MACHINES = "x86-64 virtual machines"
#: For the limits of a figure in which such cycles stand beside counts.
MEASURED = (
    "Cycles, under the name of a core or a machine, are native ones that the hook added to the call of a one-argument function, in "
    "user mode, where windows agree."
)


def rows(hook: str, release: str = LATEST, isa: str = "x86_64") -> dict[str, dict[str, object]]:
    """The saved row of a hook ("ops", "ops:2" for two callbacks) on a function of one argument, by machine, where windows agree.
    A machine is called by its core where that is modelled, else as its file is."""
    found: dict[str, dict[str, object]] = {}
    for name, result in saved(HOOKS).items():
        facts = result.provenance
        if (facts["isa"], facts["release"], facts["arguments"]) == (isa, release, 1):
            found |= {native_machine.called(result, name): row for row in result.rows if row["hook"] == hook and row["agreed"]}
    return found


def cycles(hook: str, release: str = LATEST, isa: str = "x86_64") -> dict[str, float]:
    """Cycles that a hook added to such a call, by machine."""
    return {machine: float(str(row["cycles_over"])) for machine, row in rows(hook, release, isa).items()}


def columns(hooks: Sequence[tuple[str, str, str]]) -> dict[str, list[str]]:
    """For a table with a line per (ISA, release, hook): a column per machine that was timed with any of them, cycles as they are
    written, "-" where there are none."""
    lines = [cycles(hook, release, isa) for isa, release, hook in hooks]
    machines = sorted({machine for line in lines for machine in line})
    return {machine: [digits(line.get(machine)) for line in lines] for machine in machines}


def said(hook: str, release: str = LATEST, isa: str = "x86_64") -> str:
    """The times in words: "9.04 cycles on golden-cove and 8.00 on zen3"."""
    found = [f"{digits(value)} cycles on {machine}" for machine, value in cycles(hook, release, isa).items()]
    return listed(found) if found else "an unknown number of cycles"


def timed(hook: str, what: str) -> str:
    """A sentence with the cycles that a hook of the newest release adds on x86-64; what: the hook in words."""
    return f"Measured on x86-64, {what} adds {said(hook)}." if cycles(hook) else f"No saved machine has timed {what}."
