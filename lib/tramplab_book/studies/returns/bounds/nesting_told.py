"""Whose counter has the calls that an fprobe on the graph tracer misses, by how much data its calls have."""

from __future__ import annotations

import pandas as pd

from tramplab.isa import ISAS
from tramplab.returns import Counted
from tramplab.returns.features import SIZES, WORD, Stage, without_room
from tramplab.returns.mechanisms import FPROBE, get

from ...memo import once
from .nesting_builds import kernel

OWN, TASK, NOBODY = "the probe", "the task", "nobody"


def teller(found: Counted) -> str:
    """The counter that has the calls that were not seen."""
    return OWN if found.missed else TASK if found.overrun else NOBODY


@once
def rows() -> pd.DataFrame:
    """One row per ISA and size of the data, in the newest release. Columns: isa, data (bytes of a call), told (who counts the calls
    that are not seen)."""
    records = []
    for isa in ISAS:
        build = get(isa, FPROBE)
        runs = without_room(Stage(kernel(build), build.request()))
        records += [{"isa": isa, "data": WORD * n, "told": teller(run.counted)} for n, run in zip(SIZES, runs, strict=True)]
    return pd.DataFrame(records)


def own(frame: pd.DataFrame) -> dict[str, int]:
    """ISA -> sizes with which the probe's own counter has the calls."""
    return {str(isa): int((part["told"] == OWN).sum()) for isa, part in frame.groupby("isa", sort=False)}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "sizes"; "x86_64-own" (with how many the probe's own counter has the calls); "x86_64-task" (the least
    bytes of data with which it is the task's, and "none" where there are none)."""
    values: dict[str, object] = {"sizes": frame["data"].nunique()}
    for isa, n in own(frame).items():
        hidden = frame["data"][(frame["isa"] == isa) & (frame["told"] == TASK)]
        values |= {f"{isa}-own": n, f"{isa}-task": int(hidden.min()) if len(hidden) else "none"}
    return values
