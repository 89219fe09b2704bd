"""Which hooks leave the CPU's return stack as it was, and what does it cost where one does not?"""

from __future__ import annotations

import pandas as pd

from ...analyse.returnstack import CALLERS, replay
from ...emulate.machine import RECORD
from ...ftrace import releases
from ...isa import ISAS
from ...lab import hooks
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...publish.figures.figure import Figure
from ...trampolines import shapes
from ..once import once

NAME = "return_stack"
TITLE = "Mispredicted returns of one call"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
UNITS: dict[str, str] = {}
#: Trampolines that differ in nothing but the way out.
SHAPES = {"jump back": shapes.Shape(8, 1, False), "return back": shapes.Shape(8, 1, True)}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and hook, and two trampolines of our own that differ in their way out.

    Columns: isa, release, hook, calls and returns (what pushes and pops), own (mispredicted returns in the call), outer
    (of the callers above it), first (the first that is mispredicted, "" if none).
    """
    out = []
    for isa in ISAS:
        for release in releases.shown():
            kernel = Kernel(isa, release, meter=RECORD)
            function = kernel.function(FUNCTION)
            for hook in hooks.HOOKS.values():
                if not kernel.features[hook.needs]:
                    continue
                for callbacks in (1, 2) if hook.counts else (1,):
                    with kernel.attached(function, *hooks.requests(hook, callbacks)):
                        name = hooks.label(hook.name, callbacks)
                        out.append(_row(isa, release, name, kernel.call(function, *ARGUMENTS)))
            if release == releases.LATEST:
                for name, shape in SHAPES.items():
                    with kernel.attached(function, shape):
                        out.append(_row(isa, release, name, kernel.call(function, *ARGUMENTS)))
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _row(isa: str, release: str, hook: str, run: Run) -> dict[str, object]:
    r = replay(run)
    return {
        "isa": isa,
        "release": release,
        "hook": hook,
        "own": r.own,
        "outer": r.outer,
        "first": r.where[0].place if r.where else "",
    }


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and hook, mispredictions in the call and above it, a column per release: "0+0"."""
    data = frame.assign(both=frame["own"].astype(str) + "+" + frame["outer"].astype(str))
    wide = data.pivot_table(index=["isa", "hook"], columns="release", values="both", aggfunc="first", sort=False)
    return wide[list(releases.shown())].reset_index().fillna("-").rename_axis(columns=None)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: how many hooked calls there are, and in how many a return is mispredicted; the shared direct call
    ("shared") and the fexit program ("fexit") of x86-64 in the last release shown that shifts the stack ("shared-old-own"),
    and in the next one ("shared-new-own"); the fexit program elsewhere ("arm64-fexit-own"); and of the trampoline that
    jumps back, "arm64-own" and "arm64-outer"."""
    real = frame[~frame["hook"].isin([*SHAPES, "none"])]
    wrong = real[(real["own"] > 0) | (real["outer"] > 0)]
    out: dict[str, object] = {
        "calls": len(real),
        "wrong": len(wrong),
        "callers": CALLERS,
        "newest": releases.LATEST,
    }
    for name, hook in (("shared", "direct+ops"), ("fexit", "bpf-fexit")):
        mine = real[(real["isa"] == "x86_64") & (real["hook"] == hook)]
        for when, r in (("old", mine[mine["outer"] > 0].iloc[-1]), ("new", mine[mine["outer"] == 0].iloc[0])):
            out |= {f"{name}-{when}-release": r["release"], f"{name}-{when}-own": int(r["own"])}
    newest = real[(real["hook"] == "bpf-fexit") & (real["release"] == releases.LATEST)]
    out |= {f"{r.isa}-fexit-own": r.own for r in newest.itertuples()}
    for r in frame[frame["hook"] == "jump back"].itertuples():
        out[f"{r.isa}-own"], out[f"{r.isa}-outer"], out[f"{r.isa}-first"] = r.own, r.outer, r.first
    return out


FIGURES = (
    Figure(
        "fig-return-stack",
        "Which hooks leave the return stack as they found it?",
        table=table,
        limits="Exact under the model of a return stack that nothing repairs: mispredicted returns in the call "
        f"+ of the {CALLERS} callers above it.",
    ),
)
