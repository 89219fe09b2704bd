"""Which returns does x86-64 mispredict when it is booted with mitigations?"""

from __future__ import annotations

import pandas as pd

from tramplab.estimate.returnstack import CALLERS
from tramplab.vmlinux.booted.mitigations import NONE, RETPOLINES, SAFE, SRSO, WITH
from tramplab.vmlinux.saved import saved

from ...publish.figures.figure import Figure
from ...publish.phrases import slug
from ..memo import once

NAME = "thunks"
TITLE = "Mispredicted returns with mitigations"
UNITS = {"instructions": "insns"}
#: Kernels of Debian, one whose fexit is reached by a call and one whose fexit is reached by a jump, and what is on a function.
OLD, NEW = "v6.12", "v7.2"
_ROWS = (
    *((NEW, hook) for hook in ("none", "ops", "ops:2", "direct", "direct+ops", "bpf-fentry")),
    (OLD, "bpf-fexit"),
    *((NEW, hook) for hook in ("bpf-fexit", "graph", "fprobe-exit", "kprobe", "kretprobe")),
)
#: Mitigations -> what a table calls them.
BOOTED = {NONE: "none", RETPOLINES: "retpolines", SAFE: "safe returns", SRSO: "both"}


@once
def rows() -> pd.DataFrame:
    """One row per hook of a Debian kernel of x86-64 and mitigations that it is booted with.

    Columns: release, hook, booted (of BOOTED), instructions (that it adds), own (mispredicted returns of the call), above (those of
    8 callers above it).
    """
    records = []
    for release, hook in _ROWS:
        for mitigations in (NONE, *WITH):
            counted = saved.with_mitigations(release, hook, mitigations)
            if counted is not None:
                row = dict(zip(("instructions", "own", "above"), counted, strict=True))
                records.append({"release": release, "hook": hook, "booted": BOOTED[mitigations], **row})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _name(release: str, hook: str) -> str:
    return hook if release == NEW else f"{hook} {release}"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per hook: mispredicted returns in the call and above it with each kind of mitigations, and the instructions that it
    adds with none of them and with both."""
    named = frame.assign(
        hook=[_name(r.release, r.hook) for r in frame.itertuples()],
        missed=frame["own"].astype(str) + "+" + frame["above"].astype(str),
    )
    wide = named.pivot_table(index="hook", columns="booted", values="missed", aggfunc="first", sort=False)
    for of, column in ((NONE, "adds"), (SRSO, "with both")):
        wide[column] = named[named["booted"] == BOOTED[of]].set_index("hook")["instructions"]
    out = wide.reset_index().rename_axis(columns=None)
    out.attrs["right"] = (*BOOTED.values(), "adds", "with both")
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "ops-2-both-own": mispredicted returns in a call of the newest of these kernels, here with two
    ops and with both mitigations, "-above" those of its callers; "bpf-fexit-v6-12-none-above" in the other one; "ops-both-added",
    instructions; and "callers"."""
    values: dict[str, object] = {"callers": CALLERS}
    for r in frame.itertuples():
        key = f"{slug(_name(r.release, r.hook))}-{slug(r.booted)}"
        values |= {f"{key}-own": int(r.own), f"{key}-above": int(r.above), f"{key}-added": int(r.instructions)}
    return values


FIGURES = (
    Figure(
        "fig-return-thunks",
        "Which returns does x86-64 mispredict with mitigations?",
        table=table,
        limits="Debian's images, run so, and a model of a return stack; no timing. Callbacks' own returns are left out. The "
        f"trampolines of bpf-fentry and bpf-fexit are the lab's. {CALLERS} callers.",
        legend=f"Mispredicted returns in the call + of the {CALLERS} callers above it; adds: instructions.",
        source="image",
    ),
)
