"""Do estimated cycles rank trampolines of many shapes as a real core does?"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.estimate import cycles
from tramplab.estimate.cores import Core
from tramplab.estimate.cores import get as core_of
from tramplab.estimate.judged import spearman
from tramplab.estimate.returnstack import settled
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.native import Result
from tramplab.native.cached import SHAPES, saved
from tramplab.trampolines import shapes

from ...publish.figures.chart import Drawing, scatter
from ...publish.figures.figure import Figure
from ...publish.figures.fitted import digits
from ..memo import each, once
from . import native_machine
from .ranks import scaled_errors

NAME = "native_shapes"
TITLE = "Trampolines of many shapes, timed and estimated"
FUNCTION, ARGUMENTS = "two_args", (1, 2)
UNITS = {
    "measured": "ns added",
    "instructions": "added",
    "cycles": "added",
    "estimated": "ns added",
    "low": "ns",
    "high": "ns",
}
BALANCED, UNBALANCED = "balanced", "unbalanced"
#: Fewer shapes than these are not ranked.
FEWEST = 5
COLUMNS = (
    "isa machine release core exact lead shape way measured instructions cycles estimated low high missed counted cpu date"
    " virtual".split()
)


@once
def rows() -> pd.DataFrame:
    """The saved results of data/native/, see frame()."""
    return frame(saved(SHAPES))


def frame(timed: Mapping[str, Result]) -> pd.DataFrame:
    """One row per machine, shape and usable core of the machine's ISA, the nearest core first; without a core where none is.

    A shape that did not run, took no longer than the unhooked call, or on which the windows do not agree, has none.

    Columns: isa, machine, release, core, exact (is it the CPU's own?), lead (is it the nearest?), shape, way ("balanced",
    "unbalanced"), measured (ns over the unhooked call), instructions, cycles (estimate), with the one factor per core that
    makes half of all estimates too high: estimated, low, high (ns); missed (mispredicted returns, from the replay), counted
    (mispredicted branches, by the CPU; None where it may not be asked), cpu, date, virtual.
    """
    records: list[dict[str, object]] = []
    for machine, result in timed.items():
        facts, near = native_machine.facts(result), native_machine.core(result)
        agreed = {str(row["hook"]): row for row in result.rows if row["agreed"] and float(str(row["ns_over"])) > 0}
        base, runs = _runs(str(facts["isa"]))
        runs = {s: run for s, run in runs.items() if str(s) in agreed}
        models: list[Core | None] = [*native_machine.models(result)]
        for core in (models or [None]) if runs else []:
            lead = core is not None and core is near
            head = {**facts, "machine": machine, "core": core and core.name, "lead": lead, "exact": lead and facts["exact"]}
            records += [{**head, **row} for row in _of_core(core, base, runs, agreed)]
    made = pd.DataFrame(records, columns=COLUMNS)
    made.attrs["units"] = UNITS
    return made


def _of_core(
    core: Core | None, base: Run, runs: Mapping[shapes.Shape, Run], timed: Mapping[str, Mapping]
) -> list[dict[str, object]]:
    """The rows of one machine and core; without a core what was measured and counted."""
    measured = {s: float(timed[str(s)]["ns_over"]) for s in runs}
    records: list[dict[str, object]] = [
        {
            "shape": str(s).removeprefix("shape-").rsplit("-", 1)[0],
            "way": BALANCED if s.balanced else UNBALANCED,
            "measured": measured[s],
            "instructions": len(runs[s].steps) - len(base.steps),
            "counted": timed[str(s)].get("branch_misses"),
        }
        for s in runs
    ]
    if core is None:
        return records
    estimates = {s: estimate(core.isa, core.name, s) for s in runs}
    factor = statistics.median(measured[s] / e.mid for s, e in estimates.items())
    for row, (s, e) in zip(records, estimates.items(), strict=True):
        row |= {
            "cycles": round(e.mid, 2),
            "estimated": float(f"{e.mid * factor:.4g}"),
            "low": float(f"{e.low * factor:.4g}"),
            "high": float(f"{e.high * factor:.4g}"),
            "missed": _missed(core.isa, core["return_stack"].value, s),
        }
    return records


@each
def estimate(isa: str, core: str, chosen: shapes.Shape) -> cycles.Estimate:
    """The estimate of a core's model for a shape."""
    base, runs = _runs(isa)
    return cycles.estimate(runs[chosen], base, core_of(core))


@each
def _missed(isa: str, entries: int, chosen: shapes.Shape) -> int:
    """Mispredicted returns of a call through a shape, with a return stack of so many entries."""
    return settled(_runs(isa)[1][chosen], entries)


