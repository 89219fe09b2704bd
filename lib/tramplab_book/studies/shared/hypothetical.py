"""Rows of hooks among which are some that no kernel has: a column that says so, and the mark behind their names."""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace.releases import LATEST
from tramplab.lab import hooks

from ...publish.phrases import marked


def flagged(frame: pd.DataFrame, column: str = "hook", also: tuple[str, ...] = ()) -> pd.DataFrame:
    """The rows with a column `hypothetical` behind the one that names hooks: has no kernel this one, or none of the row's ISA and
    release (without: the newest)? also: names of such that are no hooks of the lab's.

    >>> frame = flagged(pd.DataFrame({"hook": ["ops", "ops-live", "sketch"], "n": [1, 2, 3]}), also=("sketch",))
    >>> list(frame.columns), list(frame["hypothetical"])
    (['hook', 'hypothetical', 'n'], [False, True, True])
    """
    printed = frame.copy()
    none = pd.Series("", index=frame.index)
    places = zip(frame[column], frame.get("isa", none), frame.get("release", none), strict=True)
    is_so = [name in also or hooks.hypothetical(name, isa, release or LATEST) for name, isa, release in places]
    printed.insert(frame.columns.get_loc(column) + 1, "hypothetical", is_so)
    printed.attrs = dict(frame.attrs)
    return printed


def named(frame: pd.DataFrame, column: str = "hook") -> pd.DataFrame:
    """The rows as charts and tables name them: the mark behind each hook that no kernel has; the column that says so is gone.

    >>> named(pd.DataFrame({"hook": ["ops", "ops-live"], "hypothetical": [False, True]}))["hook"].tolist()
    ['ops', 'ops-live *']
    """
    names = [marked(name, bool(is_so)) for name, is_so in zip(frame[column], frame["hypothetical"], strict=True)]
    plotted = frame.assign(**{column: names}).drop(columns="hypothetical")
    plotted.attrs = dict(frame.attrs)
    return plotted
