"""Instruction by instruction: what do ftrace's trampoline for live registers and the generated one each do?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.isa import ISAS, get
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import FUNCTIONS
from tramplab.trampolines.arguments import live_registers

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.table import pivot
from ...memo import once
from ...shared.hypothetical import flagged, named
from . import generated
from .what_for import JOBS, PASS, SETTING, jobs

NAME = "jobs"
TITLE = "What the instructions of a trampoline are for"
#: Both are hypothetical: the one that was argued for, and the one of the mail.
VARIANTS = LIVE, BARE = ("ops-live", "bare")
UNITS: dict[str, str] = {}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, number of integer arguments, variant and job: instructions of the trampoline in one call.

    Columns: isa, args, variant, hypothetical, job (of what_for.JOBS), instructions.
    """
    prototypes = {isa: Kernel(isa).image.prototypes for isa in ISAS}
    records = []
    for (isa, args, variant), run in generated.runs().items():
        if variant in VARIANTS:
            found = jobs(get(isa), run, live_registers(get(isa), prototypes[isa][FUNCTIONS[args]]))
            head = {"isa": isa, "args": args, "variant": variant}
            records += [{**head, "job": job, "instructions": found.count(job)} for job in JOBS]
    frame = flagged(pd.DataFrame(records), "variant", also=generated.SKETCHED)
    frame.attrs["units"] = UNITS
    return frame


def with_two(frame: pd.DataFrame) -> pd.DataFrame:
    """The calls with two arguments."""
    return frame[frame["args"] == 2]


def alike(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions compared like with like, without SETTING: one row per ISA and number of arguments, one column per variant."""
    rows = frame[~frame["job"].isin(SETTING)]
    return rows.groupby(["isa", "args", "variant"], sort=False)["instructions"].sum().unstack("variant")


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: a line per ISA, number of arguments and variant."""
    shown = named(frame[frame["args"].isin((0, 2, 8))], "variant")
    return pivot("instructions", across="job", index=("isa", "args", "variant"))(shown)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """Numbers for the prose of the call with two arguments: "x86_64-bare-frame", the sum "x86_64-bare-total", and the sum of what
    is compared like with like, "x86_64-bare-alike", "x86_64-bare-kept" without passing the callee its own;
    "x86_64-better-from", the least number of arguments from which on the live registers are no more instructions, or "none"; and of
    "counts", all numbers of arguments, "x86_64-worse", with how many they are more without passing."""
    values: dict[str, Any] = {}
    for r in with_two(frame).itertuples():
        values[f"{r.isa}-{r.variant}-{r.job}"] = int(r.instructions)
        values[f"{r.isa}-{r.variant}-total"] = values.get(f"{r.isa}-{r.variant}-total", 0) + int(r.instructions)
    sums, kept = alike(frame), alike(frame[frame["job"] != PASS])
    for isa in dict.fromkeys(frame["isa"]):
        sum_of = sums.loc[isa]
        for variant in VARIANTS:
            two = {"alike": sum_of.loc[2, variant], "kept": kept.loc[(isa, 2), variant]}
            values |= {f"{isa}-{variant}-{name}": int(n) for name, n in two.items()}
        values |= {"counts": len(sum_of), f"{isa}-worse": int((kept.loc[isa][LIVE] > kept.loc[isa][BARE]).sum())}
        good = [n for n in sum_of.index if (sum_of.loc[n:, LIVE] <= sum_of.loc[n:, BARE]).all()]
        values[f"{isa}-better-from"] = int(good[0]) if good else "none"
    return values


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The calls with two arguments by hook and job; what belongs to the setting is one job here, of which no ISA has both."""
    data = with_two(frame).assign(job=lambda d: d["job"].where(~d["job"].isin(SETTING), "setting"))
    keys = ["isa", "variant", "hypothetical", "job"]
    out = data.groupby(keys, sort=False, as_index=False)["instructions"].sum()
    return out.rename(columns={"job": "component", "variant": "hook"})


FIGURES = (
    Figure(
        "fig-jobs",
        "What does each trampoline do with its instructions?",
        rows=_shown,
        chart=lambda frame: stacked_bars("instructions", stack="component")(named(frame)),
        table=lambda frame: pivot("instructions", across="component", index=("isa", "hook"))(named(frame)),
        alt="A panel per ISA: instructions of two trampolines for a function of two arguments, by what they are for. The table "
        "below has every number.",
        limits="Emulated counts of the trampolines' own instructions in one call of a function with two arguments. What an "
        "instruction is for is found from what it reads, writes and comes before.",
        hypothetical=True,
    ),
)
