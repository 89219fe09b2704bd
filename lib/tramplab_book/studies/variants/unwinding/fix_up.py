"""What do unwinders see of a call through a generated trampoline, and what does the fix-up cost that ftrace's makes for them?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.ftrace import releases
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.plain import Ops

from ....publish.figures.figure import Figure
from ...memo import once
from . import unwinding, unwound
from .unwound import FP, ORC

NAME = "fix_up"
TITLE = "What an unwinder sees around a callback or program"
HOOKS = {"ops": "ftrace's", "bpf-fentry": "fentry", "bpf-fexit": "fexit"}
GENERATED = ("bpf-fentry", "bpf-fexit")
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


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: what the fix-up costs, see cost(); and of the instructions of a callback, "ops", or a program, by ISA
    and way of unwinding, how many there are, "x86_64-fexit-ORC-count", and at how many what is found: "-function", "-caller",
    "-both"."""
    program = table(frame[frame["unwound"].isin([FP, ORC])]).query("part == 'program'")
    keys = program["isa"] + "-" + program["hook"].replace(HOOKS["ops"], "ops") + "-" + program["unwound"]
    found = ("count", "function", "caller", "both")
    return cost() | {f"{key}-{of}": int(n) for of in found for key, n in zip(keys, program[of], strict=True)}


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
    ),
)
