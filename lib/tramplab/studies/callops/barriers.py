"""Which of a scheme's waits are needed, and what for?"""

from __future__ import annotations

import pandas as pd

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.phrases import marked
from ...races import explore
from ...races.barriers import Barrier, barriers
from ...races.explore import SAFE, UNSAFE
from ...races.model.executions import Executions
from ...races.model.moments import UNORDERED
from ...races.model.verdicts import MISSED
from ...races.schemes.schemes import SCHEMES
from ..memo import once
from ..shared.hypothetical import named
from .patching import LIMITS, labelled

NAME = "barriers"
TITLE = "Each barrier of a safe scheme left out in turn"
UNITS = {"times": "planned", "steps": "shortest"}
#: What a wait is for, by what happens without it; the order of other CPUs' loads is not tested.
BREAKS, NO_EFFECT, NOTHING, NOT_TESTED = "breaks without", "takes no effect without", "can do without", "untested"
#: All waits at once without which it does not break one by one; fences stay.
OTHERS = "all others"


@once
def rows() -> pd.DataFrame:
    """One row per safe scheme and barrier, left out wherever the plan has it, and one with OTHERS left out; fetches are the worst
    that hold there, and stores are seen in any order.

    Columns: scheme, isa, hypothetical, barrier, why, fence (does it only order stores?), times (it is in the plan), outcome (SAFE,
    or the property that is violated then), steps (of the shortest schedule that ends so), need (BREAKS, NO_EFFECT, NOTHING or
    NOT_TESTED, or "" for OTHERS). """
    out = []
    for scheme in SCHEMES.values():
        subject = scheme.subject()
        executions = Executions(subject)
        if explore(subject, 1, scheme.fetch, data=UNORDERED, executions=executions).verdict == UNSAFE:
            continue
        others: list[int] = []
        each = barriers(subject)
        for barrier in (*each, None):
            numbers = barrier.numbers if barrier else sorted(others)
            found = explore(subject, 1, scheme.fetch, numbers, UNORDERED, executions=executions)
            assert not found.limit, "a scheme that takes longer than its limit decides nothing"
            need = "" if barrier is None else _need(barrier, found.outcome)
            others += numbers if barrier and need != BREAKS and not barrier.fence else ()
            out.append(
                {
                    "scheme": scheme.name,
                    "isa": scheme.isa,
                    "hypothetical": bool(scheme.hypothetical),
                    "barrier": barrier.name if barrier else OTHERS,
                    "why": barrier.why if barrier else "",
                    "fence": bool(barrier and barrier.fence),
                    "times": len(numbers),
                    "outcome": found.outcome,
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
    out = named(frame.assign(outcome=frame["outcome"].where(frame["need"] != NOT_TESTED, NOT_TESTED)), "scheme")
    out = out[["scheme", "barrier", "outcome", "steps"]]
    out.attrs["units"] = {}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


#: What a reader of the page sees: the column, what a barrier is for there, and whether it is a fence.
_SHOWN = (
    ("waits it breaks without", BREAKS, (False,)),
    ("fences it breaks without", BREAKS, (True,)),
    (NO_EFFECT, NO_EFFECT, (False, True)),
)


def body(frame: pd.DataFrame) -> Body:
    """A line per scheme: the barriers that it needs, by what they are for."""
    lines = []
    for (scheme, hypothetical), part in frame.groupby(["scheme", "hypothetical"], sort=False):
        some = {head: part[(part["need"] == need) & part["fence"].isin(fences)] for head, need, fences in _SHOWN}
        cells = {head: "\n".join(f"{r.barrier} ({r.outcome})" for r in rows.itertuples()) or "-" for head, rows in some.items()}
        lines.append({"scheme": marked(labelled(str(scheme)), bool(hypothetical)), **cells})
    return Grid(pd.DataFrame(lines), "The barriers that each safe scheme needs")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: how many waits each scheme's plan has, fences not counted, "riscv64-trap-waits"; without how many
    kinds of waits it breaks, "riscv64-trap-needed", which, "riscv64-trap-needs", and which fences, "riscv64-trap-fences"; how it
    ends where all others are left out at once, "riscv64-trap-bare"."""
    bare = frame[frame["barrier"] == OTHERS]
    frame = frame[frame["barrier"] != OTHERS]
    out: dict[str, object] = {f"{r.scheme}-bare": r.outcome for r in bare.itertuples()}
    out |= {f"{scheme}-waits": int(n) for scheme, n in frame[~frame["fence"]].groupby("scheme")["times"].sum().items()}
    for scheme, part in frame[frame["need"] == BREAKS].groupby("scheme"):
        waits, fences = (list(part[part["fence"] == fence]["barrier"]) for fence in (False, True))
        out |= {f"{scheme}-needed": len(waits), f"{scheme}-needs": ", ".join(waits)}
        out |= {f"{scheme}-fences": ", ".join(fences) or "none"}
    return out


FIGURES = (
    Figure(
        "fig-barriers",
        "Which waits and fences of the safe schemes are needed, and what for?",
        table=table,
        body=body,
        limits=LIMITS,
        kind="search",
        hypothetical=True,
    ),
)
