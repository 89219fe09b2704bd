"""One hooked call on every ISA, cut at its milestones: what the studies that are read step by step have in common."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.reading.walk import walk


def walks(function: str, arguments: tuple[int, ...], request: Callable[[], Request]) -> list[dict]:
    """One call with what request() asks for attached, on each ISA in the newest release; see lab.reading.walk."""
    records = []
    for isa in ISAS.values():
        kernel = Kernel(isa.name, releases.LATEST)
        called = kernel.function(function)
        with kernel.attached(called, request()):
            records.append(walk(kernel, called, *arguments))
    return records


def stretches(walks: list[dict]) -> pd.DataFrame:
    """One row per ISA and stretch between milestones: its instructions, and the memory accesses they make.

    Columns: isa, from (a milestone), instructions, loads, stores. A stretch reaches up to the next milestone, the last
    one to the end of the call.
    """
    records = []
    for w in walks:
        marks = list(w["milestones"].items())
        ends = [step for _, step in marks[1:]] + [len(w["steps"])]
        for (name, start), end in zip(marks, ends, strict=True):
            part = w["steps"][start:end]
            stores, loads = (sum(len(step[which]) for step in part) for which in (2, 3))
            records.append({"isa": w["isa"], "from": name, "instructions": len(part), "loads": loads, "stores": stores})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = {}
    return frame


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: all of it."""
    return frame


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """Numbers for the prose: instructions of every stretch, like "arm64-save"."""
    return {f"{r.isa}-{r[2]}": int(r.instructions) for r in frame.itertuples()}
