"""Rows in the order in which a chart shows them."""

from __future__ import annotations

import pandas as pd


def largest_first(frame: pd.DataFrame, name: str, value: str, panel: str = "isa") -> pd.DataFrame:
    """The rows with the names that have most in front, by the mean of what a panel has of one; the same order in all panels.

    >>> rows = pd.DataFrame({"isa": ["a", "a", "a", "b"], "hook": ["x", "y", "y", "x"], "n": [4, 2, 3, 8]})
    >>> list(largest_first(rows, "hook", "n")["hook"]), list(largest_first(rows.head(3), "hook", "n")["hook"])
    (['x', 'y', 'y', 'x'], ['y', 'y', 'x'])
    """
    means = frame.groupby([name, panel], sort=False)[value].sum().groupby(name, sort=False).mean()
    ranks = {name: means.rank(method="first", ascending=False).to_dict()}
    ranks[panel] = {one: n for n, one in enumerate(dict.fromkeys(frame[panel]))}
    return frame.sort_values([panel, name], key=lambda column: column.map(ranks[str(column.name)]), kind="stable")
