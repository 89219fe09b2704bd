"""Rows that are made once in a process: a page, its boxes and the ledger ask for them again and again."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pandas as pd


def once(make: Callable[[], pd.DataFrame]) -> Callable[[], pd.DataFrame]:
    """The function, run at its first call only; every call gives a copy, which the caller may change.

    >>> @once
    ... def rows():
    ...     print("running")
    ...     return pd.DataFrame({"n": [1]})
    >>> changed = rows()
    running
    >>> changed["n"] = 2
    >>> int(rows()["n"].iloc[0])
    1
    """
    kept = functools.cache(make)

    @functools.wraps(make)
    def rows() -> pd.DataFrame:
        return kept().copy()

    return rows
