"""Sequences of ops that come and go, by ISA and release: what judges ask of their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ....publish.claims.verdict import BY_RELEASE, across
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


def per_isa(found: list[Play], value: Callable[[Play], str]) -> str:
    """Values and where they are, those that are the same together: "8 on x86-64 v7.2; 10 on arm64 v7.2, riscv64 v7.2"."""
    places: dict[str, list[str]] = {}
    for p in found:
        places.setdefault(value(p), []).append(str(p))
    if len(places) == 1:
        return f"{next(iter(places))} everywhere"
    return "; ".join(f"{text} on {', '.join(where)}" for text, where in places.items())


def decide(frame: pd.DataFrame, sequence: str, true_of: Callable[[Play], bool]) -> tuple[str, str]:
    """Kind and `on` of a verdict that is decided by a condition on each play of a sequence."""
    cases = [{"isa": p.isa, "release": p.release, "truth": true_of(p)} for p in plays(frame, sequence)]
    return across(pd.DataFrame(cases, columns=["isa", "release", "truth"]), BY_RELEASE)
