"""What does being out of reach cost on a core, in cycles, as estimated?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...lab import hooks
from ...lab.kernel import Kernel
from ...publish import said
from ...publish.cite.cite import ESTIMATES
from ...publish.figures.figure import Figure
from ..once import once
from ..variants.save_set_cycles import CORES
from .reach_kernels import kernels
from .reach_ways import ARGUMENTS, CASES, FAR, FUNCTION, NEAR, SHARED

NAME = "reach_cycles"
TITLE = "What each way of a direct call costs, in cycles"
#: Beside the cases: what far costs more than near.
DETOUR = "detour"
UNITS = {"cycles": "added", "low": "added", "high": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per kernel that the pages show, core of its ISA, and case: what it adds to an unhooked call of a three-argument
    function, estimated with a model of the core; and what far adds to near (DETOUR), whose band varies what is not known of the
    core in both calls at once.

    Columns: isa, release, core, case, cycles, low, high.
    """
    out: list[dict[str, object]] = []
    for isa, release in kernels():
        kernel = Kernel(isa, release)
        function = kernel.function(FUNCTION)
        idle, runs = kernel.call(function, *ARGUMENTS), {}
        for case, hook in CASES.items():
            with kernel.attached(function, *hooks.requests(hooks.get(hook), 1)):
                runs[case] = kernel.call(function, *ARGUMENTS)
        for model in (m for m in map(core, CORES) if m.isa == isa):
            pairs = {case: (run, idle) for case, run in runs.items()} | {DETOUR: (runs[FAR], runs[NEAR])}
            for case, (more, less) in pairs.items():
                e = cycles.estimate(more, less, model)
                band = {"cycles": e.mid, "low": e.low, "high": e.high}
                head = {"isa": isa, "release": release, "core": model.name, "case": case}
                out.append(head | {name: round(float(value), 1) + 0.0 for name, value in band.items()})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per core and release, a column per case: cycles with their band. The detour is in the answer: a mail is too narrow."""
    wide = _wide(frame, [*CASES])
    out = wide.drop(columns="isa")
    out["core"] = [f"{r.core} {r.isa.split()[-1]}" for r in wide.itertuples()]
    out.attrs = dict(wide.attrs)
    return out


def _wide(frame: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    cells = frame.assign(said=[_band(r) for r in frame.itertuples()])
    cells["isa"] = [f"{said.isa_name(r.isa)} {r.release}" for r in frame.itertuples()]
    lines = pd.MultiIndex.from_frame(cells[["isa", "core"]].drop_duplicates())
    out = cells.pivot(index=["isa", "core"], columns="case", values="said").reindex(index=lines, columns=order).reset_index()
    out.columns.name = None
    out.attrs = {"units": dict.fromkeys(order, "cycles"), "right": order}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps, with the detour."""
    return _wide(frame, [*CASES, DETOUR])


def _band(r: Any) -> str:
    return said.estimated(r.cycles, r.low, r.high)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: what far adds to near, by release and core, such as "v7-2-cortex-a72-detour-added", with its band."""
    part = frame[frame["case"] == DETOUR]
    return {f"{r.release.replace('.', '-')}-{r.core}-detour-added": _band(r) for r in part.itertuples()}


def answer(frame: pd.DataFrame) -> str:
    """What far adds to near on each core of the kernels in which it is another way, and how much that is of what sharing adds."""
    wide = frame.pivot(index=["isa", "release", "core"], columns="case", values="cycles")
    more = frame[(frame["case"] == DETOUR) & (frame["high"] > 0)]
    if more.empty:
        return "Out of the site's reach a direct call costs no cycle more than in it, by estimate."
    told = said.listed(f"{_band(r)} cycles on {r.core}" for r in more.itertuples())
    paid = wide.loc[[(r.isa, r.release, r.core) for r in more.itertuples()]]
    share = (paid[DETOUR] / paid[SHARED]).max()
    return (
        f"Out of the site's reach a direct call costs an estimated {told} more than in it (with their bands): at most "
        f"{100 * share:.0f} % of what a shared one costs."
    )


FIGURES = (
    Figure(
        "fig-reach-cycles",
        "What does each way cost on a core?",
        table=table,
        answer=answer,
        limits="Estimates with models of the cores of what one direct call adds to a warm call of a three-argument function; bands "
        "vary what is not known of the core. Indirect branches are taken to be predicted.",
        in_short=ESTIMATES,
    ),
)
