"""Sequences of ops that come and go, by ISA and release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from ....publish.phrases import isa_name


@dataclass(frozen=True)
class Play:
    """One sequence on one ISA and release: by what is attached, the first and the last row with just that."""

    isa: str
    release: str
    first: dict[str, Any]
    last: dict[str, Any]

    def __str__(self) -> str:
        return f"{isa_name(self.isa)} {self.release}"


def plays(frame: pd.DataFrame, sequence: str) -> list[Play]:
    """Every play of a sequence, in order."""
    records = []
    for (isa, release), part in frame[frame["sequence"] == sequence].groupby(["isa", "release"], sort=False):
        lines = list(part.itertuples(index=False))
        records.append(Play(isa, release, {r.ops: r for r in reversed(lines)}, {r.ops: r for r in lines}))
    return records


def newest_plays(frame: pd.DataFrame, sequence: str) -> list[Play]:
    """The play of each ISA's last release that has one."""
    return list({p.isa: p for p in plays(frame, sequence)}.values())
