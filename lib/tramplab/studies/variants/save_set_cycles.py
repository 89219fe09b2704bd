"""What is a smaller save set worth in cycles?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import Core
from ...analyse.cores import get as core
from ...emulate.machine import RECORD
from ...isa import ISAS
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.figure import Figure
from ...trampolines.plain import Ops
from ..once import once
from .save_sets import SETS

NAME = "save_set_cycles"
TITLE = "What a trampoline's save set adds, in estimated cycles"
CORES = ("skylake", "zen5", "apple-m1", "cortex-a72", "sifive-u74", "spacemit-x60")
FUNCTION, ARGUMENTS = "two_args", (1, 2)
UNITS = {"cycles": "estimate", "low": "estimate", "high": "estimate"}
#: A gain below this part of what the hook adds is taken to be hardly one. The thread gave no number; this is ours.
HARDLY = 0.1


@once
def rows() -> pd.DataFrame:
    """One row per core and save set: what one ops adds to a call of a two-argument function, in the newest release.

    Columns: isa, core, save (as in save_sets), cycles, low, high; gain, gain_low, gain_high (cycles less than with all that C
    clobbers, both estimated with the same parameters).
    """
    out = []
    for isa in ISAS:
        kernel = Kernel(isa, meter=RECORD)
        function = kernel.function(FUNCTION)
        idle, runs = kernel.call(function, *ARGUMENTS), {}
        for save in SETS:
            with kernel.attached(function, Ops(save=save)):
                runs[save] = kernel.call(function, *ARGUMENTS)
        for model in map(core, CORES):
            if model.isa == isa:
                out += [_row(model, SETS[save], run, idle, runs["clobbered"]) for save, run in runs.items()]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _row(model: Core, save: str, run: Run, idle: Run, clobbered: Run) -> dict[str, object]:
    added, gain = cycles.estimate(run, idle, model), cycles.estimate(clobbered, run, model)
    band = {"cycles": added.mid, "low": added.low, "high": added.high}
    band |= {"gain": gain.mid, "gain_low": gain.low, "gain_high": gain.high}
    return {"isa": model.isa, "core": model.name, "save": save, **{k: round(float(v), 1) for k, v in band.items()}}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per core and save set, the estimate and its band, and what it is less than with all that C clobbers."""

    def band(r: Any) -> str:
        return f"{r.low:.0f} to {r.high:.0f}"

    def gain(r: Any) -> str:
        return "-" if r.save == "clobbered" else f"{r.gain:.0f} ({r.gain_low:.0f} to {r.gain_high:.0f})"

    out = frame[["isa", "core", "save", "cycles"]].assign(
        cycles=frame["cycles"].round().astype(int),
        band=[band(r) for r in frame.itertuples()],
        less=[gain(r) for r in frame.itertuples()],
    )
    out = out.rename(columns={"less": "less than clobbered"})
    out.attrs["units"] = {"cycles": "estimate", "band": "estimate", "less than clobbered": "estimate"}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per core: cycles with all that C clobbers, the gain of the live arguments over it, the gain of that over
    pt_regs, and the first gain as part of what the hook adds."""
    out = []
    for (isa, name), part in frame.groupby(["isa", "core"], sort=False):
        by = part.set_index("save")
        live, more = by.loc["live"], -by.loc["pt_regs", "gain"]
        cost = by.loc["clobbered", "cycles"]
        row = {"isa": isa, "core": name, "clobbered": cost, "gain": live["gain"], "before": more}
        out.append(row | {"share": live["gain"] / cost, "low": live["gain_low"], "high": live["gain_high"]})
    return pd.DataFrame(out)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by core: "skylake-gain" and "skylake-before" in cycles, "skylake-share" in percent."""
    out: dict[str, object] = {}
    for r in shares(frame).itertuples():
        out |= {f"{r.core}-gain": round(r.gain), f"{r.core}-before": round(r.before)}
        out[f"{r.core}-share"] = round(100 * r.share)
    return out


@judges("v3")
def live_is_hardly_a_gain(frame: pd.DataFrame | None = None) -> Verdict:
    """Less than a tenth of what the hook adds is hardly a gain; decided per core, with a function of two arguments."""
    frame = rows() if frame is None else frame
    per_core = shares(frame)
    kind, on = across(per_core.assign(truth=per_core["share"] < HARDLY), {"isa": "the ISA", "core": "the core"})
    found = [f"{r.gain:.0f} of {r.clobbered:.0f} on {r.core} ({r.share:.0%})" for r in per_core.itertuples()]
    before = [f"{r.before:.0f} on {r.core}" for r in per_core.itertuples()]
    because = (
        "With two arguments, saving only these instead of all that C may clobber takes off, in cycles estimated with "
        f"models of the cores: {'; '.join(found)}; we call less than {HARDLY:.0%} hardly meaningful. The step before it, "
        f"from all registers to those that C may clobber, takes off {', '.join(before)}."
    )
    values = {f"{r.core}, cycles less": f"{r.gain:.0f} of {r.clobbered:.0f}" for r in per_core.itertuples()}
    return Verdict(kind, because, values, on)


FIGURES = (
    Figure(
        "fig-save-set-cycles",
        "What is a smaller save set worth on a core?",
        table=table,
        limits="Estimates with models of the cores, not measured times; one ops on a two-argument function, trampolines that no "
        "kernel has. Bands vary what is not known of the core.",
    ),
)
