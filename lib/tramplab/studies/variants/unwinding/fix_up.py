"""What do unwinders see of a call through a generated trampoline, and what does the fix-up cost that ftrace's makes for them?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ....emulate.machine import RECORD
from ....ftrace import releases
from ....lab.kernel import Kernel
from ....lab.run import Run
from ....publish.claims.verdict import Verdict, across, judges
from ....publish.figures.figure import Figure
from ....publish.phrases import isa_name, listed
from ....trampolines.plain import Ops
from ...memo import once
from . import unwinding, unwound
from .unwound import FP, ORC, by_isa, of

NAME = "fix_up"
TITLE = "What an unwinder sees around a callback or program"
HOOKS = {"ops": "ftrace's", "bpf-fentry": "fentry", "bpf-fexit": "fexit"}
GENERATED = ("bpf-fentry", "bpf-fexit")
WAYS = {FP: "by frame pointers", ORC: "by ORC's rules"}
PROGRAM = "callback"  # the part that a callback or program is
#: The ISA on which the fix-up comes and goes with the kernel's frame pointers.
BUILT_EITHER_WAY = "x86_64"


@once
def rows() -> pd.DataFrame:
    """One row per ISA, hook, way of unwinding and part of the call in the newest release, see unwound.shares: of one ops, one
    fentry program, and one fexit program."""
    seen = unwinding.rows()
    chosen = (seen["release"] == releases.LATEST) & (seen["unwinder"] != unwinding.ENTRY) & seen["hook"].isin(list(HOOKS))
    return unwound.shares(seen[chosen])


@once
def cost() -> dict[str, Any]:
    """What the fix-up adds to one ops on x86-64: "instructions-added", "loads-added", "stores-added"; the kernel's other parts are
    built alike, and the function is one that makes no record."""
    with_it, without = (_hooked(pointers) for pointers in (True, False))
    hooked, plain = (run.counts.by_component["trampoline"].as_dict() for run in (with_it, without))
    return {f"{name}-added": hooked[name] - plain[name] for name in ("instructions", "loads", "stores")}


def _hooked(frame_pointer: bool) -> Run:
    kernel = Kernel(BUILT_EITHER_WAY, meter=RECORD, frame_pointer=frame_pointer)
    function = kernel.function(unwinding.TRACED)
    with kernel.attached(function, Ops()):
        return kernel.call(function, *unwinding.ARGUMENTS[:2])


def inside(frame: pd.DataFrame) -> pd.DataFrame:
    """Generated trampolines, as kernels are unwound."""
    return frame[frame["hook"].isin(GENERATED) & frame["unwound"].isin([FP, ORC])].reset_index(drop=True)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """The trampoline and the callback or program: at how many instructions what is found, and how often ORC's rules must guess."""
    part = rows[rows["part"].isin(["trampoline", PROGRAM])]
    part = part.assign(hook=part["hook"].map(HOOKS), part=part["part"].where(part["part"] != PROGRAM, "program"))
    columns = ["isa", "hook", "unwound", "part", "count", "function", "caller", "both", "guessed"]
    return part.rename(columns={"boundaries": "count"})[columns]


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: of ftrace's trampoline too, and of every way of unwinding."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: what the fix-up costs, see cost(); and of a program's instructions, by ISA, kind of program and way of
    unwinding, how many there are, "x86_64-fexit-ORC-count", and at how many function and caller are both found, "-both"."""
    program = table(inside(frame)).query("part == 'program'")
    keys = program["isa"] + "-" + program["hook"] + "-" + program["unwound"]
    return cost() | {f"{key}-{of}": int(n) for of in ("count", "both") for key, n in zip(keys, program[of], strict=True)}


def _answer(rows: pd.DataFrame) -> str:
    program = rows[rows["part"] == PROGRAM]
    fentry, fexit = [program[program["hook"] == hook] for hook in GENERATED]
    by_orc, fp = [fentry[fentry["unwound"] == how] for how in (ORC, FP)]
    ours = fexit[fexit["isa"] == BUILT_EITHER_WAY]
    ways = listed([f"{of(part)} {WAYS[str(how)]}" for how, part in ours.groupby("unwound", sort=False)])
    return (
        f"From inside an fentry program frame pointers show the traced function and its caller at {by_isa(fp)}; ORC's rules show "
        f"both at {by_isa(by_orc)}. From inside an fexit program x86-64 shows both at {ways}."
    )


@judges("v5")
def generated_lacks_the_fixup(frame: pd.DataFrame | None = None) -> Verdict:
    """Per ISA and unwinder: from inside an fentry program, are function and caller never both found?"""
    frame = rows() if frame is None else frame
    program = frame[(frame["part"] == PROGRAM) & frame["unwound"].isin([FP, ORC])]
    made, ours = [program[program["hook"] == hook] for hook in ("bpf-fentry", "ops")]
    kind, on = across(made.assign(truth=made["both"] == 0), {"isa": "the ISA", "unwound": "the unwinder"})
    values: dict[str, int | float | str] = {}
    for whose, some in (("generated", made), ("ftrace's", ours)):
        for (isa, how), group in some.groupby(["isa", "unwound"], sort=False):
            values |= {f"{isa_name(str(isa))}, {how}, {whose}": of(group)}
    price = cost()
    fp, by_orc = ([part[part["unwound"] == how] for part in (made, ours)] for how in (FP, ORC))
    because = (
        f"By frame pointers the traced function and its caller are found from inside the program at {by_isa(fp[0])}, from inside "
        f"ftrace's callback at {by_isa(fp[1])}. By ORC's rules, in x86-64's kernels without frame pointers, both are found at "
        f"{of(by_orc[0])} of the program's instructions and {of(by_orc[1])} of the callback's. "
        f"Without them ftrace's trampoline on x86-64 runs {price['instructions-added']} instructions fewer, "
        f"{price['stores-added']} stores among them."
    )
    return Verdict(kind, because, values | {"instructions of the fix-up": price["instructions-added"]}, on)


FIGURES = (
    Figure(
        "fig-fix-up",
        f"Are function and caller found around a BPF program? ({releases.LATEST})",
        rows=inside,
        table=table,
        chart=lambda rows: unwound.chart(rows.assign(hook=rows["hook"].map(HOOKS)).replace({"part": {PROGRAM: "program"}}), "hook"),
        alt="A panel per kind of program with a row per kernel and a column per part of the hook: the share of its instructions at "
        "which the traced function and its caller are both found. The table has the trampoline and the program.",
        limits=unwinding.LIMITS,
        answer=_answer,
    ),
)
