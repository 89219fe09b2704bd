"""What does a direct call cost where one ops stands for all of them? Near, far, and beside an ops."""

from __future__ import annotations

import functools

import pandas as pd

from tramplab.lab import hooks
from tramplab.lab.run import Run

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from .setups import CASES, IN_OPS, Setup, requests, setups, shown

NAME = "single_calls"
TITLE = "One ops for all direct calls: what a call costs"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: Parts of what a call adds: ftrace's trampoline, ftrace's C code, callbacks of ops, and the direct call's own trampoline.
PARTS = ("trampoline", "core", "callback", "stub")
COUNTS = ("instructions", "loads", "stores", "branches_taken")
UNITS = dict.fromkeys(COUNTS, "added")


@functools.cache
def runs() -> dict[tuple[Setup, str], Run]:
    """A call of each setup and case, and unhooked (""), with its result checked."""
    by_name = {}
    for setup in setups():
        kernel = setup.kernel()
        function = kernel.function(FUNCTION)
        by_name[setup, ""] = kernel.call(function, *ARGUMENTS)
        for case in CASES:
            with kernel.attached(function, *requests(case)):
                by_name[setup, case] = kernel.call(function, *ARGUMENTS)
    return by_name


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way to keep the target, case and part: what it adds to the unhooked call of a three-argument function.

    Columns: isa, release, way, hypothetical, case (CASES), part (PARTS; of a stub, its counter is a part too), then COUNTS. The
    patch site's own branch, which all have, is the stub's or the trampoline's, whichever it leads to.
    """
    records = []
    for (setup, case), run in runs().items():
        if not case:
            continue
        idle = runs()[setup, ""]
        added = dict.fromkeys(PARTS, idle.counts.total - idle.counts.total)
        for symbol, counts in run.counts.by_symbol.items():
            part = _part(symbol, run)
            if part:
                added[part] += counts
        rest = run.counts.by_component["site"] - idle.counts.by_component["site"]
        added["stub" if case == "near" or not added["trampoline"].instructions else "trampoline"] += rest
        for part, counts in added.items():
            records.append({**setup.head, "case": case, "part": part, **{c: getattr(counts, c) for c in COUNTS}})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _part(symbol: str, run: Run) -> str:
    """The one of PARTS that a symbol is; "" for the function and its site."""
    if symbol.startswith("lab_direct_"):
        return "stub"
    at = next(pc for pc in run.instructions if run.symbol_of(pc) == symbol)
    component = run.component_of(at)
    return component if component in PARTS else ""


# -- what is shown


def totals(frame: pd.DataFrame) -> pd.DataFrame:
    """All parts of a call together: columns isa, release, way, hypothetical, case, then COUNTS."""
    keys = ["isa", "release", "way", "hypothetical", "case"]
    return frame.groupby(keys, sort=False, as_index=False)[list(COUNTS)].sum()


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way: instructions of each case, and of the far call what it loads, stores and branches."""
    all_of = shown(totals(frame))
    keys = all_of[["isa", "way"]].drop_duplicates()
    wide = all_of.pivot(index=["isa", "way"], columns="case", values="instructions")[list(CASES)]
    far = all_of[all_of["case"] == "far"].set_index(["isa", "way"])
    for column, name in (("loads", "far_loads"), ("stores", "far_stores"), ("branches_taken", "far_taken")):
        wide[name] = far[column]
    wide = wide.reindex(pd.MultiIndex.from_frame(keys)).reset_index()
    wide.columns.name = None
    wide["near"] = [marked(f"{r.near}", hooks.hypothetical("direct", r.isa)) for r in wide.itertuples()]
    wide.attrs = {"units": dict.fromkeys(CASES, "insns"), "right": ("near",)}
    return wide


def over(frame: pd.DataFrame, isa: str, way: str, case: str) -> int:
    """Instructions that a way takes more (or, below 0, less) than the kernel as it is does, in one call."""
    of = totals(frame).set_index(["isa", "way", "case"])["instructions"]
    return int(of[isa, way, case] - of[isa, IN_OPS, case])


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-lookup-far-added", instructions of a call, "arm64-lookup-far-over", how many more than as the
    kernel is, "arm64-lookup-far-loads" and "-stores"."""
    values: dict[str, object] = {}
    for r in totals(frame).itertuples():
        name = f"{r.isa}-{r.way}-{r.case}"
        values |= {f"{name}-added": int(r.instructions), f"{name}-loads": int(r.loads), f"{name}-stores": int(r.stores)}
        values[f"{name}-over"] = over(frame, str(r.isa), str(r.way), str(r.case))
    return values


_LIMITS = (
    "Emulated counts of one call of a three-argument function over the unhooked one; no timing. in-ops: as kernels are; one-ops: "
    "as x86-64 is since v7.0. A stub saves all argument registers and counts. shared: a far direct call and one ops. ops: one ops, "
    "no direct call. lookup and lookup-c find their entry at once."
)

FIGURES = (
    Figure(
        "fig-single-far",
        "What does a far direct call cost, wherever its target is kept?",
        chart=lambda frame: stacked_bars("instructions", bars="way", stack="part")(_drawn(frame)),
        table=table,
        alt="A panel per ISA: instructions that a direct call out of its site's reach adds, one bar per way to keep the target, "
        "split into ftrace's trampoline, ftrace's C code and the direct call's own stub. The table has near and shared calls too.",
        limits=_LIMITS,
        hypothetical=True,
    ),
)


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    part = shown(frame[(frame["case"] == "far") & (frame["part"] != "callback")])
    part.attrs["units"] = UNITS
    return part
