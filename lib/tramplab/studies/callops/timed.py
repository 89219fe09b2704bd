"""Does the grid grow as it was timed? The cells of the published tables, each a multiple of one ops with CALL_OPS."""

from __future__ import annotations

import functools
import itertools

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...emulate.machine import RECORD
from ...lab.run import Run
from ...publish import published
from ...publish.cite.cite import ESTIMATES
from ...publish.figures.chart import dumbbell
from ...publish.figures.figure import Figure
from ...publish.said import estimated, listed
from ...trampolines.plain import Ops
from ..once import once
from ..time import published_call_ops
from ..time.published_call_ops import CALLBACK, FUNCTION, OTHER, TABLES, Table
from . import dispatch
from .dispatch import WITH, WITHOUT

NAME = "call_ops_timed"
TITLE = "The published grid of CALL_OPS, counted and estimated"
#: Cells of the published tables with an ops on the function.
CELLS = (*dispatch.ELSEWHERE, *dispatch.HERE)
#: What every number is a multiple of.
REFERENCE = (WITH, 1, 0)
#: The one cell that is estimated besides those of published_call_ops: a hundred ops on the function take as long as all these.
FAR = (WITHOUT, 1, 100)
#: As the tables say it.
SIDES = {WITHOUT: "before", WITH: "after"}
#: Rows that are published with a mistake (the total beside it is another), by id.
MISTAKEN = ("riscv-callops-qemu-before-r1-i2-overhead",)
#: Cells that do not fit the rest of their own table, and why is not published: shown, and nothing is concluded from them.
ODD = (("M1", WITHOUT, 1, 0),)
UNITS = {"published": "ns added", "instructions": "added"}


@functools.cache
def _run(isa: str, built: str, here: int, elsewhere: int) -> tuple[Run, Run]:
    """A call with so many ops, and the same call before they were attached."""
    kernel = next(b for b in dispatch.builds() if (b.isa, b.built) == (isa, built)).kernel(RECORD)
    function = kernel.function(FUNCTION)
    unhooked = kernel.call(function)
    for place, n in ((kernel.function(OTHER), elsewhere), (function, here)):
        kernel.attach(place, *(Ops(callback=CALLBACK) for _ in range(n)))
    return kernel.call(function), unhooked


def ratio(isa: str, of: str, built: str, here: int, elsewhere: int) -> dict[str, float]:
    """What a cell adds on a core, as a multiple of one ops with CALL_OPS: cycles_ratio, and its band ratio_low to ratio_high."""
    e = cycles.relative(_run(isa, built, here, elsewhere), _run(isa, *REFERENCE), core(of))
    return {"cycles_ratio": round(e.mid, 2), "ratio_low": round(e.low, 2), "ratio_high": round(e.high, 2)}


def in_table(one: Table, built: str, here: int, elsewhere: int) -> published.Measurement | None:
    """What a table has of a cell; None if it has not got it."""
    return published.read().get(f"{one.ids}-{SIDES[built]}-r{here}-i{elsewhere}-overhead")


@once
def rows() -> pd.DataFrame:
    """One row per published table, side and cell that it has, with an ops on the function.

    Columns: isa, machine, built (WITHOUT, WITH), here, elsewhere, published (ns), mistaken (is it published with a mistake?), odd
    (does it not fit its own table?), instructions; then multiples of REFERENCE: published_ratio, instructions_ratio, and where they
    are estimated, on machines that a core's model is of, cycles_ratio, ratio_low, ratio_high.
    """
    estimates = published_call_ops.rows().set_index(["machine", "case"])[["cycles_ratio", "ratio_low", "ratio_high"]]
    counted = dispatch.rows().set_index(["isa", "built", "here", "elsewhere"])["instructions"]
    out = []
    for one in TABLES:
        first = in_table(one, *REFERENCE)
        for built, side in SIDES.items():
            for cell in CELLS:
                found = in_table(one, built, *cell)
                if found is None or first is None:
                    continue
                n = int(counted.loc[(one.isa, built, *cell)])
                row = {"isa": one.isa, "machine": one.machine, "built": built, "here": cell[0], "elsewhere": cell[1]}
                row |= {"published": found.ns, "mistaken": found.id in MISTAKEN, "odd": (one.machine, built, *cell) in ODD}
                row |= {"instructions": n, "published_ratio": round(found.ns / first.ns, 2)}
                row |= {"instructions_ratio": round(n / int(counted.loc[(one.isa, *REFERENCE)]), 2)}
                row |= estimates.T.get((one.machine, f"{side} {cell[0]}/{cell[1]}"), {})
                if one.core and (built, *cell) == FAR:
                    row |= ratio(one.isa, one.core, *FAR)
                out.append(row)
    frame = pd.DataFrame(out).astype({"cycles_ratio": float, "ratio_low": float, "ratio_high": float})
    frame.attrs["units"] = UNITS
    return frame


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column that says which cell of which side it is: "before 1/10"."""
    return frame.assign(case=[f"{SIDES[str(r.built)]} {r.here}/{r.elsewhere}" for r in frame.itertuples()])


def different(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the cells that with CALL_OPS run what another one runs, and without the reference itself."""
    return frame[(frame["built"] == WITHOUT) | (frame["here"] > 1)]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per table: ns, and the multiples; estimates with their bands."""
    told = named(frame)
    marks = ["!" if r.mistaken else "?" if r.odd else "" for r in told.itertuples()]
    out = pd.DataFrame(
        {
            "table": told["isa"] + ", " + told["machine"],
            "case": told["case"],
            "ns": [f"{r.published:g}{m}" for r, m in zip(told.itertuples(), marks, strict=True)],
            "published": [f"{v:.2f}" for v in told["published_ratio"]],
            "counted": [f"{v:.2f}" for v in told["instructions_ratio"]],
            "estimated": [
                "-" if pd.isna(r.cycles_ratio) else estimated(r.cycles_ratio, r.ratio_low, r.ratio_high, digits=1)
                for r in told.itertuples()
            ],
        }
    )
    out = out.rename(columns={"table": "isa"})
    out.attrs = {"right": ("ns", "published", "counted", "estimated"), "units": {"ns": "added"} | dict.fromkeys(
        ("published", "counted", "estimated"), "ratio")}  # fmt: skip
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per table, cell and who says it, as far as cells differ and nothing is wrong with them."""
    cells = different(named(frame))
    cells = cells[~cells["mistaken"] & ~cells["odd"]]
    parts = [
        cells.assign(by=by, ratio=cells[column], low=cells[low], high=cells[high])
        for by, column, low, high in (
            ("published time", "published_ratio", "published_ratio", "published_ratio"),
            ("counted instructions", "instructions_ratio", "instructions_ratio", "instructions_ratio"),
            ("estimated cycles", "cycles_ratio", "ratio_low", "ratio_high"),
        )
    ]
    out = pd.concat([part.dropna(subset=["ratio"]) for part in parts], ignore_index=True)
    order = list(dict.fromkeys(frame["machine"]))
    return out.sort_values("machine", key=lambda s: s.map(order.index), kind="stable", ignore_index=True)


