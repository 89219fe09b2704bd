"""The same experiment on every ISA and in every release shown, and its rows of the last one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pandas as pd

from tramplab.ftrace import releases
from tramplab.isa import ISAS


def every_release(rows_of: Callable[[str, str], list[dict]]) -> list[dict]:
    """What rows_of(isa, release) gives, with these two as each row's first columns; releases whose kernels are the same are run
    once."""
    made = functools.cache(rows_of)
    return [
        {"isa": isa, "release": release, **row}
        for isa, release in itertools.product(ISAS, releases.shown())
        for row in made(isa, releases.stand_in(isa, release))
    ]


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last release."""
    return frame[frame["release"] == releases.LATEST].reset_index(drop=True)
