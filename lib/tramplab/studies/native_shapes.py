"""Do estimated cycles rank trampolines of many shapes as a real core does?"""

from __future__ import annotations

import statistics

import pandas as pd

from ..analyse import cycles, mca
from ..analyse.cores import cores, of_cpu
from ..analyse.returnstack import settled
from ..emulate.machine import RECORD
from ..ftrace import shapes
from ..ftrace.kernel import Kernel
from ..ftrace.run import Run
from ..native import Result
from ..native.kept import SHAPES, shown
from ..publish.chart import scatter
from ..publish.figure import Figure
from .ranks import scaled_errors, spearman

NAME = "native_shapes"
TITLE = "Trampolines of many shapes, timed here and estimated"
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


def rows(result: Result | None = None) -> pd.DataFrame:
    """One row per shape and core of the ISA that was timed: this machine's, unless another result is given.

    A shape that did not run, or took no longer than the unhooked call, has none.

    Columns: isa, core, shape, way ("balanced", "unbalanced"), measured (ns over the unhooked call), instructions, cycles
    (estimate), with the one factor per core that makes half of all estimates too high: estimated, low, high (ns); missed
    (mispredicted returns, from the replay), counted (mispredicted branches, by the CPU; None where it may not be asked)
    and mca (cycles by llvm-mca for the CPU's own core; None for others, and where that is not installed).
    """
    result = result or shown(SHAPES)[0]
    isa = str(result.provenance["isa"])
    base, runs = _runs(isa)
    own = of_cpu(str(result.provenance["cpu"]))
    measured = {str(row["hook"]): float(row["ns_over"]) for row in result.rows}
    runs = {s: run for s, run in runs.items() if measured.get(str(s), 0) > 0}
    out = []
    for core in (c for c in cores().values() if c.isa == isa):
        estimates = {s: cycles.estimate(run, base, core) for s, run in runs.items()}
        factor = statistics.median(measured[str(s)] / e.mid for s, e in estimates.items())
        for s, e in estimates.items():
            out.append(
                {
                    "isa": isa,
                    "core": core.name,
                    "shape": str(s).removeprefix("shape-").rsplit("-", 1)[0],
                    "way": BALANCED if s.balanced else UNBALANCED,
                    "measured": round(measured[str(s)], 2),
                    "instructions": len(runs[s].steps) - len(base.steps),
                    "cycles": round(e.mid, 2),
                    "estimated": round(e.mid * factor, 2),
                    "low": round(e.low * factor, 2),
                    "high": round(e.high * factor, 2),
                    "missed": settled(runs[s], core["return_stack"].value),
                    "counted": result.row(str(s)).get("branch_misses"),
                    "mca": mca.opinion(runs[s], base, core).cycles if core is own else None,
                }
            )
    frame = pd.DataFrame(out)
    frame.attrs |= {"units": UNITS, "own": own.name if own else None}
    return frame


def _runs(isa: str) -> tuple[Run, dict[shapes.Shape, Run]]:
    """The unhooked call, and one through every shape."""
    kernel = Kernel(isa, meter=RECORD)
    function = kernel.function(FUNCTION)
    base, runs = kernel.call(function, *ARGUMENTS), {}
    for s in shapes.GRID:
        with shapes.attached(kernel, function, s):
            runs[s] = kernel.call(function, *ARGUMENTS)
    return base, runs


def ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """How well the instruction count and each core's estimate tell the times: one row per estimator.

    Columns: estimator, and for all shapes, the balanced and the unbalanced ones the rank correlation (Spearman) and the
    median error after one scale factor, in percent.
    """
    first = frame[frame["core"] == frame["core"].iloc[0]]
    estimators = {"instructions": (first, "instructions")}
    estimators |= {core: (part, "cycles") for core, part in frame.groupby("core", sort=False)}
    estimators |= {
        f"llvm-mca, {core}": (part, "mca")
        for core, part in frame.groupby("core", sort=False)
        if part["mca"].notna().all()
    }
    out = []
    for name, (part, column) in estimators.items():
        row: dict[str, object] = {"estimator": name}
        for group, chosen in {"all": part, **{way: part[part["way"] == way] for way in (BALANCED, UNBALANCED)}}.items():
            row[f"{group}_rank"] = round(spearman(chosen[column], chosen["measured"]), 2)
            errors = scaled_errors(chosen[column].tolist(), chosen["measured"].tolist())
            row[f"{group}_error"] = round(100 * statistics.median(errors))
        out.append(row)
    made = pd.DataFrame(out)
    made.attrs["units"] = {c: "%" for c in made.columns if c.endswith("_error")}
    return made


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: "zen3-rank", "zen3-error" and "zen3-balanced-rank" per core, the same of "instructions", "own"
    (the core that is the CPU's own, else the one whose estimates rank best; and its numbers), how many shapes there are,
    and "missed": by how much per call the replay's mispredicted returns and the CPU's mispredicted branches differ at most,
    or that the CPU may not be asked."""
    table = ranks(frame)
    out: dict[str, object] = {"shapes": len(frame) // frame["core"].nunique()}
    for r in table.to_dict("records"):
        out[f"{r['estimator']}-rank"], out[f"{r['estimator']}-error"] = f"{r['all_rank']:.2f}", f"{r['all_error']}%"
        out[f"{r['estimator']}-balanced-rank"] = f"{r['balanced_rank']:.2f}"
    modelled = table[table["estimator"].isin(frame["core"])].sort_values(
        ["all_rank", "all_error"], ascending=[False, True]
    )
    own = frame.attrs.get("own") or modelled["estimator"].iloc[0]
    out |= {"own": own, **{f"own-{k}": out[f"{own}-{k}"] for k in ("rank", "error", "balanced-rank")}}
    out["missed"] = "cannot be read here"
    if frame["counted"].notna().all():
        off = (frame["missed"] - frame["counted"]).abs().max()
        out["missed"] = f"differs from the replay by at most {off:.3f} per call"
    return out


def circumstances() -> dict[str, object]:
    """What the prose quotes of the machine that was timed: "cpu", "date", and "kind" (virtual or not, and whose it is)."""
    result, why = shown(SHAPES)
    facts = result.provenance
    kind = "no virtual machine" if facts["virtualised"] == "no" else "a virtual machine"
    whose = f"; saved, as {why.rstrip('.')}" if why else ", the one that built this page"
    return {"cpu": facts["cpu"], "date": str(facts["date"])[:10], "kind": kind + whose}


def cautions() -> str:
    """What makes these times worth less, in lines that fit a page's text form."""
    return shown(SHAPES)[0].cautions(width=68)


_LIMITS = (
    "Native times on one machine, warm, in user mode; estimates are cycles times one factor per core. They differ on every "
    "machine and are in no golden table."
)

FIGURES = (
    Figure(
        "fig-native-shapes",
        f"Do estimated cycles rank {len(shapes.GRID)} trampolines as this CPU does?",
        chart=scatter("estimated", "measured", "shape", "way", low="low", high="high", facet="core", columns=2),
        table=ranks,
        alt="A panel per core that is modelled: estimated against measured nanoseconds that trampolines add to a call. "
        "The table below has rank correlations and errors.",
        limits=_LIMITS,
    ),
)