def steps(frame: pd.DataFrame, machine: str, built: str, line: str) -> dict[tuple[int, int], float]:
    """What each ops more was timed at, in ns, between the cells of a line ("here" or "elsewhere") that follow each other: by their
    numbers of ops. Cells with a mistake, or that do not fit their table, are left out."""
    part = frame[(frame["machine"] == machine) & (frame["built"] == built) & ~frame["mistaken"] & ~frame["odd"]]
    part = part[part["here"] == 1] if line == "elsewhere" else part[part["here"] > 1]
    cells = list(zip(part[line], part["published"], strict=True))
    return {(a, b): (y - x) / (b - a) for (a, x), (b, y) in itertools.pairwise(cells)}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: by table and cell, such as "k1-before-1-100", "-ns", "-ratio", "-instructions-ratio", and where
    it is estimated "-cycles-ratio" with its band; and "k1-elsewhere-step-low" and "-high", what each ops elsewhere was timed at, in
    ns, at the least and at the most."""
    out: dict[str, object] = {}
    for r in named(frame).itertuples():
        key = f"{r.machine.lower()}-{r.case.replace(' ', '-').replace('/', '-')}"
        out |= {f"{key}-ns": f"{r.published:g}", f"{key}-ratio": f"{r.published_ratio:.1f}"}
        out[f"{key}-instructions-ratio"] = f"{r.instructions_ratio:.1f}"
        if not pd.isna(r.cycles_ratio):
            out[f"{key}-cycles-ratio"] = estimated(r.cycles_ratio, r.ratio_low, r.ratio_high, digits=1)
    for machine in dict.fromkeys(frame["machine"]):
        found = steps(frame, machine, WITHOUT, "elsewhere").values()
        out |= {f"{machine.lower()}-elsewhere-step-{end}": f"{n:.0f}" for end, n in (("low", min(found)), ("high", max(found)))}
    return out


def answer(frame: pd.DataFrame) -> str:
    """How far counts, and what stands above and below the estimates' bands; and where a table does not grow evenly."""
    sides = []
    for machine, part in different(frame).groupby("machine", sort=False):
        known = part[part["cycles_ratio"].notna() & ~part["mistaken"] & ~part["odd"]]
        if known.empty:
            continue
        above, below = (int(n) for n in (sum(known["published_ratio"] > known["ratio_high"]),
                                         sum(known["published_ratio"] < known["ratio_low"])))  # fmt: skip
        inside = len(known) - above - below
        sides.append(f"of {len(known)} estimated cells of the {machine} {inside} lie in the band, {above} above, {below} below")
    ends = {machine: steps(frame, machine, WITHOUT, "elsewhere").values() for machine in dict.fromkeys(frame["machine"])}
    grown = listed(f"{min(of):.0f} to {max(of):.0f} ns on {machine}" for machine, of in ends.items())
    return (
        "As multiples of one dynamic ops with CALL_OPS, " + "; ".join(sides) + ". "
        f"Each ops elsewhere was timed at {grown}, by the part of the table; counts add the same for each."
    )


FIGURES = (
    Figure(
        "fig-dispatch-timed",
        "Does the grid grow as it was timed?",
        chart=lambda frame: dumbbell("ratio", "case", "by", low="low", high="high", facet="machine")(dumbbells(frame)),
        table=table,
        answer=answer,
        alt="A panel per published table and a line per cell: the published time, the counted instructions and, as far as there "
        "are any, the estimated cycles, all as multiples of one ops with CALL_OPS. The table below has every number.",
        limits="Published times as multiples of their own after 1/0, counts and estimates likewise; estimates with the band of the "
        "core's uncertain parameters. Ops are dynamic. a/b: a ops on the function, b on another one. !: published with a mistake, "
        "it repeats the row above. ?: does not fit the rest of its table, and is not used.",
        in_short=ESTIMATES,
    ),
)