@functools.cache
def _runs(isa: str) -> tuple[Run, dict[shapes.Shape, Run]]:
    """The unhooked call, and one through every shape."""
    kernel = Kernel(isa, meter=RECORD)
    function = kernel.function(FUNCTION)
    base, runs = kernel.call(function, *ARGUMENTS), {}
    for s in shapes.GRID:
        with kernel.attached(function, s):
            runs[s] = kernel.call(function, *ARGUMENTS)
    return base, runs


def ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """How well the instruction count and each core's estimate tell the times: one row per machine and estimator.

    Columns: isa (and machine), estimator, and for all shapes, the balanced and the unbalanced ones the rank correlation
    (Spearman) and the median error after one scale factor, in percent; None for fewer than FEWEST shapes.
    """
    records = []
    for machine, part in frame.groupby("machine", sort=False):
        head = {"isa": f"{part['isa'].iloc[0]}, {machine}", "machine": machine}
        for name, (column, chosen) in _estimators(part).items():
            row: dict[str, object] = {**head, "estimator": name}
            for group, ways in {"all": (BALANCED, UNBALANCED), BALANCED: (BALANCED,), UNBALANCED: (UNBALANCED,)}.items():
                points = chosen[chosen["way"].isin(ways)]
                row[f"{group}_rank"], row[f"{group}_error"] = _told(points[column].tolist(), points["measured"].tolist())
            records.append(row)
    groups = ("all", BALANCED, UNBALANCED)
    columns = ["isa", "machine", "estimator", *(f"{group}_{what}" for group in groups for what in ("rank", "error"))]
    made = pd.DataFrame(records, columns=columns)
    made.attrs["units"] = {c: "%" for c in columns if c.endswith("_error")}
    return made


def _estimators(part: pd.DataFrame) -> dict[str, tuple[str, pd.DataFrame]]:
    """What claims to tell the times of one machine: name -> column and rows; the leading core first."""
    found = {core: ("cycles", rows) for core, rows in part.groupby("core", sort=False)}
    return found | {"instructions": ("instructions", native_machine.led(part))}


def _told(told: list[float], measured: list[float]) -> tuple[float | None, float | None]:
    """Rank correlation, and median error in percent; None for too few shapes, or where all are told alike."""
    if len(told) < FEWEST or min(told) <= 0 or len(set(told)) == 1 or len(set(measured)) == 1:
        return None, None
    return round(spearman(told, measured), 2), round(100 * statistics.median(scaled_errors(told, measured)))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The ranks, a part per machine."""
    made = ranks(frame).drop(columns="machine")
    for column in made.columns[2:]:
        made[column] = [digits(v) if column.endswith("rank") else "-" if pd.isna(v) else f"{v:.0f}" for v in made[column]]
    made.attrs["right"] = tuple(made.columns[2:])
    return made


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the page: "shapes", how many there are; and on all machines the least rank correlation of the nearest model,
    "model-least-rank", and the greatest of the count of instructions, "count-most-rank"; 0 where nothing is ranked."""
    ranked = ranks(frame).dropna(subset="all_rank")
    leads = frame[frame["lead"].astype(bool)].drop_duplicates("machine")
    near = ranked.merge(leads, left_on=["machine", "estimator"], right_on=["machine", "core"])["all_rank"]
    counted = ranked.loc[ranked["estimator"] == "instructions", "all_rank"]
    least, most = min(near, default=0.0), max(counted, default=0.0)
    return {"shapes": len(shapes.GRID), "model-least-rank": least, "count-most-rank": most}


_POINTS = scatter("estimated", "measured", "shape", "way", low="low", high="high", facet="panel", columns=2)


def chart(frame: pd.DataFrame) -> Drawing | None:
    """A panel per saved machine, for its leading core; None where there is nothing to draw."""
    shown = frame[frame["lead"].astype(bool) & (frame[["measured", "estimated", "low", "high"]] > 0).all(axis="columns")]
    if shown.empty:
        return None
    places = {machine: n for n, machine in enumerate(dict.fromkeys(shown["machine"]), 1)}
    number = "{1}, machine {0}" if len(places) > 1 else "{1}"
    made = shown.assign(panel=[number.format(places[m], c) for m, c in zip(shown["machine"], shown["core"], strict=True)])
    return _POINTS(made)


_LIMITS = (
    "Native times, warm, in user mode, on which three windows agree; estimates are cycles times one factor per core, which no "
    "core's parameters are fitted to."
)

FIGURES = (
    Figure(
        "fig-native-shapes",
        f"Do estimated cycles rank {len(shapes.GRID)} trampolines as a CPU does?",
        chart=chart,
        table=table,
        alt="A panel per machine, for the model of its core: estimated against measured nanoseconds that trampolines add to a "
        "call. The table below has rank correlations and errors of all models.",
        limits=_LIMITS,
        kind="native",
        measured=True,
    ),
)
