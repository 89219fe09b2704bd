"""Does a fix keep the guard that ftrace loses? Kernels of one source, booted without it and with it."""

from __future__ import annotations

import pandas as pd

from tramplab.boot import saved
from tramplab.boot.readings import Executed, Module, Reading, first

from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name
from ..memo import once

NAME = "guard_fix"
TITLE = "The lost guard, with a fix and without"
#: Label of a reading -> what has come and gone then.
STEPS = {
    "plain": "a plain ops",
    "guarded": "a guarded ops",
    "guarded-and-plain": "both",
    "plain-left": "the plain one has left",
    "guarded-left": "the guarded one has left",
    "calls-itself-after": "callback calls function",
}


@once
def rows() -> pd.DataFrame:
    """One row per kernel and step. Columns: isa, fixed, step, label, read (instructions that it adds to a call, or how it
    ended)."""
    records = []
    for kernel in saved.guard_fix():
        none = first(Executed, saved.tried(kernel, "guard-lost", "none")).instructions
        for label, step in STEPS.items():
            read = _said(saved.tried(kernel, "guard-lost", label)[0], none)
            records.append({"isa": kernel["isa"], "fixed": kernel["fixed"], "step": step, "label": label, "read": read})
    return pd.DataFrame(records)


def _said(read: Reading, none: float) -> str:
    if isinstance(read, Executed):
        return str(read.instructions - none)
    return f"{read.called} calls" if isinstance(read, Module) else "overflow"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per step, a column per ISA and build."""
    builds = zip(frame["isa"], frame["fixed"], strict=True)
    names = [f"{isa_name(isa)} {'fixed' if fixed else 'now'}" for isa, fixed in builds]
    wide = frame.assign(kernel=names).pivot(index="step", columns="kernel", values="read")
    wide = wide.reindex(index=list(STEPS.values()), columns=list(dict.fromkeys(names))).reset_index()
    wide.attrs["right"] = list(dict.fromkeys(names))
    return wide


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What was read, "arm64-fixed-plain-left", a number where it is one."""
    named = {f"{r.isa}-{'fixed' if r.fixed else 'as-is'}-{r.label}": r.read for r in frame.itertuples()}
    return {name: int(read) if read.isdigit() else read for name, read in named.items()}


FIGURES = (
    Figure(
        "fig-guard-fix",
        "Does a fix keep the guard?",
        table=table,
        limits="Instructions of a system call of kernels that were built from Debian's source of 7.2 with a small configuration, "
        "one without the fix and one with it, booted under QEMU.",
        source="booted",
    ),
)
