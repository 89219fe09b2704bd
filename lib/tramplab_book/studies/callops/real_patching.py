"""Do schemes come to the same verdict on the text of real kernels?"""

from __future__ import annotations

import pandas as pd

from tramplab.races.model.fetches import MODELS
from tramplab.races.schemes.schemes import scheme
from tramplab.vmlinux.saved import races_saved

from ...publish.figures.figure import Body, Figure
from ...publish.figures.grid import Grid
from ...publish.phrases import marked
from ..memo import once
from ..shared.hypothetical import named
from . import patching

NAME = "real_patching"
TITLE = "Patching schemes on the text of Debian's kernels"
LIMITS = f"The lab beside Debian's kernels, both emulated. {patching.LIMITS}"


@once
def rows() -> pd.DataFrame:
    """One row per kernel, scheme that fits its sites, and model of fetches.

    Columns: kernel (Debian's, "6.12-arm64"), version, scheme, isa, hypothetical, fetch, kernel_outcome, kernel_steps, lab_outcome,
    lab_steps (0 where nothing bad is found), same (the verdict, and the property that is violated). """
    lab = {(r.scheme, r.fetch): r for r in patching.rows().itertuples()}
    out = []
    for kernel in races_saved.read()["kernels"]:
        for found in kernel["results"]:
            own = lab[found["scheme"], found["fetch"]]
            out.append(
                {
                    "kernel": kernel["name"].removeprefix("debian-"),
                    "version": kernel["version"],
                    "scheme": found["scheme"],
                    "isa": own.isa,
                    "hypothetical": bool(scheme(found["scheme"]).hypothetical),
                    "fetch": found["fetch"],
                    "kernel_outcome": found["outcome"],
                    "kernel_steps": found["steps"],
                    "lab_outcome": own.outcome,
                    "lab_steps": own.steps,
                    "same": found["outcome"] == own.outcome,
                }
            )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = {"kernel_steps": "shortest", "lab_steps": "shortest"}
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel, scheme and model: how each ends."""
    words = named(frame, "scheme")
    pairs = {side: zip(words[f"{side}_outcome"], words[f"{side}_steps"], strict=True) for side in ("kernel", "lab")}
    ends = {side: [_end(*pair) for pair in each] for side, each in pairs.items()}
    image = list(words["kernel"])
    out = pd.DataFrame({"image": image, "scheme": list(words["scheme"]), "fetch": list(words["fetch"]), **ends})
    out.attrs["units"] = {}
    return out


def _end(outcome: str, steps: int) -> str:
    return f"{outcome}, {steps}" if steps else outcome


def body(frame: pd.DataFrame) -> Body:
    """A line per kernel and scheme; where the lab says otherwise, that too."""
    lines = []
    for (kernel, name), part in frame.groupby(["kernel", "scheme"], sort=False):
        of = {r.fetch: r for r in part.itertuples()}
        cells = {fetch: _cell(of[fetch]) for fetch in MODELS}
        lines.append({"kernel": kernel, "scheme": marked(patching.LABELS[str(name)], bool(part["hypothetical"].iloc[0])), **cells})
    return Grid(pd.DataFrame(lines), "What is found on the text of Debian's kernels")


def _cell(row: object) -> str:
    own, lab = _end(row.kernel_outcome, row.kernel_steps), _end(row.lab_outcome, row.lab_steps)  # type: ignore[attr-defined]
    return own if own == lab else f"{own} (lab: {lab})"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: cases in all, "cases-total", those with the same verdict, "cases-same", and the kernels,
    "kernels-total"."""
    return {"cases-total": len(frame), "cases-same": int(frame["same"].sum()), "kernels-total": frame["kernel"].nunique()}


FIGURES = (
    Figure(
        "fig-real-patching",
        "Do schemes end on real kernels' text as they do in the lab?",
        table=table,
        body=body,
        tabs="isa",
        limits=LIMITS,
        source="both",
        kind="search",
        hypothetical=True,
    ),
)
