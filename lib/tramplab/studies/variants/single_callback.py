"""What does one hook cost, part by part, on each ISA and in each release?"""

from __future__ import annotations

import pandas as pd

from ...emulate.counts import COMPONENTS, Counts
from ...emulate.machine import COUNT
from ...ftrace import releases
from ...lab import hooks
from ...lab.kernel import Kernel
from ...lab.measure import FUNCTIONS
from ...publish.figures.chart import heat_map, stacked_bars
from ...publish.figures.figure import Figure
from ...publish.table import pivot
from ..every_release import every_release
from ..once import once

NAME = "single_callback"
TITLE = "What one hook adds to a call"
#: (hook, callbacks) in the order of the figure; a hook with several callbacks is written "ops x2".
_FIRST = (("none", 1), ("ops", 1), ("ops-regs", 1), ("ops", 2), ("ops", 10))
CASES = (*_FIRST, *((name, 1) for name in hooks.HOOKS if (name, 1) not in _FIRST))
ARGS = 3
UNITS = {"load_bytes": "B", "store_bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, hook and component: the counts of one call of a three-argument function.

    Columns: isa, release, hook, callbacks, component, then the counts. A hook that a release never had has no rows. The
    order is that of the figure.
    """
    frame = pd.DataFrame(every_release(_costs))
    frame.attrs["units"] = UNITS
    return frame


def _costs(isa: str, release: str) -> list[dict[str, object]]:
    """The rows of one kernel, for each hook that the release has."""
    kernel, out = Kernel(isa, release, meter=COUNT), []
    function = kernel.function(FUNCTIONS[ARGS])
    for name, callbacks in CASES:
        hook = hooks.get(name)
        if not kernel.features[hook.needs]:
            continue
        with kernel.attached(function, *hooks.requests(hook, callbacks)):
            counts = kernel.call(function, *range(1, ARGS + 1)).counts.by_component
        head = {"hook": hooks.label(name, callbacks), "callbacks": callbacks if name != "none" else 0}
        out += [{**head, "component": c, **counts[c].as_dict()} for c in COMPONENTS]
    return out


def costs(frame: pd.DataFrame) -> pd.DataFrame:
    """What each hook adds to the unhooked call, summed over components: columns isa, hook, release, then the counts."""
    keys, values = ["isa", "hook", "release"], [name for name in frame.columns if name in Counts().as_dict()]
    sums = frame.groupby(keys, sort=False)[values].sum()
    base = sums.xs("none", level="hook")
    out = sums.drop(index="none", level="hook").reset_index()
    out[values] -= base.loc[list(zip(out["isa"], out["release"], strict=True))].to_numpy()
    out.attrs["units"] = UNITS
    return out


def added(frame: pd.DataFrame, value: str = "instructions") -> pd.DataFrame:
    """One column of costs() as a table: columns isa, hook, then one per release.

    Releases that never had the hook are empty.
    """
    long = costs(frame)
    keys = list(dict.fromkeys(zip(long["isa"], long["hook"], strict=True)))
    wide = long.pivot(index=["isa", "hook"], columns="release", values=value)
    table = wide.reindex(index=keys, columns=list(releases.shown())).reset_index()
    table.columns.name = None
    return table


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last release, without the cases of more than two callbacks, which would dwarf the rest."""
    rows = frame[(frame["release"] == releases.LATEST) & (frame["callbacks"] <= 2)]
    rows.attrs["units"] = frame.attrs["units"]
    return rows


def cost(frame: pd.DataFrame, isa: str, hook: str, release: str, value: str = "instructions") -> int:
    """What a hook adds to the unhooked call: one number of added()."""
    here = frame[(frame["isa"] == isa) & (frame["release"] == release)]
    return int(here.loc[here["hook"] == hook, value].sum() - here.loc[here["hook"] == "none", value].sum())


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by name.

    "newest", and the cost of every hook, like "arm64-direct-ops-v6-4".
    """
    table = added(frame)
    out: dict[str, object] = {"newest": releases.LATEST}
    for _, line in table.iterrows():
        for release in releases.shown():
            if not pd.isna(line[release]):
                name = "-".join((line["isa"], line["hook"], release))
                out[name.translate(str.maketrans(" +.", "---"))] = int(line[release])
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions added, by release."""
    return added(frame)


FIGURES = (
    Figure(
        "fig-single-callback",
        f"Where do the instructions of one hooked call go? ({releases.LATEST})",
        rows=newest,
        chart=stacked_bars("instructions"),
        table=pivot("instructions", index=("isa", "hook")),
        alt="Bars per ISA: instructions of one call of a three-argument function, one bar per hook, split into site, "
        "trampoline, core, callback and function. The table below has every number.",
        limits="Emulated counts of instructions in one call of a three-argument function; no timing.",
    ),
    Figure(
        "fig-by-release",
        "How many instructions does a hook add, release by release?",
        chart=lambda frame: heat_map("instructions", rows="hook", columns="release", per_row=True)(costs(frame)),
        table=added,
        alt="A panel per ISA: instructions that each hook adds in each release, printed in cells; within a row a darker cell "
        "is a larger number. The table below has the same numbers.",
        limits="Emulated counts, no timing. A dash: that release never had the hook on that ISA.",
    ),
)
