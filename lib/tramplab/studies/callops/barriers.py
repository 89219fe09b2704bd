"""Which of a scheme's waits are needed, and what for?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analyse.races import explore
from ...analyse.races.barriers import Barrier, barriers
from ...analyse.races.executions import Executions
from ...analyse.races.explore import SAFE, UNSAFE
from ...analyse.races.schemes import SCHEMES
from ...analyse.races.verdicts import MISSED
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.said import HYPOTHETICAL, isa_name, listed, marked
from ..hypothetical import named
from ..once import once
from .patching import CALL_OPS, LIMITS

NAME = "barriers"
TITLE = "Each barrier of a safe scheme left out in turn"
UNITS = {"times": "planned", "steps": "shortest"}
#: What a wait is for, by what happens without it; what orders data is not tested, as they are in order here.
BREAKS, NO_EFFECT, NOTHING, NOT_TESTED = "breaks without", "takes no effect without", "can do without", "not tested"
NEEDS = (BREAKS, NO_EFFECT, NOTHING, NOT_TESTED)
#: All at once without which it does not break one by one.
OTHERS = "all others"
#: Proposed in the mail, and never written.
PROPOSED = ("riscv64-trap", "riscv64-saved-pc")


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
        lines.append({"scheme": marked(str(scheme), bool(hypothetical)), **needs})
    return Grid(pd.DataFrame(lines), "What each barrier of the safe schemes is for")


def _cell(row: Any) -> str:
    return f"{row.barrier} ({row.outcome}): {row.why}" if row.need == BREAKS else str(row.barrier)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: barriers in all and by what they are for, "barriers-total", "barriers-breaking", "barriers-free";
    how many waits each scheme's plan has, "riscv64-trap-waits", and without how many kinds it breaks, "riscv64-trap-needed"."""
    frame = frame[frame["barrier"] != OTHERS]
    need = frame["need"]
    out: dict[str, object] = {
        "barriers-total": len(frame),
        "barriers-breaking": int((need == BREAKS).sum()),
        "barriers-free": int((need == NOTHING).sum()),
    }
    out |= {f"{scheme}-waits": int(n) for scheme, n in frame.groupby("scheme")["times"].sum().items()}
    return out | {f"{scheme}-needed": len(_needed(frame, str(scheme))) for scheme in frame["scheme"].unique()}


def _needed(frame: pd.DataFrame, scheme: str) -> list[str]:
    part = frame[(frame["scheme"] == scheme) & (frame["need"] == BREAKS)]
    return list(part["barrier"])


def answer(frame: pd.DataFrame) -> str:
    """What must be waited for with a pointer beside the function, and with the others."""
    alike = {scheme: listed(_needed(frame, scheme)) for scheme in CALL_OPS}
    if len(set(alike.values())) == 1:
        first = f"With a pointer to the ops beside the function a change breaks only without {alike[CALL_OPS[0]]}, on both ISAs."
    else:
        first = f"With a pointer to the ops beside the function a change breaks without {listed(alike.values())}."
    marks = frame.drop_duplicates("scheme").set_index("scheme")["hypothetical"]
    counts = {str(s): len(_needed(frame, str(s))) for s in frame["scheme"].unique() if s not in CALL_OPS}
    return f"{first} Of the others need: {listed(f'{marked(s, bool(marks[s]))} {n}' for s, n in counts.items())}."


@judges("r5")
def works_but_dear(frame: pd.DataFrame | None = None) -> Verdict:
    """Both are safe as a whole and need more barriers than the same change does with a pointer beside the function."""
    frame = rows() if frame is None else frame
    least = len(_needed(frame, "riscv64-call-ops"))
    counts = {scheme: len(_needed(frame, scheme)) for scheme in PROPOSED}
    cases = pd.DataFrame([{"scheme": s, "truth": n > least and s in set(frame["scheme"])} for s, n in counts.items()])
    kind, on = across(cases, {"scheme": "the scheme"})
    said = listed(f"{marked(s)} needs {n} ({listed(_needed(frame, s))})" for s, n in counts.items())
    because = f"Both are safe with all their barriers. Not to break, {said}; riscv64-call-ops needs {least}. {HYPOTHETICAL}"
    return Verdict(kind, because, {f"{s} barriers": n for s, n in counts.items()}, on)


@judges("r6")
def waits_once(frame: pd.DataFrame | None = None) -> Verdict:
    """With a pointer beside the function one wait alone is needed for nothing to break, on both ISAs that have it, also where
    all others are left out at once."""
    frame = rows() if frame is None else frame
    needed = {scheme: _needed(frame, scheme) for scheme in CALL_OPS}
    bare = frame[frame["barrier"] == OTHERS].set_index("scheme")["outcome"]
    cases = pd.DataFrame(
        [{"isa": s.partition("-")[0], "truth": len(n) == 1 and bare.get(s) in (SAFE, MISSED)} for s, n in needed.items()]
    )
    kind, on = across(cases, {"isa": "the ISA"})
    effect = frame[frame["scheme"].isin(CALL_OPS) & (frame["need"] == NO_EFFECT)]
    alone = listed(f"{s} breaks without {listed(names)} alone" for s, names in needed.items())
    later = listed(f"{r.barrier} ({isa_name(str(r.isa))})" for r in effect.itertuples())
    because = (
        f"{alone}, which keeps the ops until nobody is in it. Without {later} nothing breaks, but a change may never take effect."
    )
    return Verdict(kind, because, {f"{s} breaks without": listed(names) for s, names in needed.items()}, on)


FIGURES = (
    Figure(
        "fig-barriers",
        "Which waits of the safe schemes are needed, and what for?",
        table=table,
        body=body,
        answer=answer,
        limits=f"{LIMITS} {HYPOTHETICAL}",
    ),
)
