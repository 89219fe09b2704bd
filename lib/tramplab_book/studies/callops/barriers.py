"""Which of a scheme's waits are needed, and what for?"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tramplab.races import explore
from tramplab.races.barriers import Barrier, barriers
from tramplab.races.explore import SAFE, UNSAFE
from tramplab.races.model.executions import Executions
from tramplab.races.model.fetches import STALE, TORN
from tramplab.races.model.moments import UNORDERED
from tramplab.races.model.verdicts import MISSED
from tramplab.races.schemes.schemes import SCHEMES, Scheme

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.phrases import marked
from ..memo import once
from ..shared.hypothetical import named
from .patching import LIMITS, labelled

NAME = "barriers"
TITLE = "Each barrier of a safe scheme left out in turn"
UNITS = {"times": "planned", "steps": "shortest"}
#: What a wait is for, by what happens without it; the order of other CPUs' loads is not tested.
BREAKS, NO_EFFECT, NOTHING, NOT_TESTED = "breaks without", "takes no effect without", "can do without", "untested"
#: A riscv64 hart with Ziccif, which fetches an aligned instruction whole, and one that need not; on other ISAs there is no choice.
WHOLE, ANY, NO_CHOICE = "whole", "any", "-"
#: All waits at once without which it does not break one by one; fences stay.
OTHERS = "all others"


@once
def rows() -> pd.DataFrame:
    """One row per scheme, hart on which it is safe, and barrier, left out wherever the plan has it, and one with OTHERS left out;
    fetches are the worst that such a hart makes, and stores are seen in any order.

    Columns: scheme, isa, hypothetical, hart (WHOLE, ANY or NO_CHOICE), barrier, why, fence (does it only order stores?), times (it
    is in the plan), outcome (SAFE, or the property that is violated then), steps (of the shortest schedule that ends so), need
    (BREAKS, NO_EFFECT, NOTHING or NOT_TESTED, or "" for OTHERS)."""
    out = []
    for scheme in SCHEMES.values():
        executions = Executions(scheme.subject())
        for hart, fetch in _harts(scheme).items():
            if explore(executions.subject, 1, fetch, data=UNORDERED, executions=executions).verdict != UNSAFE:
                about = {"scheme": scheme.name, "isa": scheme.isa, "hypothetical": bool(scheme.hypothetical), "hart": hart}
                out += [about | row for row in _left_out(executions, fetch)]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _harts(scheme: Scheme) -> dict[str, str]:
    """The harts on which a scheme is judged, and how they fetch at worst."""
    return {WHOLE: STALE, ANY: TORN} if scheme.isa == "riscv64" else {NO_CHOICE: scheme.fetch}


def _left_out(executions: Executions, fetch: str) -> Iterator[dict[str, object]]:
    """What happens without each barrier of a plan, and without OTHERS."""
    others: list[int] = []
    for barrier in (*barriers(executions.subject), None):
        numbers = barrier.numbers if barrier else sorted(others)
        found = explore(executions.subject, 1, fetch, numbers, UNORDERED, executions=executions)
        assert not found.limit, "a scheme that takes longer than its limit decides nothing"
        need = "" if barrier is None else _need(barrier, found.outcome)
        others += numbers if barrier and need != BREAKS and not barrier.fence else ()
        yield {
            "barrier": barrier.name if barrier else OTHERS,
            "why": barrier.why if barrier else "",
            "fence": bool(barrier and barrier.fence),
            "times": len(numbers),
            "outcome": found.outcome,
            "steps": len(found.schedule),
            "need": need,
        }


def _need(barrier: Barrier, outcome: str) -> str:
    """What a barrier is for, by what happens without it."""
    if outcome == SAFE:
        return NOT_TESTED if barrier.orders else NOTHING
    return NO_EFFECT if outcome == MISSED else BREAKS


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per scheme, without its ISA, hart and barrier."""
    out = named(frame.assign(outcome=frame["outcome"].where(frame["need"] != NOT_TESTED, NOT_TESTED)), "scheme")
    out["scheme"] = out["scheme"].str.partition("-")[2]
    out = out[["isa", "scheme", "hart", "barrier", "outcome", "steps"]]
    out.attrs["units"] = {}
    return out


#: What a reader of the page sees: the column, what a barrier is for there, and whether it is a fence.
_SHOWN = (
    ("waits it breaks without", BREAKS, (False,)),
    ("fences it breaks without", BREAKS, (True,)),
    (NO_EFFECT, NO_EFFECT, (False, True)),
)


def body(frame: pd.DataFrame) -> Body:
    """A line per scheme and hart: the barriers that it needs, by what they are for."""
    lines = []
    for (scheme, hypothetical, hart), part in frame.groupby(["scheme", "hypothetical", "hart"], sort=False):
        some = {head: part[(part["need"] == need) & part["fence"].isin(fences)] for head, need, fences in _SHOWN}
        cells = {head: "\n".join(f"{r.barrier} ({r.outcome})" for r in rows.itertuples()) or "-" for head, rows in some.items()}
        lines.append({"scheme": marked(labelled(str(scheme)), bool(hypothetical)), "hart": hart, **cells})
    return Grid(pd.DataFrame(lines), "The barriers that each safe scheme needs")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: without how many kinds of waits a scheme breaks, "riscv64-trap-needed", which, "riscv64-trap-needs",
    and which fences, "riscv64-trap-fences"; how it ends where all others are left out at once, "riscv64-trap-bare". riscv64's are
    of a hart with Ziccif; of one that need not fetch whole they begin with "riscv64-trap-any"."""
    frame = frame.assign(of=frame["scheme"] + frame["hart"].map({ANY: f"-{ANY}"}).fillna(""))
    bare = frame[frame["barrier"] == OTHERS]
    frame = frame[frame["barrier"] != OTHERS]
    out: dict[str, object] = {f"{r.of}-bare": r.outcome for r in bare.itertuples()}
    for of, part in frame[frame["need"] == BREAKS].groupby("of"):
        waits, fences = (list(part[part["fence"] == fence]["barrier"]) for fence in (False, True))
        out |= {f"{of}-needed": len(waits), f"{of}-needs": ", ".join(waits)}
        out |= {f"{of}-fences": ", ".join(fences) or "none"}
    return out


FIGURES = (
    Figure(
        "fig-barriers",
        "Which waits and fences of the safe schemes are needed, and what for?",
        table=table,
        body=body,
        tabs="isa",
        limits=LIMITS,
        kind="search",
        hypothetical=True,
    ),
)
