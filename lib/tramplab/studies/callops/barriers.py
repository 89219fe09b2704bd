"""Which of a scheme's waits are needed, and what for?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.phrases import listed, marked
from ...races import explore
from ...races.barriers import Barrier, barriers
from ...races.explore import SAFE, UNSAFE
from ...races.model.executions import Executions
from ...races.model.verdicts import MISSED
from ...races.schemes.schemes import SCHEMES
from ..memo import once
from ..shared.hypothetical import named
from .patching import LIMITS, labelled

NAME = "barriers"
TITLE = "Each barrier of a safe scheme left out in turn"
UNITS = {"times": "planned", "steps": "shortest"}
#: What a wait is for, by what happens without it; what orders data is not tested, as they are in order here.
BREAKS, NO_EFFECT, NOTHING, NOT_TESTED = "breaks without", "takes no effect without", "can do without", "not tested"
NEEDS = (BREAKS, NO_EFFECT, NOTHING, NOT_TESTED)
#: All at once without which it does not break one by one.
OTHERS = "all others"


@once
def rows() -> pd.DataFrame:
    """One row per safe scheme and barrier, left out wherever the plan has it, and one with OTHERS left out; fetches are the worst
    that hold there.

    Columns: scheme, isa, hypothetical, barrier, why, times (it is in the plan), outcome (SAFE, or the property that is violated
    then), steps (of the shortest schedule that ends so), need (one of NEEDS, or "" for OTHERS). """
    out = []
    for scheme in SCHEMES.values():
        subject = scheme.subject()
        executions = Executions(subject)
        if explore(subject, 1, scheme.fetch, executions=executions).verdict == UNSAFE:
            continue
        others: list[int] = []
        each = barriers(subject)
        for barrier in (*each, None):
            numbers = barrier.numbers if barrier else sorted(others)
            found = explore(subject, 1, scheme.fetch, numbers, executions=executions)
            assert not found.limit, "a scheme that takes longer than its limit decides nothing"
            outcome = found.violation.which if found.violation else SAFE
            need = "" if barrier is None else _need(barrier, outcome)
            others += numbers if need != BREAKS else ()
            out.append(
                {
                    "scheme": scheme.name,
                    "isa": scheme.isa,
                    "hypothetical": bool(scheme.hypothetical),
                    "barrier": barrier.name if barrier else OTHERS,
                    "why": barrier.why if barrier else "",
                    "times": len(numbers),
                    "outcome": outcome,
                    "steps": len(found.schedule),
                    "need": need,
                }
            )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _need(barrier: Barrier, outcome: str) -> str:
    """What a barrier is for, by what happens without it."""
    if outcome == SAFE:
        return NOT_TESTED if barrier.orders else NOTHING
    return NO_EFFECT if outcome == MISSED else BREAKS


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per scheme and barrier."""
    out = named(frame, "scheme")[["scheme", "barrier", "outcome", "steps"]]
    out.attrs["units"] = {"steps": UNITS["steps"]}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def body(frame: pd.DataFrame) -> Body:
    """A line per scheme: the barriers by what they are for."""
    lines = []
    for (scheme, hypothetical), part in frame.groupby(["scheme", "hypothetical"], sort=False):
        cells = {need: "\n".join(map(_cell, some.itertuples())) for need, some in part.groupby("need")}
        needs = {need: cells.get(need, "-") for need in NEEDS}
        lines.append({"scheme": marked(labelled(str(scheme)), bool(hypothetical)), **needs})
    return Grid(pd.DataFrame(lines), "What each barrier of the safe schemes is for")


def _cell(row: Any) -> str:
    return f"{row.barrier} ({row.outcome}): {row.why}" if row.need == BREAKS else str(row.barrier)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: barriers in all and by what they are for, "barriers-total", "barriers-breaking", "barriers-free";
    how many waits each scheme's plan has, "riscv64-trap-waits", and without how many kinds it breaks, "riscv64-trap-needed", and
    which, "riscv64-trap-needs"; how it ends where all others are left out at once, "riscv64-trap-bare"."""
    bare = frame[frame["barrier"] == OTHERS]
    frame = frame[frame["barrier"] != OTHERS]
    need = frame["need"]
    out: dict[str, object] = {f"{r.scheme}-bare": r.outcome for r in bare.itertuples()}
    out |= {
        "barriers-total": len(frame),
        "barriers-breaking": int((need == BREAKS).sum()),
        "barriers-free": int((need == NOTHING).sum()),
    }
    out |= {f"{scheme}-waits": int(n) for scheme, n in frame.groupby("scheme")["times"].sum().items()}
    for scheme in frame["scheme"].unique():
        needed = _needed(frame, str(scheme))
        out |= {f"{scheme}-needed": len(needed), f"{scheme}-needs": listed(needed)}
    return out


def _needed(frame: pd.DataFrame, scheme: str) -> list[str]:
    part = frame[(frame["scheme"] == scheme) & (frame["need"] == BREAKS)]
    return list(part["barrier"])


FIGURES = (
    Figure(
        "fig-barriers",
        "Which waits of the safe schemes are needed, and what for?",
        table=table,
        body=body,
        limits=LIMITS,
        kind="search",
        hypothetical=True,
    ),
)
