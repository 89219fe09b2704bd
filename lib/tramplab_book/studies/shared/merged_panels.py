"""Strips of states in fewer panels: what is the same on two ISAs is drawn once, and what never has a state is left out."""

from __future__ import annotations

import pandas as pd


def merged(frame: pd.DataFrame, nothing: str = "-") -> pd.DataFrame:
    """Rows of a strip (columns isa, step, lane, state) with one panel for all ISAs that have the same states in the same
    lanes, named by all of them. A lane that is `nothing` at every step of an ISA is none there.

    >>> rows = [(isa, "1", lane, state) for isa, state in (("a", "x"), ("b", "x"), ("c", "y")) for lane, state in
    ...         (("site", state), ("pointer", "-"))]
    >>> print(merged(pd.DataFrame(rows, columns=["isa", "step", "lane", "state"])).to_string(index=False))
     isa step lane state
    a, b    1 site     x
       c    1 site     y
    """
    present = frame.groupby(["isa", "lane"])["state"].transform(lambda states: (states != nothing).any())
    panels: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for isa, panel in frame[present].groupby("isa", sort=False):
        rows = panel[["step", "lane", "state"]].itertuples(index=False, name=None)
        panels.setdefault(tuple(rows), []).append(str(isa))
    columns = ["isa", "step", "lane", "state"]
    return pd.DataFrame([(", ".join(isas), *row) for rows, isas in panels.items() for row in rows], columns=columns)
