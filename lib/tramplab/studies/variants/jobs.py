"""Instruction by instruction: what do ftrace's trampoline for live registers and the generated one each do?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analyse.program import operation_of
from ...isa import ISAS, Isa, get
from ...lab.kernel import Kernel
from ...lab.measure import FUNCTIONS
from ...lab.run import Run
from ...publish.claims.verdict import BY_ISA, Verdict, across, judges
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.table import pivot
from ...trampolines.arguments import live_registers
from ..once import once
from . import generated

NAME = "jobs"
TITLE = "What the instructions of a trampoline are for"
VARIANTS = ("ops-live", "bare", "fentry")
#: What an instruction is for: keeping the arguments, giving the callee its own, the call, getting there from the patch site,
#: and all else: frame, way back, records, marks, NOPs.
KEEP, PASS, CALL, REACH, FRAME = JOBS = ("arguments", "passing", "call", "reach", "frame")
UNITS: dict[str, str] = {}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, number of integer arguments, variant and job: instructions of the trampoline in one call.

    Columns: isa, args, variant, job, instructions.
    """
    prototypes = {isa: Kernel(isa).image.prototypes for isa in ISAS}
    out = []
    for (isa, args, variant), run in generated.runs().items():
        if variant in VARIANTS:
            found = jobs(get(isa), run, live_registers(get(isa), prototypes[isa][FUNCTIONS[args]]))
            head = {"isa": isa, "args": args, "variant": variant}
            out += [{**head, "job": job, "instructions": found.count(job)} for job in JOBS]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def jobs(isa: Isa, run: Run, arguments: tuple[str, ...]) -> list[str]:
    """The job of every instruction that a trampoline executes in a call, in order.

    Keeping: a store of an argument register that still holds the argument, or a load of one after which nothing is called.
    Passing: what else writes an argument register. The call: it, and what writes the register it goes through.
    """
    steps = [s for s in run.steps if run.component_of(s.pc) not in ("site", "function")]
    inside = [run.component_of(s.pc) == "trampoline" for s in steps]
    last = max(i for i, mine in enumerate(inside) if not mine)
    operations = [
        operation_of(isa, run.instructions[s.pc]) if mine else None for s, mine in zip(steps, inside, strict=True)
    ]
    spoiled: set[str] = set()
    out: list[str] = []
    for i, (step, o) in enumerate(zip(steps, operations, strict=True)):
        if o is None:
            continue
        stores = any(is_store for _, _, is_store in step.accesses)
        loads = any(not is_store for _, _, is_store in step.accesses)
        if run.symbol_of(step.pc).startswith("ftrace_caller"):
            out.append(REACH)
        elif o.call or _goes_through(isa, operations, i):
            out.append(CALL)
        elif (stores and set(o.reads) & (set(arguments) - spoiled)) or (loads and i > last and set(o.writes) & set(arguments)):
            out.append(KEEP)
        elif set(o.writes) & set(isa.args):
            out.append(PASS)
        else:
            out.append(FRAME)
        spoiled |= set(o.writes)
    return out


def _goes_through(isa: Isa, operations: list, i: int) -> bool:
    """Does an instruction make the address that the next call of the trampoline goes to?"""
    written = set(operations[i].writes)
    for o in operations[i + 1 :]:
        if o is None:
            return False
        if o.call:
            return bool(written & set(o.reads))
        if not set(o.writes) <= written:
            return False
    return False


def with_two(frame: pd.DataFrame) -> pd.DataFrame:
    """The calls with two arguments."""
    return frame[frame["args"] == 2]


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: a line per ISA, number of arguments and variant."""
    return pivot("instructions", across="job", index=("isa", "args", "variant"))(frame[frame["args"].isin((0, 2, 8))])


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """What the prose quotes of the call with two arguments: "x86_64-bare-frame", and the sum, "x86_64-bare"."""
    out: dict[str, Any] = {}
    for r in with_two(frame).itertuples():
        out[f"{r.isa}-{r.variant}-{r.job}"] = int(r.instructions)
        out[f"{r.isa}-{r.variant}"] = out.get(f"{r.isa}-{r.variant}", 0) + int(r.instructions)
    return out


@judges("v8")
def live_is_as_good_as_generated(frame: pd.DataFrame | None = None) -> Verdict:
    """As good: with every number of arguments no more instructions than the generated trampoline that only calls the program."""
    frame = rows() if frame is None else frame
    sums = frame.groupby(["isa", "args", "variant"], sort=False)["instructions"].sum().unstack("variant")
    cases = sums.reset_index().assign(truth=lambda d: d["ops-live"] <= d["bare"])
    kind, on = across(cases, BY_ISA)
    two = with_two(frame).pivot_table(index=["isa", "variant"], columns="job", values="instructions", sort=False)
    told: list[str] = []
    found: dict[str, int | str] = {}
    for isa in dict.fromkeys(frame["isa"]):
        live, bare = two.loc[isa, "ops-live"], two.loc[isa, "bare"]
        name = {"x86_64": "x86-64"}.get(isa, isa)
        differing = [f"{job} {int(live[job])} and {int(bare[job])}" for job in JOBS if live[job] != bare[job]]
        told.append(f"{int(live.sum())} and {int(bare.sum())} on {name} ({', '.join(differing)})")
        found |= {f"{name}, live": int(live.sum()), f"{name}, generated": int(bare.sum())}
    because = (
        f"With two arguments ftrace's trampoline for the live registers and the generated one execute {'; '.join(told)}. Both keep "
        "the arguments with the same loads and stores or fewer. The generated one passes a pointer where ftrace's passes four "
        "arguments; it pays for a frame that unwinders can follow, and where no branch reaches it for the way there."
    )
    return Verdict(kind, because, found, on)


FIGURES = (
    Figure(
        "fig-jobs",
        "What does each trampoline do with its instructions?",
        rows=lambda frame: with_two(frame).rename(columns={"job": "component", "variant": "hook"}),
        chart=stacked_bars("instructions", stack="component"),
        table=pivot("instructions", across="component", index=("isa", "hook")),
        alt="A panel per ISA: instructions of three trampolines for a function of two arguments, by what they are for. The table "
        "below has every number.",
        limits="Emulated counts of the trampolines' own instructions in one call of a function with two arguments. What an "
        "instruction is for is found from what it reads, writes and comes before.",
    ),
)
