"""What does each way out of the race between AUIPC and JALR ask of the hart, and what does a change take?"""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace.steps import Sync, Wait
from tramplab.races.explore import SAFE
from tramplab.races.model.fetches import STALE, TORN
from tramplab.races.schemes.schemes import scheme
from tramplab.races.subject import FixUp

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.phrases import marked
from ..memo import once
from ..shared.hypothetical import named
from . import patching

NAME = "pair_ways"
TITLE = "Ways out of the race between AUIPC and JALR"
UNITS = {"stops": "of the machine", "flushes": "of every hart", "tasks": "waits"}
#: riscv64's schemes, as the thread comes to them.
SCHEMES = (
    "riscv64-pair",
    "riscv64-pair16-preempt",
    "riscv64-trap-whole",
    "riscv64-trap",
    "riscv64-trap-stopped",
    "riscv64-newest-pc",
    "riscv64-saved-pc",
    "riscv64-fixed-auipc",
    "riscv64-call-ops",
)
#: What a hart must promise.
NEVER, ZICCIF, ANY = "unsafe", "Ziccif", "nothing"
_TASKS = (Sync.RCU_TASKS, Sync.RCU)
LIMITS = f"Counted for one function: an ops comes, goes, and another comes. {patching.LIMITS}"


@once
def rows() -> pd.DataFrame:
    """One row per scheme of SCHEMES.

    Columns: scheme, hypothetical, preemptible, needs (of a hart: NEVER, ZICCIF or ANY), stops (how often the machine is stopped
    while one ops comes), flushes (rounds in which every hart executes FENCE.I, without those at the end of a stop), tasks (waits
    for tasks, but for those before something is freed), walks (over the saved registers of all tasks)."""
    found = {(r.scheme, r.fetch): r.outcome for r in patching.rows().itertuples()}
    out = []
    for name in SCHEMES:
        chosen = scheme(name)
        subject = chosen.subject()
        first = subject.steps[: subject.ops[0].on]
        waits = [step.sync for step in first if isinstance(step, Wait)]
        whole = found[name, STALE] == SAFE
        out.append(
            {
                "scheme": name,
                "hypothetical": bool(chosen.hypothetical),
                "preemptible": chosen.preemptible,
                "needs": NEVER if not whole else ANY if found[name, TORN] == SAFE else ZICCIF,
                "stops": waits.count(Sync.STOP_MACHINE),
                "flushes": waits.count(Sync.FLUSH_ICACHE),
                "tasks": sum(waits.count(sync) for sync in _TASKS),
                "walks": sum(isinstance(step, FixUp) for step in first),
            }
        )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per scheme."""
    out = named(frame.assign(preempt=["yes" if is_so else "no" for is_so in frame["preemptible"]]), "scheme")
    out = out[["scheme", "preempt", "needs", "stops", "flushes", "tasks", "walks"]]
    out.attrs["units"] = {}
    return out


def body(frame: pd.DataFrame) -> Body:
    """The table as a grid, with schemes in words."""
    cells = table(frame).assign(scheme=[marked(patching.LABELS[r.scheme], r.hypothetical) for r in frame.itertuples()])
    heads = {"preempt": "preemptible", "needs": "asks of a hart", "stops": "stop_machine()", "flushes": "FENCE.I everywhere"}
    heads |= {"tasks": "waits for tasks", "walks": "walks over tasks"}
    return Grid(cells.rename(columns=heads), "What each way out asks of a hart, and what a change takes")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: of each scheme what it asks of a hart, "riscv64-trap-needs", and of one change the stops, flushes,
    waits for tasks and walks, "riscv64-trap-stops" and so on."""
    return {f"{r['scheme']}-{column}": r[column] for r in frame.to_dict("records") for column in ("needs", *UNITS, "walks")}


FIGURES = (
    Figure(
        "fig-pair-ways",
        "What does each way out ask of a hart, and what does a change take?",
        table=table,
        body=body,
        limits=LIMITS,
        kind="search",
        hypothetical=True,
    ),
)
