"""Do counts and estimates grow as the published times of CALL_OPS do?"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.estimate import cycles
from tramplab.estimate.cores import get as core
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.plain import Ops

from ...publish import published
from ...publish.figures.chart import dumbbell
from ...publish.figures.figure import Figure
from ...publish.phrases import estimated
from ..memo import once

NAME = "published_call_ops"
TITLE = "Published times of CALL_OPS, and the lab's ratios"
#: Ops on the called function, and on another one.
LOADS = ((1, 0), (1, 1), (1, 2), (1, 10), (2, 0), (10, 0))


@dataclass(frozen=True)
class Called:
    """A call: of which function, with which arguments, and the callback; other: the function that ops elsewhere are on."""

    function: str
    arguments: tuple[int, ...]
    other: str
    callback: str

    def ops(self, number: int, dynamic: bool = True) -> list[Ops]:
        """A number of ops with the callback."""
        return [Ops(callback=self.callback, dynamic=dynamic) for _ in range(number)]


#: The published call, whose callback is empty, so here it returns at once, and that of the book.
PUBLISHED = Called("no_args", (), "one_arg", "ftrace_stub")
STANDARD = Called("one_arg", (1,), "two_args", "lab_callback")
#: The reference of all ratios: one dynamic ops on the function and none elsewhere, with CALL_OPS.
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
    machine: the machine that it was timed on, in short.
    core: the core for which cycles are estimated; None where an emulator was timed, which no core's model fits.
    """

    machine: str
    ids: str
    isa: str
    before: str
    after: str
    core: str | None


