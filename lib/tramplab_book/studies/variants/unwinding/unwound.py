"""What unwinders find of calls, counted by part of the call, and in words: what the studies of unwinding share."""

from __future__ import annotations

import pandas as pd

from tramplab.unwind.unwind import APART, BOTH, CALLER, FUNCTION

from ....publish import phrases
from ....publish.figures.chart import Drawing, heat_map

#: How a kernel is unwound. FP: by frame pointers, in a kernel built with them. ORC: by ORC's rules, in one built without.
#: OFF: as FP, but what moves the frame pointer in ftrace's trampolines is a NOP; where they have such moves no kernel is so.
#: WITHOUT: by frame pointers in a kernel that is built without.
FP, ORC, OFF, WITHOUT = HOW = ("fp", "ORC", phrases.marked("fix-up off"), "no frames")
PARTS = ("site", "trampoline", "core", "callback", "function")
INSIDE = ("trampoline", "core", "callback")  # parts that are the hook's
KEYS = ["isa", "release", "hook", "unwound"]
UNITS = {"share": "% of its instructions"}


def percent(good: int, of: int) -> int:
    """A share in whole percent; 0 and 100 only where it is none or all.

    >>> percent(199, 200), percent(1, 300), percent(7, 7), percent(0, 7)
    (99, 1, 100, 0)
    """
    return round(100 * good / of) if good in (0, of) else min(99, max(1, round(100 * good / of)))


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """From rows of stretches: a row per ISA, release, hook, way of unwinding and part of the call, in the order of tables.

    Columns: isa, release, hook, unwound (one of HOW), part, boundaries (instructions), function, caller, both (at how many of
    them that was found; both: the caller behind the function, with at most what called it between them), guessed (at how many
    ORC's rules end in a guess), share (of both, in percent), hypothetical (no kernel is so).
    """
    found = frame["found"]
    picked = {
        "boundaries": frame["boundaries"] > 0,
        "function": found.isin([BOTH, FUNCTION, APART]),
        "caller": found.isin([BOTH, CALLER, APART]),
        "both": (found == BOTH) | (found == APART) & (frame["wrong"] == ""),
        "guessed": frame["guessed"],
    }
    counted = frame[KEYS].assign(
        part=frame["component"], **{name: frame["boundaries"].where(rows, 0) for name, rows in picked.items()}
    )
    sums = counted.groupby([*KEYS, "part"], sort=False).sum().reset_index()
    places = {"unwound": HOW, "part": PARTS, **{key: tuple(frame[key].unique()) for key in ("isa", "release", "hook")}}
    sums = sums.sort_values([*KEYS, "part"], key=lambda column: column.map(places[column.name].index), ignore_index=True)
    sums["share"] = [percent(good, of) for good, of in zip(sums["both"], sums["boundaries"], strict=True)]
    sums["hypothetical"] = sums["unwound"] == OFF
    sums.attrs["units"] = UNITS
    return sums


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Per ISA, hook and way of unwinding: at how many of how many instructions both are found, in each part of the hook, and in the
    whole call, with the function's own."""
    data = rows.assign(cell=rows["both"].astype(str) + "/" + rows["boundaries"].astype(str))
    index = pd.MultiIndex.from_frame(rows[["isa", "hook", "unwound"]].drop_duplicates())
    wide = data.pivot(index=["isa", "hook", "unwound"], columns="part", values="cell").reindex(index)
    whole = rows.groupby(["isa", "hook", "unwound"])[["both", "boundaries"]].sum().astype(str).agg("/".join, axis="columns")
    wide = wide[[part for part in INSIDE if part in wide]].assign(call=whole)
    printed = wide.reset_index().fillna("-").rename_axis(columns=None)
    printed.attrs["right"] = (*INSIDE, "call")
    return printed


def chart(rows: pd.DataFrame, panel: str) -> Drawing:
    """A panel per value of a column, in it a row per kernel and a column per part of the hook: the share of the part's
    instructions. The kernel that finds most comes first."""
    data = rows[rows["part"] != "function"].assign(kernel=kernels_named(rows))
    best = data.groupby("kernel", sort=False)["share"].mean().sort_values(ascending=False, kind="stable")
    drawn = data.sort_values("kernel", key=lambda names: names.map(list(best.index).index), kind="stable")
    drawn = drawn.sort_values(panel, key=lambda names: names.map(list(dict.fromkeys(rows[panel])).index), kind="stable")
    drawn.attrs["units"] = UNITS
    return heat_map("share", rows="kernel", columns="part", facet=panel)(drawn)


def kernels_named(rows: pd.DataFrame) -> pd.Series:
    """How charts name a kernel: its ISA, and how it is unwound where there is more than one way."""
    several = rows.groupby("isa")["unwound"].transform("nunique") > 1
    return rows["isa"].map(phrases.isa_name) + (" " + rows["unwound"]).where(several, "")
