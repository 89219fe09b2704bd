"""Instruction by instruction: what do ftrace's trampoline for live registers and the generated one each do?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ....isa import ISAS, get
from ....lab.kernel import Kernel
from ....lab.measure import FUNCTIONS
from ....publish.claims.verdict import BY_ISA, Verdict, across, judges
from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import isa_name, marked
from ....publish.table import pivot
from ....trampolines.arguments import live_registers
from ...memo import once
from ...shared.hypothetical import flagged, named
from . import generated
from .what_for import JOBS, SETTING, jobs

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
    is compared like with like, "x86_64-bare-alike"; "x86_64-better-from", the least number of arguments from which on the live
    registers are no more instructions, or "none"."""
    values: dict[str, Any] = {}
    for r in with_two(frame).itertuples():
        values[f"{r.isa}-{r.variant}-{r.job}"] = int(r.instructions)
        values[f"{r.isa}-{r.variant}-total"] = values.get(f"{r.isa}-{r.variant}-total", 0) + int(r.instructions)
    sums = alike(frame)
    for isa in dict.fromkeys(frame["isa"]):
        sum_of = sums.loc[isa]
        values |= {f"{isa}-{variant}-alike": int(sum_of.loc[2, variant]) for variant in VARIANTS}
        good = [n for n in sum_of.index if (sum_of.loc[n:, LIVE] <= sum_of.loc[n:, BARE]).all()]
        values[f"{isa}-better-from"] = int(good[0]) if good else "none"
    return values


@judges("v8")
def live_is_as_good_as_generated(frame: pd.DataFrame | None = None) -> Verdict:
    """As good: no more instructions than the generated trampoline that only calls the program, for each number of arguments, with
    the same landing pads, patch slots and reach on both sides."""
    frame = rows() if frame is None else frame
    sums = alike(frame)
    cases = sums.reset_index().assign(truth=lambda d: d[LIVE] <= d[BARE])
    kind, on = across(cases, {**BY_ISA, "args": "the number of arguments"})
    two = with_two(frame).pivot_table(index=["isa", "variant"], columns="job", values="instructions", sort=False)
    parts: list[str] = []
    values: dict[str, int | str] = {}
    for isa in dict.fromkeys(frame["isa"]):
        live, bare = two.loc[isa, LIVE], two.loc[isa, BARE]
        name, (mine, theirs) = isa_name(isa), (int(sums.loc[(isa, 2), v]) for v in (LIVE, BARE))
        unlike = [job for job in JOBS if job not in SETTING and live[job] != bare[job]]
        differing = [f"{job} {int(live[job])} and {int(bare[job])}" for job in unlike]
        as_good = cases[(cases["isa"] == isa) & cases["truth"]]["args"].tolist()
        parts.append(f"{mine} and {theirs} on {name} ({', '.join(differing)}; as good {_with(as_good, max(cases['args']))})")
        values |= {f"{name}, live": mine, f"{name}, generated": theirs}
    because = (
        f"With two arguments the trampoline for the live registers and the generated one execute {'; '.join(parts)}. Landing pads, "
        "patch slots and what it takes to reach code that no branch reaches are left out of both. The generated one makes a frame "
        "that unwinders can follow, ftrace's does on arm64 only. Both are hypothetical: no kernel has either."
    )
    return Verdict(kind, because, values, on)


def _with(counts: list[int], most: int) -> str:
    """With which numbers of arguments, in words.

    >>> _with([2, 3, 4], 4), _with([0, 1], 1), _with([4], 4), _with([1], 4), _with([], 4)
    ('from 2 arguments on', 'with any number of arguments', 'with 4 arguments', 'with 1 argument', 'with no number of arguments')
    """
    if len(counts) > 1 and counts == list(range(counts[0], most + 1)):
        return f"from {counts[0]} arguments on" if counts[0] else "with any number of arguments"
    return f"with {', '.join(map(str, counts)) or 'no number of'} argument{'s' * (counts != [1])}"


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The calls with two arguments by hook and job; what belongs to the setting is one job here, of which no ISA has both."""
    data = with_two(frame).assign(job=lambda d: d["job"].where(~d["job"].isin(SETTING), "setting"))
    keys = ["isa", "variant", "hypothetical", "job"]
    out = data.groupby(keys, sort=False, as_index=False)["instructions"].sum()
    return out.rename(columns={"job": "component", "variant": "hook"})


def _answer(frame: pd.DataFrame) -> str:
    sums = frame[frame["component"] != "setting"].groupby(["isa", "hook"], sort=False)["instructions"].sum()
    pairs = [f"{sums[isa, LIVE]} and {sums[isa, BARE]} on {isa_name(isa)}" for isa in dict.fromkeys(frame["isa"])]
    return (
        f"Without the setting, {marked(LIVE)} and {marked(BARE)} execute {', '.join(pairs)}: ftrace's passes more, the generated "
        "one makes a larger frame."
    )


FIGURES = (
    Figure(
        "fig-jobs",
        "What does each trampoline do with its instructions?",
        rows=_shown,
        chart=lambda frame: stacked_bars("instructions", stack="component")(named(frame)),
        table=lambda frame: pivot("instructions", across="component", index=("isa", "hook"))(named(frame)),
        answer=_answer,
        alt="A panel per ISA: instructions of two trampolines for a function of two arguments, by what they are for. The table "
        "below has every number.",
        limits="Emulated counts of the trampolines' own instructions in one call of a function with two arguments. What an "
        "instruction is for is found from what it reads, writes and comes before.",
        hypothetical=True,
    ),
)
