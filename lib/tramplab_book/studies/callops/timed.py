"""Does the grid grow as it was timed? The cells of the published tables, each a multiple of one ops with CALL_OPS."""

from __future__ import annotations

import itertools

import pandas as pd

from ...publish import published
from ...publish.figures.chart import dumbbell
from ...publish.figures.figure import Figure
from ..memo import once
from ..time.published_call_ops import TABLES, Table
from . import dispatch
from .dispatch import WITH, WITHOUT

NAME = "call_ops_timed"
TITLE = "The published grid of CALL_OPS, timed and counted"
#: Cells of the published tables with an ops on the function.
CELLS = (*dispatch.ELSEWHERE, *dispatch.HERE)
#: The reference of all ratios.
REFERENCE = (WITH, 1, 0)
#: Their names in the tables.
SIDES = {WITHOUT: "before", WITH: "after"}
#: Rows that are published with a mistake (the total beside it is another), by id.
MISTAKEN = ("riscv-callops-qemu-before-r1-i2-overhead",)
#: Cells that do not fit the rest of their own table, and why is not published: shown, and nothing is concluded from them.
ODD = (("M1", WITHOUT, 1, 0),)
UNITS = {"published": "ns added", "instructions": "added"}


def in_table(one: Table, built: str, here: int, elsewhere: int) -> published.Measurement | None:
    """The number that a published table has for a cell; None if it has none."""
    return published.read().get(f"{one.ids}-{SIDES[built]}-r{here}-i{elsewhere}-overhead")


@once
def rows() -> pd.DataFrame:
    """One row per published table, side and cell that it has, with an ops on the function.

    Columns: isa, machine, built (WITHOUT, WITH), here, elsewhere, published (ns), mistaken (is it published with a mistake?), odd
    (does it not fit its own table?), instructions; then multiples of REFERENCE: published_ratio, instructions_ratio.
    """
    counted = dispatch.timed().set_index(["isa", "built", "here", "elsewhere"])["instructions"]
    records = []
    for one in TABLES:
        first = in_table(one, *REFERENCE)
        for built in SIDES:
            for cell in CELLS:
                found = in_table(one, built, *cell)
                if found is None or first is None:
                    continue
                n = int(counted.loc[(one.isa, built, *cell)])
                row = {"isa": one.isa, "machine": one.machine, "built": built, "here": cell[0], "elsewhere": cell[1]}
                row |= {"published": found.ns, "mistaken": found.id in MISTAKEN, "odd": (one.machine, built, *cell) in ODD}
                row |= {"instructions": n, "published_ratio": round(found.ns / first.ns, 2)}
                row |= {"instructions_ratio": round(n / int(counted.loc[(one.isa, *REFERENCE)]), 2)}
                records.append(row)
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column that says which cell of which side it is: "before 1/10"."""
    return frame.assign(case=[f"{SIDES[str(r.built)]} {r.here}/{r.elsewhere}" for r in frame.itertuples()])


def compared(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows without the cells that with CALL_OPS run what another one runs, the reference itself, and cells with which something
    is wrong."""
    return frame[((frame["built"] == WITHOUT) | (frame["here"] > 1)) & ~frame["mistaken"] & ~frame["odd"]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per table: ns, and the multiples."""
    rows = named(frame)
    marks = ["!" if r.mistaken else "?" if r.odd else "" for r in rows.itertuples()]
    printed = pd.DataFrame(
        {
            "table": rows["isa"] + ", " + rows["machine"],
            "case": rows["case"],
            "ns": [f"{r.published:g}{m}" for r, m in zip(rows.itertuples(), marks, strict=True)],
            "published": [f"{v:.2f}" for v in rows["published_ratio"]],
            "counted": [f"{v:.2f}" for v in rows["instructions_ratio"]],
        }
    )
    printed = printed.rename(columns={"table": "isa"})
    printed.attrs = {"right": ("ns", "published", "counted"), "units": {"ns": "added", "published": "ratio", "counted": "ratio"}}
    return printed


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per table, cell of compared() and who says it."""
    cells = named(compared(frame))
    marks = (("published time", "published_ratio"), ("counted instructions", "instructions_ratio"))
    out = pd.concat([cells.assign(by=by, ratio=cells[column]) for by, column in marks], ignore_index=True)
    order = list(dict.fromkeys(frame["machine"]))
    return out.sort_values("machine", key=lambda s: s.map(order.index), kind="stable", ignore_index=True)


def steps(
    frame: pd.DataFrame, machine: str, built: str, line: str, value: str = "published"
) -> dict[tuple[int, int], float]:
    """What each ops more was timed at, in ns, or with value="instructions" counted at, between the cells of a line ("here" or
    "elsewhere") that follow each other: by their numbers of ops. Cells with a mistake, or that do not fit their table, are left
    out."""
    part = frame[(frame["machine"] == machine) & (frame["built"] == built) & ~frame["mistaken"] & ~frame["odd"]]
    part = part[part["here"] == 1] if line == "elsewhere" else part[part["here"] > 1]
    cells = list(zip(part[line], part[value], strict=True))
    return {(a, b): (y - x) / (b - a) for (a, x), (b, y) in itertools.pairwise(cells)}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: by table and cell, such as "k1-before-1-100", "-ns", "-ratio", "-instructions-ratio"; and
    "k1-elsewhere-step-low" and "-high", what each ops elsewhere was timed at, in ns, at the least and at the most, and
    "k1-elsewhere-counted-low" and "-high" for instructions."""
    values: dict[str, object] = {}
    for r in named(frame).itertuples():
        key = f"{r.machine.lower()}-{r.case.replace(' ', '-').replace('/', '-')}"
        values |= {f"{key}-ns": f"{r.published:g}", f"{key}-ratio": f"{r.published_ratio:.1f}"}
        values[f"{key}-instructions-ratio"] = f"{r.instructions_ratio:.1f}"
    for machine in dict.fromkeys(frame["machine"]):
        for name, value in (("step", "published"), ("counted", "instructions")):
            found = steps(frame, machine, WITHOUT, "elsewhere", value).values()
            ends = {"low": min(found), "high": max(found)}
            values |= {f"{machine.lower()}-elsewhere-{name}-{end}": f"{n:.0f}" for end, n in ends.items()}
    return values


FIGURES = (
    Figure(
        "fig-dispatch-timed",
        "Does the grid grow as it was timed?",
        chart=lambda frame: dumbbell("ratio", "case", "by", facet="machine")(dumbbells(frame)),
        table=table,
        alt="A panel per published table and a line per cell: the published time and the counted instructions, "
        "both as multiples of one ops with CALL_OPS. The table below has every number.",
        limits="Published times as multiples of their own after 1/0, counts likewise. Ops are dynamic.",
        legend="a/b: a ops on the function, b on another one. !: published with a mistake, it repeats the row above. ?: does "
        "not fit the rest of its table, and is not used.",
        kind="beside",
    ),
)
