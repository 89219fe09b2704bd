"""What does one hook cost, part by part, on each ISA and in each release?"""

from __future__ import annotations

import pandas as pd

from ..emulate.counts import COMPONENTS
from ..ftrace import hooks, releases
from ..ftrace.measure import measure
from ..isa import ISAS

NAME = "single_callback"
TITLE = "What one hook adds to a call"
#: (hook, callbacks) in the order of the figure; a hook with several callbacks is written "ops x2".
CASES = (
    ("none", 1),
    ("ops", 1),
    ("ops-regs", 1),
    ("ops", 2),
    ("ops", 10),
    ("direct", 1),
    ("direct-far", 1),
    ("direct+ops", 1),
)
ARGS = 3
UNITS = {"load_bytes": "B", "store_bytes": "B"}


def label(hook: str, callbacks: int) -> str:
    """A case as rows name it.

    >>> label("ops", 10)
    'ops x10'
    """
    return hook if callbacks == 1 else f"{hook} x{callbacks}"


def rows() -> pd.DataFrame:
    """One row per ISA, release, hook and component: the counts of one call of a three-argument function.

    Columns: isa, release, hook, callbacks, component, then the counts. A hook that a release never had has no rows. The
    order is that of the figure.
    """
    out = []
    for isa in ISAS.values():
        for release in releases.shown():
            features = releases.features(isa, release, {})
            for hook, callbacks in CASES:
                if not features[hooks.get(hook).needs]:
                    continue
                m = measure(isa.name, hook, release, ARGS, callbacks)
                head = {
                    "isa": isa.name,
                    "release": release,
                    "hook": label(hook, callbacks),
                    "callbacks": m["callbacks"],
                }
                out += [{**head, "component": c, **m["components"][c]} for c in COMPONENTS]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def added(frame: pd.DataFrame, value: str = "instructions") -> pd.DataFrame:
    """The cost over the unhooked call, summed over components: columns isa, hook, then one per release.

    Releases that never had the hook are empty.
    """
    sums = frame.groupby(["isa", "hook", "release"], sort=False)[value].sum().reset_index()
    base = sums[sums["hook"] == "none"].set_index(["isa", "release"])[value]
    sums[value] -= [base[i, r] for i, r in zip(sums["isa"], sums["release"], strict=True)]
    sums = sums[sums["hook"] != "none"]
    keys = list(dict.fromkeys(zip(sums["isa"], sums["hook"], strict=True)))
    wide = sums.pivot(index=["isa", "hook"], columns="release", values=value).reindex(
        index=keys, columns=list(releases.shown())
    )
    table = wide.reset_index()
    table.columns.name = None
    return table


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last release, without the cases of more than two callbacks, which would dwarf the rest."""
    rows = frame[(frame["release"] == releases.shown()[-1]) & (frame["callbacks"] <= 2)]
    rows.attrs["units"] = frame.attrs["units"]
    return rows


def cost(frame: pd.DataFrame, isa: str, hook: str, release: str, value: str = "instructions") -> int:
    """What a hook adds to the unhooked call: one number of added()."""
    here = frame[(frame["isa"] == isa) & (frame["release"] == release)]
    return int(here.loc[here["hook"] == hook, value].sum() - here.loc[here["hook"] == "none", value].sum())


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions added, by release."""
    return added(frame)
