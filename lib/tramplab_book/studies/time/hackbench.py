"""The measurement of October 2019, worked out per redirected call: do counts and replay agree with its counters?

do_raw_spin_lock() was redirected under hackbench, through a trampoline that takes only the instruction pointer back and through
that for all registers. A redirected call passes its trampoline twice: the callback sends it on to a function that calls the first
one again, and that call is let through. How many calls there were is not published. The replay says how many returns each of them
mispredicts; the branch misses that came on top, divided by that, are the calls.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.estimate.returnstack import replay
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.plain import Ops

from ...publish import published
from ...publish.figures.figure import Figure
from ..memo import once

NAME = "hackbench"
TITLE = "The hackbench runs of 2019, per redirected call"
ISA, RELEASE, FUNCTION = "x86_64", "v5.17", "one_arg"
#: The published name of a trampoline -> what the lab's saves.
SAVES = {"ip": "args", "regs": "regs"}
#: Each mean is published with its standard error; twice that is shown.
ERRORS = 2
#: Trampolines, and the difference of the two.
LINES = {"ip alone": ("ip", "none"), "all registers": ("regs", "none"), "all less ip": ("regs", "ip")}
UNITS = {"misses": "M a run", "misses_error": "M a run", "missed": "a call"} | dict.fromkeys(
    ("instructions", "instructions_error", "counted"), "a call"
)


@dataclass(frozen=True)
class Rise:
    """The difference of a published counter between two kinds of runs, and ERRORS standard errors of it."""

    value: float
    error: float

    @classmethod
    def of(cls, counter: str, more: str, less: str) -> Rise:
        """The rise of a counter from the runs `less` to the runs `more`, by its name in the ids of data/published.csv."""
        means = [published.get(f"x86-2019-hackbench-{run}-{counter}").value for run in (more, less)]
        parts = [published.get(f"x86-2019-hackbench-{run}-{counter}-error").value / 100 for run in (more, less)]
        return cls(means[0] - means[1], ERRORS * math.hypot(*(m * p for m, p in zip(means, parts, strict=True))))


@once
def rows() -> pd.DataFrame:
    """One row per line of LINES.

    Columns: isa, trampoline, misses and misses_error (branch misses more than without, millions a run, published), missed
    (mispredicted returns of a redirected call, by the replay), calls (redirected ones, millions a run, that follow); of a
    redirected call instructions, instructions_error, cycles, cycles_error (published), counted (instructions).
    """
    records = []
    for line, (more, less) in LINES.items():
        misses = Rise.of("branch-misses", more, less)
        calls = _calls(more) if less == "none" else (_calls(more) + _calls(less)) / 2
        head: dict[str, object] = {"isa": ISA, "trampoline": line}
        head |= {"misses": round(misses.value / 1e6, 2), "misses_error": round(misses.error / 1e6, 2)}
        head |= {"missed": _missed(more) - _missed(less), "calls": round(calls / 1e6, 2)}
        for name, counter in (("instructions", "insns"), ("cycles", "cycles")):
            rise = Rise.of(counter, more, less)
            head |= {name: round(rise.value / calls, 1), f"{name}_error": round(rise.error / calls, 1)}
        head["counted"] = _counted(more) - _counted(less)
        records.append(head)
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache
def _runs(how: str) -> tuple[Run, Run]:
    """A redirected call and one that is let through; "none": a call of what it is redirected to, and an unhooked one."""
    kernel = Kernel(ISA, RELEASE, meter=RECORD)
    function, target = kernel.function(FUNCTION), f"new_{FUNCTION}"
    if how == "none":
        instead = dataclasses.replace(function, name=target, address=kernel.image.address(target))
        return kernel.call(instead, 1), kernel.call(function, 1)
    with kernel.attached(function, Ops(save=SAVES[how], callback="lab_redirect", go_to=target)):
        redirected = kernel.call(function, 1)
    with kernel.attached(function, Ops(save=SAVES[how])):
        return redirected, kernel.call(function, 1)


def _missed(how: str) -> int:
    """Mispredicted returns of both passes and of the callers above."""
    return sum(r.own + r.outer for r in map(replay, _runs(how)))


def _calls(how: str) -> float:
    """Redirected calls in a run of hackbench."""
    return Rise.of("branch-misses", how, "none").value / _missed(how)


def _counted(how: str) -> int:
    """Instructions of both passes outside the functions."""
    return 0 if how == "none" else sum(run.counts.outside.instructions for run in _runs(how))


def _within(value: float, error: float, digits: int = 0) -> str:
    return f"{value:.{digits}f} \N{PLUS-MINUS SIGN} {error:.{digits}f}"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per trampoline what the mail's counters give, and what the lab does: mispredictions and instructions."""
    items = []
    for line, r in _lines(frame).items():
        items += [
            (line, "misses, M a run", _within(r["misses"], r["misses_error"], 1), f"{r['missed']} a call"),
            (line, "insns a call", _within(r["instructions"], r["instructions_error"]), f"{r['counted']} counted"),
            (line, "cycles, measured", _within(r["cycles"], r["cycles_error"]), ""),
        ]
    made = pd.DataFrame(items, columns=["trampoline", "counter", "published", "lab"])
    made.attrs["right"] = ("published",)
    return made


def _lines(frame: pd.DataFrame) -> dict[str, Mapping]:
    """The row of each line, by trampoline."""
    return {r["trampoline"]: r for r in frame.to_dict("records")}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: calls that were redirected in a run ("calls-total"), in millions, by either trampoline; how many
    counts of instructions there are, "counts-total", and how many are within the error of the counters, "counts-within"; by how
    many millions the branch misses of both trampolines differ, "misses-apart", with its error, "misses-error"; and mispredicted
    returns of a redirected call, "ip-missed" and "regs-missed"."""
    ip, every, less = _lines(frame).values()
    return {
        "calls-total": f"{every['calls']:.1f} to {ip['calls']:.1f}",
        "counts-total": len(frame),
        "counts-within": sum(_fits(frame)),
        "misses-apart": abs(less["misses"]),
        "misses-error": less["misses_error"],
        "ip-missed": ip["missed"],
        "regs-missed": every["missed"],
    }


def _fits(frame: pd.DataFrame) -> list[bool]:
    """Is each count of instructions within the error of what the counters give?"""
    return ((frame["instructions"] - frame["counted"]).abs() <= frame["instructions_error"]).tolist()


FIGURES = (
    Figure(
        "fig-hackbench",
        "Do the counters of 2019 agree with the replay and the counts?",
        table=table,
        limits="Published (20191022220259.70f7306b@gandalf.local.home): means of 20 runs of hackbench with twice their standard "
        "error, divided by the calls that the further branch misses make, at as many per call as the replay has. The lab: v5.17, "
        "callbacks of its own. Cycles are measured ones; the CPU is not named.",
    ),
)
