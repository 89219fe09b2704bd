"""What does a trampoline's save set cost, everything else being the same?"""

from __future__ import annotations

import pandas as pd

from ...emulate.machine import RECORD
from ...isa import ISAS
from ...lab.kernel import Kernel
from ...lab.measure import FUNCTIONS
from ...publish.figures.chart import lines
from ...publish.figures.figure import Figure
from ...trampolines.plain import Ops
from ..once import once

NAME = "save_sets"
TITLE = "What a trampoline's save set adds"
#: Save set -> what it is called here.
SETS = {"live": "live", "clobbered": "clobbered", "own-args": "ftrace_regs", "own-regs": "pt_regs"}
UNITS = {"load_bytes": "B", "store_bytes": "B", "written": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, save set and number of integer arguments: what one ops adds to the call, in the newest release.

    Columns: isa, save (a name of SETS), args, instructions, loads, stores, load_bytes, store_bytes, branches_taken, written
    (bytes of the trampoline's frame that it writes), right (is the result the unhooked call's?).
    """
    out = []
    for isa in ISAS:
        kernel = Kernel(isa, meter=RECORD)
        for count, name in enumerate(FUNCTIONS):
            function, arguments = kernel.function(name), range(1, count + 1)
            idle = kernel.call(function, *arguments)
            for save, called in SETS.items():
                with kernel.attached(function, Ops(save=save)):
                    run = kernel.call(function, *arguments)
                added = (run.counts.total - idle.counts.total).as_dict()
                seen = {"written": run.frame.written, "right": run.value == idle.value}
                out.append({"isa": isa, "save": called, "args": count, **added, **seen})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions added: one line per ISA and save set, one column per number of arguments."""
    wide = frame.pivot(index=["isa", "save"], columns="args", values="instructions")
    order = pd.MultiIndex.from_frame(frame[["isa", "save"]].drop_duplicates())
    wide = wide.reindex(order).reset_index()
    wide.columns = [str(name) for name in wide.columns]
    return wide


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions by number of arguments, and of the call with two
    also accesses and bytes written."""
    out = table(frame).merge(frame[frame["args"] == 2][["isa", "save", "loads", "stores", "written"]])
    out.attrs["units"] = dict.fromkeys(("loads", "stores", "written"), "of 2")
    return out


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """What the prose quotes: instructions added with two arguments, like "x86_64-live", and with eight, "x86_64-live-8"."""
    out = {}
    for args, suffix in ((2, ""), (8, "-8")):
        for r in frame[frame["args"] == args].itertuples():
            out[f"{r.isa}-{r.save}{suffix}"] = int(r.instructions)
    return out


FIGURES = (
    Figure(
        "fig-save-sets",
        "What does a hook add, by what its trampoline saves?",
        chart=lines("instructions", over="args", series="save", facet="isa"),
        table=table,
        alt="A panel per ISA: instructions that one ops adds to a call against the number of arguments, with a line for each of "
        "four save sets. Only the line of the live arguments rises. The table below has every number.",
        limits="Emulated counts of instructions in one call; no timing. Trampolines made for the comparison, which no kernel "
        "has: they differ in nothing but the save set.",
    ),
)
