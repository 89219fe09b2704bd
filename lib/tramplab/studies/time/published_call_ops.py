"""Do counts and estimated cycles grow as the published times of CALL_OPS do?"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...emulate.machine import RECORD
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...publish import published
from ...publish.figures.chart import scatter
from ...publish.figures.figure import Figure
from ...trampolines.plain import Ops
from ..once import once
from .ranks import spearman

NAME = "published_call_ops"
TITLE = "Published times of CALL_OPS, and the lab's ratios"
FUNCTION, OTHER = "no_args", "one_arg"
#: Ops on the called function, and on another one.
LOADS = ((1, 0), (1, 1), (1, 2), (1, 10), (2, 0), (10, 0))
#: What every other number is a multiple of: one ops on the function and none elsewhere, with CALL_OPS.
REFERENCE = ("after", 1, 0)
UNITS = {
    "published": "ns added",
    "instructions": "added",
    "cycles": "added, estimate",
    "low": "cycles",
    "high": "cycles",
}


@dataclass(frozen=True)
class Table:
    """A published table: the ids of its rows begin with `ids`; before and after are the lab's releases on either side.

    machine: what it was timed on, in short. core: what cycles are estimated for; None where an emulator was timed, which
    no core's model fits.
    """

    machine: str
    ids: str
    isa: str
    before: str
    after: str
    core: str | None


TABLES = (
    Table("M1", "arm64-callops", "arm64", "v6.2", "v6.3", "apple-m1"),
    Table("K1", "riscv-callops-k1", "riscv64", "v6.15", "v6.16", "spacemit-x60"),
    Table("QEMU", "riscv-callops-qemu", "riscv64", "v6.15", "v6.16", None),
)


@once
def rows() -> pd.DataFrame:
    """One row per published case that the lab can run.

    Columns: isa, machine, case ("before 1/10": one ops on the function, ten on another), published (ns that a call takes
    more with the ops than without), instructions and cycles (the same from the run), low, high (the band; not where a case
    runs the instructions of another one); then each as a multiple of the case "after 1/0": published_ratio,
    instructions_ratio, cycles_ratio, ratio_low, ratio_high.
    """
    out = []
    for table in TABLES:
        sides = {"before": table.before, "after": table.after}
        runs = {(side, *load): _run(table.isa, sides[side], *load) for side in sides for load in LOADS}
        reference, idle = runs[REFERENCE]
        of_reference = _measured(table, *REFERENCE)
        for case, (run, unhooked) in runs.items():
            measured = _measured(table, *case)
            added = _added(run, unhooked)
            row = {
                "isa": table.isa,
                "machine": table.machine,
                "case": f"{case[0]} {case[1]}/{case[2]}",
                "published": measured,
                "instructions": added,
                **dict.fromkeys(("cycles", "low", "high")),
                "published_ratio": round(measured / of_reference, 2),
                "instructions_ratio": round(added / _added(reference, idle), 2),
                **dict.fromkeys(("cycles_ratio", "ratio_low", "ratio_high")),
            }
            if table.core and not _repeats(*case):
                model = core(table.core)
                e = cycles.estimate(run, unhooked, model)
                ratio = cycles.relative((run, unhooked), (reference, idle), model)
                row |= {"cycles": round(e.mid), "low": round(e.low), "high": round(e.high)}
                row |= {"cycles_ratio": ratio.mid, "ratio_low": ratio.low, "ratio_high": ratio.high}
            out.append({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache  # two tables are of the same kernels
def _run(isa: str, release: str, relevant: int, irrelevant: int) -> tuple[Run, Run]:
    """A call with so many ops on the function and on another one, and the same call before they were attached."""
    kernel = Kernel(isa, release, meter=RECORD)
    function = kernel.function(FUNCTION)
    unhooked = kernel.call(function)
    if irrelevant:
        kernel.attach(kernel.function(OTHER), *(Ops() for _ in range(irrelevant)))
    kernel.attach(function, *(Ops() for _ in range(relevant)))
    return kernel.call(function), unhooked


def _added(run: Run, unhooked: Run) -> int:
    return run.counts.total.instructions - unhooked.counts.total.instructions


def _measured(table: Table, side: str, relevant: int, irrelevant: int) -> float:
    return published.get(f"{table.ids}-{side}-r{relevant}-i{irrelevant}-overhead").ns


def _repeats(side: str, _relevant: int, irrelevant: int) -> bool:
    """With CALL_OPS, what happens elsewhere changes nothing: the case runs the instructions of another one."""
    return side == "after" and irrelevant > 0


def _cases(frame: pd.DataFrame) -> pd.DataFrame:
    """Every case once."""
    return frame[~frame["case"].isin([f"after {r}/{i}" for r, i in LOADS if _repeats("after", r, i)])]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The ratios."""
    shown = _cases(frame)
    names = {
        "isa": "isa",
        "machine": "machine",
        "case": "case",
        "published": "ns",
        "published_ratio": "ns_ratio",
        "instructions_ratio": "instructions_ratio",
        "cycles_ratio": "cycles_ratio",
        "ratio_low": "from",
        "ratio_high": "to",
    }
    out = shown[list(names)].rename(columns=names)
    return out.astype(object).where(out.notna(), "-")


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by table ("k1-...", "m1-...", "qemu-..."): rank correlations of published and estimated
    ratios, and by how much the median estimate is off."""
    out: dict[str, object] = {}
    for one in TABLES:
        name = one.machine.lower()
        part = _cases(frame[frame["machine"] == one.machine])
        for kind in ("instructions", "cycles") if one.core else ("instructions",):
            others = part[part["case"] != "after 1/0"]
            out[f"{name}-{kind}-rank"] = f"{spearman(part['published'], part[kind]):.2f}"
            off = (others[f"{kind}_ratio"] / others["published_ratio"] - 1).abs().median()
            out[f"{name}-{kind}-off"] = f"{off:.0%}"
        for case in ("before 1/0", "before 1/1", "before 1/10", "after 1/0", "after 2/0"):
            row = part[part["case"] == case].iloc[0]
            key = f"{name}-{case.replace(' ', '-').replace('/', '-')}"
            out[f"{key}-ns"], out[f"{key}-ratio"] = f"{row['published']:g}", f"{row['published_ratio']:g}"
            out[f"{key}-instructions-ratio"] = f"{row['instructions_ratio']:g}"
            if one.core:
                out[f"{key}-cycles-ratio"] = f"{row['cycles_ratio']:g}"
    return out


FIGURES = (
    Figure(
        "fig-published-call-ops",
        "Do estimated cycles grow as the published times of CALL_OPS do?",
        rows=lambda frame: _cases(frame).dropna().assign(kernel=lambda f: f["case"].str.split().str[0] + " CALL_OPS"),
        chart=scatter(
            "cycles_ratio",
            "published_ratio",
            "case",
            "kernel",
            low="ratio_low",
            high="ratio_high",
            facet="machine",
            columns=2,
        ),
        table=table,
        alt="A panel per machine: the estimated cycles that ops add to a call against the published nanoseconds, both as "
        "multiples of one ops with CALL_OPS. The table below has every number.",
        limits="Published times as multiples of their own case after 1/0; estimates likewise, with the band of the core's "
        "uncertain parameters. Case a/b: a ops on the function, b on another one.",
    ),
)