#: What the lab's kernels are without, because the series were: v6.3's guard asks whether RCU watches.
SERIES: dict[str, Any] = {"recursion_rcu_test": False}
LIKE_SERIES = "v6.3 is without its guard's test of RCU, which the series did not have."
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
    records = []
    for table in TABLES:
        sides = {"before": table.before, "after": table.after}
        runs = {(side, *load): run(table.isa, sides[side], *load) for side in sides for load in LOADS}
        reference, idle = runs[REFERENCE]
        of_reference = _measured(table, *REFERENCE)
        for case, (hooked, unhooked) in runs.items():
            measured = _measured(table, *case)
            added = instructions(hooked, unhooked)
            row = {
                "isa": table.isa,
                "machine": table.machine,
                "case": f"{case[0]} {case[1]}/{case[2]}",
                "published": measured,
                "instructions": added,
                **dict.fromkeys(("cycles", "low", "high")),
                "published_ratio": round(measured / of_reference, 2),
                "instructions_ratio": round(added / instructions(reference, idle), 2),
                **dict.fromkeys(("cycles_ratio", "ratio_low", "ratio_high")),
            }
            if table.core and not _repeats(*case):
                model = core(table.core)
                e = cycles.estimate(hooked, unhooked, model)
                ratio = cycles.relative((hooked, unhooked), (reference, idle), model)
                row |= {"cycles": round(e.mid), "low": round(e.low), "high": round(e.high)}
                row |= {"cycles_ratio": ratio.mid, "ratio_low": ratio.low, "ratio_high": ratio.high}
            records.append({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache  # two tables are of the same kernels
def run(
    isa: str, release: str, relevant: int, irrelevant: int, dynamic: bool = True, called: Called = PUBLISHED
) -> tuple[Run, Run]:
    """A call with so many ops on the function and on another one, and the same call before they were attached, in a kernel as the
    series made it: what else its release brought to the recursion guard is left out. dynamic: as the module's that was timed."""
    kernel = Kernel(isa, release, meter=RECORD, **SERIES)
    function = kernel.function(called.function)
    unhooked = kernel.call(function, *called.arguments)
    if irrelevant:
        kernel.attach(kernel.function(called.other), *called.ops(irrelevant, dynamic))
    kernel.attach(function, *called.ops(relevant, dynamic))
    return kernel.call(function, *called.arguments), unhooked


def instructions(hooked: Run, unhooked: Run) -> int:
    """Instructions that the hooked call has more than the unhooked one."""
    return hooked.counts.total.instructions - unhooked.counts.total.instructions


def _measured(table: Table, side: str, relevant: int, irrelevant: int) -> float:
    return published.get(f"{table.ids}-{side}-r{relevant}-i{irrelevant}-overhead").ns


def _repeats(side: str, _relevant: int, irrelevant: int) -> bool:
    """Does a case run the instructions of another one, as with CALL_OPS, where ops elsewhere change nothing?"""
    return side == "after" and irrelevant > 0


def _cases(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with every case once, without those that repeat another."""
    return frame[~frame["case"].isin([f"after {r}/{i}" for r, i in LOADS if _repeats("after", r, i)])]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The ratios; estimates with their bands."""
    shown = _cases(frame)
    printed = shown[["case"]].assign(
        ns=[f"{v:g}" for v in shown["published"]],
        published=[f"{v:.2f}" for v in shown["published_ratio"]],
        counted=[f"{v:.2f}" for v in shown["instructions_ratio"]],
        estimated=["-" if pd.isna(r["cycles_ratio"]) else _ratio(r) for r in shown.to_dict("records")],
    )
    printed.insert(0, "isa", shown["isa"] + ", " + shown["machine"])
    printed.attrs["units"] = {"ns": "added", "published": "ratio", "counted": "ratio", "estimated": "ratio"}
    printed.attrs["right"] = ("ns", "published", "counted", "estimated")
    return printed


def _ratio(row: Mapping) -> str:
    """An estimated ratio with its band."""
    return estimated(row["cycles_ratio"], row["ratio_low"], row["ratio_high"], digits=2)


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per table, case and who says it: the published ratio, the counted one, and the estimated one with its band."""
    shown = _cases(frame)
    shown = shown[shown["case"] != f"{REFERENCE[0]} {REFERENCE[1]}/{REFERENCE[2]}"]
    parts = [
        shown.assign(by=by, ratio=shown[f"{column}_ratio"], low=shown[low], high=shown[high])
        for by, column, low, high in (
            ("published time", "published", "published_ratio", "published_ratio"),
            ("counted instructions", "instructions", "instructions_ratio", "instructions_ratio"),
            ("estimated cycles", "cycles", "ratio_low", "ratio_high"),
        )
    ]
    out = pd.concat([part.dropna(subset=["ratio"]) for part in parts], ignore_index=True)
    return out.astype({"ratio": float, "low": float, "high": float}).assign(
        order=out["machine"].map([t.machine for t in TABLES].index)
    ).sort_values("order", kind="stable")


def off(frame: pd.DataFrame, one: Table, kind: str) -> str:
    """How far the ratios of a kind ("instructions", "cycles") are off the published ones: the median, in percent of these."""
    part = _cases(frame[frame["machine"] == one.machine])
    others = part[part["case"] != "after 1/0"]
    return f"{(others[f'{kind}_ratio'] / others['published_ratio'] - 1).abs().median():.0%}"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by table ("k1-...", "m1-...", "qemu-..."): by how much the median ratio of the counts and of the
    estimates is off, and of some cases the published time in ns, and the published and the counted ratio to one ops with
    CALL_OPS."""
    values: dict[str, object] = {}
    for one in TABLES:
        name = one.machine.lower()
        part = _cases(frame[frame["machine"] == one.machine])
        for kind in ("instructions", "cycles") if one.core else ("instructions",):
            values[f"{name}-{kind}-off"] = off(frame, one, kind)
        for case in ("before 1/0", "before 1/1", "before 1/10", "after 1/0", "after 2/0"):
            row = part[part["case"] == case].iloc[0]
            key = f"{name}-{case.replace(' ', '-').replace('/', '-')}"
            values[f"{key}-ns"], values[f"{key}-ratio"] = f"{row['published']:g}", f"{row['published_ratio']:g}"
            values[f"{key}-instructions-ratio"] = f"{row['instructions_ratio']:g}"
    return values


FIGURES = (
    Figure(
        "fig-published-call-ops",
        "Do counts and estimates grow as the published times of CALL_OPS do?",
        chart=lambda frame: dumbbell("ratio", "case", "by", low="low", high="high", facet="machine", shared=True)(dumbbells(frame)),
        table=table,
        alt="A panel per published table and a line per case: the published time, the counted instructions and the estimated "
        "cycles that ops add to a call, all as multiples of one ops with CALL_OPS. The table below has every number.",
        limits="Published times as multiples of their own case after 1/0; estimates likewise, with the band of the core's "
        f"uncertain parameters. Ops are dynamic. {LIKE_SERIES}",
        legend="Case a/b: a ops on the function, b on another one.",
        source="published",
        kind="estimate",
    ),
)
