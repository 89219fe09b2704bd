"""What would the published table be on the core of a VisionFive 2? An estimate beside the table of another core, as ratios."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...publish.cite.cite import ESTIMATES
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.chart import dumbbell
from ...publish.figures.figure import Figure
from ...publish.said import estimated, slug
from ..once import once
from . import timed
from .dispatch import WITH, WITHOUT

NAME = "call_ops_u74"
TITLE = "CALL_OPS on a U74, estimated"
ISA, CORE, TIMED_ON = "riscv64", "sifive-u74", "K1"
#: Cells that are estimated: those of the published table up to ten ops on the function, and a hundred elsewhere.
CELLS = (
    *((WITHOUT, *cell) for cell in ((1, 0), (1, 1), (1, 2), (1, 10), (1, 100), (2, 0), (10, 0))),
    *((WITH, *cell) for cell in ((1, 0), (2, 0), (10, 0))),
)
#: Where each ops elsewhere takes up to so many times what another one does, they grow evenly; the bound is ours.
EVENLY = 1.5
UNITS: dict[str, str] = {}


@once
def rows() -> pd.DataFrame:
    """One row per cell of CELLS: what it adds to a call as a multiple of one ops with CALL_OPS.

    Columns: built, here, elsewhere (see dispatch), case (as the tables say it), u74, u74_low, u74_high (estimated for the U74),
    x60, x60_low, x60_high (for the core of the K1), timed (the K1's published ratio).
    """
    table = timed.rows()
    known = table[table["machine"] == TIMED_ON].set_index(["built", "here", "elsewhere"])
    names = {"cycles_ratio": "", "ratio_low": "_low", "ratio_high": "_high"}
    out = []
    for cell in CELLS:
        row = {"built": cell[0], "here": cell[1], "elsewhere": cell[2], "case": f"{timed.SIDES[cell[0]]} {cell[1]}/{cell[2]}"}
        row |= {f"u74{end}": value for end, value in zip(names.values(), timed.ratio(ISA, CORE, *cell).values(), strict=True)}
        row |= {f"x60{end}": float(known.loc[cell, name]) for name, end in names.items()}
        out.append(row | {"timed": float(known.loc[cell, "published_ratio"])})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def other(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the reference itself."""
    return frame[frame["case"] != "after 1/0"]


def _band(row: Any, core: str) -> str:
    return estimated(row[core], row[f"{core}_low"], row[f"{core}_high"], digits=1 if row[core] < 10 else 0)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per cell: the two estimates with their bands, and what was timed."""
    part = other(frame).to_dict("records")
    out = pd.DataFrame(
        {
            "case": [r["case"] for r in part],
            "U74": [_band(r, "u74") for r in part],
            "X60": [_band(r, "x60") for r in part],
            "K1": [f"{r['timed']:.1f}" for r in part],
        }
    )
    out.attrs = {"right": ("U74", "X60", "K1"), "units": {"U74": "estimate", "X60": "estimate", "K1": "published"}}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per cell and who says it."""
    part = other(frame)
    marks = (("U74, estimated", "u74", "u74_low", "u74_high"), ("X60, estimated", "x60", "x60_low", "x60_high"))
    parts = [part.assign(by=by, ratio=part[c], low=part[low], high=part[high]) for by, c, low, high in marks]
    parts.append(part.assign(by="K1, published", ratio=part["timed"], low=part["timed"], high=part["timed"]))
    return pd.concat(parts, ignore_index=True).assign(of="multiples of after 1/0")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by case: "before-1-0-u74-ratio" and "-x60-ratio" with their bands, "-k1-ratio" as published."""
    out: dict[str, object] = {}
    for r in frame.to_dict("records"):
        key = slug(r["case"])
        out |= {f"{key}-u74-ratio": _band(r, "u74"), f"{key}-x60-ratio": _band(r, "x60"), f"{key}-k1-ratio": f"{r['timed']:.1f}"}
    return out


def inside(frame: pd.DataFrame, core: str) -> int:
    """Of how many cells the published ratio of the K1 lies in a core's band."""
    part = other(frame)
    return int(part["timed"].between(part[f"{core}_low"], part[f"{core}_high"]).sum())


def _case(frame: pd.DataFrame, case: str) -> dict[str, Any]:
    return next(r for r in frame.to_dict("records") if r["case"] == case)


def answer(frame: pd.DataFrame) -> str:
    """What CALL_OPS is worth to one ops on a U74, alone and beside a hundred elsewhere, and what was timed on the K1."""
    alone, far = _case(frame, "before 1/0"), _case(frame, "before 1/100")
    return (
        f"On a U74 one dynamic ops is estimated to cost {_band(alone, 'u74')} times as much without CALL_OPS as with it, with a "
        f"hundred ops elsewhere {_band(far, 'u74')} times; a K1 was timed at {alone['timed']:.1f} and {far['timed']:.1f} times "
        "(published)."
    )


def growth(case_frame: pd.DataFrame) -> tuple[float, float]:
    """What each ops elsewhere was timed at on the K1, in ns: the least and the most between neighbouring cells of the table."""
    found = timed.steps(case_frame, TIMED_ON, WITHOUT, "elsewhere").values()
    return min(found), max(found)


@judges("r12")
def needed(frame: pd.DataFrame | None = None, table: pd.DataFrame | None = None) -> Verdict:
    """Numbers of real hardware are needed if an estimate for the core that was timed misses one of them, or if they do not grow
    evenly, as every count does. What a VisionFive 2 takes was not measured: its estimate stands beside."""
    frame, table = rows() if frame is None else frame, timed.rows() if table is None else table
    cells, hit = len(other(frame)), inside(frame, "x60")
    low, high = growth(table)
    kind, on = across(pd.DataFrame({"isa": [ISA], "truth": [hit < cells or high > EVENLY * low]}), {"isa": "the ISA"})
    alone, far = _case(frame, "before 1/0"), _case(frame, "before 1/100")
    because = (
        f"Of {cells} ratios timed on a K1, {hit} lie in the bands estimated for its core; each ops elsewhere took {low:.0f} to "
        f"{high:.0f} ns there, where every count adds the same for each. For a VisionFive 2's U74, unmeasured, the estimate is "
        f"{_band(alone, 'u74')} times for one dynamic ops and {_band(far, 'u74')} beside a hundred; the K1's {alone['timed']:.1f} "
        f"and {far['timed']:.1f}."
    )
    values = {"cells": cells, "in the X60's band": hit, "ns per ops elsewhere, least": round(low), "most": round(high)}
    return Verdict(kind, because, values, on)


FIGURES = (
    Figure(
        "fig-u74",
        "What would CALL_OPS be worth on a VisionFive 2?",
        chart=lambda frame: dumbbell("ratio", "case", "by", low="low", high="high", facet="of", columns=1)(dumbbells(frame)),
        table=table,
        answer=answer,
        alt="A line per cell of the published table: estimates for the U74 and for the K1's X60 with their bands, and the K1's "
        "published time, all as multiples of one ops with CALL_OPS. The table below has every number.",
        limits="Ratios, no times. Estimates with models of the cores: warm caches, predicted branches; the bands vary what is not "
        "known of the core. Published: K1, message 20250407180838.42877-10-andybnac@gmail.com. "
        "Ops are dynamic. a/b: a ops on the function, b on another one.",
        in_short=ESTIMATES,
    ),
)
