"""What does one ops cost over a trampoline made for the function, and what is left of it when the callback is empty?

The proof that was asked for in October 2019, with the trampoline that does not save all registers; and the callback of the
published tables of CALL_OPS, which returns at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...emulate.machine import RECORD
from ...ftrace.ops import Request
from ...ftrace.releases import LATEST
from ...isa import ISAS
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...publish.figures.chart import dumbbell
from ...publish.figures.figure import Figure
from ...publish.said import HYPOTHETICAL, estimated, isa_name, marked
from ...trampolines.bpf import Bpf
from ...trampolines.plain import Ops
from ..once import once

NAME = "empty_callback"
TITLE = "One ops over a generated trampoline, and with an empty callback"
FUNCTION, ARGUMENTS = "two_args", (1, 2)
#: The release in which each ISA is asked: x86-64 in the oldest shown, which is nearest to the argument.
RELEASES = {"x86_64": "v5.17", "arm64": LATEST, "riscv64": LATEST}
#: What is compared with: code made for the function that calls the program and does nothing else; no kernel has it.
GENERATED = "generated"
COUNTS, EMPTY = "counts", "empty"
#: Hook and callback -> what is attached. A program always counts.
HOOKS: dict[tuple[str, str], Callable[[], Request]] = {
    (GENERATED, COUNTS): lambda: Bpf(fentry=1, guarded=False),
    ("ops", COUNTS): Ops,
    ("ops", EMPTY): lambda: Ops(callback="ftrace_stub"),
    ("ops-regs", COUNTS): lambda: Ops(save="regs"),
    ("ops-regs", EMPTY): lambda: Ops(save="regs", callback="ftrace_stub"),
}
#: The core of the saved native times first.
CORES = ("zen4", "skylake", "cortex-a72", "sifive-u74", "spacemit-x60")
UNITS = dict.fromkeys(("instructions", "estimate", "low", "high", "over", "over_low", "over_high"), "added")


@once
def rows() -> pd.DataFrame:
    """One row per core, hook and callback: what it adds to a call of a function with two arguments.

    Columns: isa, release, core, hook, hypothetical (no kernel has it), callback ("counts" its calls, or "empty"), instructions,
    estimate, low, high (cycles), over, over_low, over_high (cycles more than the generated trampoline; only of hooks whose callback
    counts, as its program does).
    """
    out = []
    for model in map(core, CORES):
        runs = _runs(model.isa)
        base, generated = runs["none", ""], runs[GENERATED, COUNTS]
        for (hook, callback), run in runs.items():
            if hook == "none":
                continue
            added = run.counts.total.instructions - base.counts.total.instructions
            total, over = cycles.estimate(run, base, model), cycles.estimate(run, generated, model)
            row: dict[str, object] = {"isa": model.isa, "release": RELEASES[model.isa], "core": model.name}
            row |= {"hook": hook, "hypothetical": hook == GENERATED, "callback": callback}
            row |= {"instructions": added, "estimate": total.mid, "low": total.low, "high": total.high}
            if callback == COUNTS and hook != GENERATED:
                row |= {"over": over.mid, "over_low": over.low, "over_high": over.high}
            out.append({k: round(float(v), 1) if isinstance(v, float) else v for k, v in row.items()})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache
def _runs(isa: str) -> dict[tuple[str, str], Run]:
    """The unhooked call, and one with each hook that the release has."""
    kernel = Kernel(isa, RELEASES[isa], meter=RECORD)
    function = kernel.function(FUNCTION)
    runs = {("none", ""): kernel.call(function, *ARGUMENTS)}
    for (hook, callback), request in HOOKS.items():
        if hook != "ops-regs" or kernel.features["regs"]:
            with kernel.attached(function, request()):
                runs[hook, callback] = kernel.call(function, *ARGUMENTS)
    return runs


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per core: instructions, cycles, and cycles over the generated trampoline, by hook and callback."""
    shown = frame.to_dict("records")
    out = pd.DataFrame(
        {
            "isa": [f"{r['isa']} {r['release']}, {r['core']}" for r in shown],
            "hook": [marked(r["hook"], r["hypothetical"]) for r in shown],
            "callback": [r["callback"] for r in shown],
            "insns": [r["instructions"] for r in shown],
            "estimate": [estimated(r["estimate"], r["low"], r["high"]) for r in shown],
            "over_generated": ["-" if pd.isna(r["over"]) else _over(r) for r in shown],
        }
    )
    out.attrs["units"] = {"insns": "added", "estimate": "cycles", "over_generated": "cycles"}
    out.attrs["right"] = ("estimate", "over_generated")
    return out


def _over(row: Mapping) -> str:
    return estimated(*(round(row[c]) for c in ("over", "over_low", "over_high")))


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def _by(frame: pd.DataFrame) -> dict[tuple[str, str, str], Mapping]:
    return {(r["core"], r["hook"], r["callback"]): r for r in frame.to_dict("records")}


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: instructions that an empty callback saves, "x86_64-saved", and cycles that an ops costs over the
    generated trampoline on a core, "skylake-ops-over", and one for all registers, "skylake-ops-regs-over", with their bands."""
    found, out = _by(frame), {}
    for name in CORES:
        isa = core(name).isa
        out[f"{isa}-saved"] = found[name, "ops", COUNTS]["instructions"] - found[name, "ops", EMPTY]["instructions"]
        for hook in ("ops", "ops-regs"):
            if (name, hook, COUNTS) in found:
                out[f"{name}-{hook}-over"] = _over(found[name, hook, COUNTS])
    return out


def answer(frame: pd.DataFrame) -> str:
    """What an ops costs over the generated trampoline, by core, and what an empty callback saves, by ISA."""
    found = _by(frame)
    over = [f"{_over(found[name, 'ops', COUNTS])} on {name}" for name in CORES]
    saved = [f"{numbers(frame)[f'{isa}-saved']} on {isa_name(isa)}" for isa in ISAS]
    return (
        f"Over a trampoline made for the function, an ops that saves the arguments costs, in estimated cycles, {', '.join(over)}. "
        f"With an empty callback in place of one that counts it executes fewer instructions: {', '.join(saved)}."
    )


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per hook and callback of the first core of each ISA, as the chart shows it."""
    first = frame.drop_duplicates("isa")["core"]
    shown = frame[frame["core"].isin(first)].rename(columns={"estimate": "cycles"})
    names = [marked(hook, unreal) for hook, unreal in zip(shown["hook"], shown["hypothetical"], strict=True)]
    shown = shown.assign(panel=shown["core"] + ", " + shown["release"], hook=names)
    return shown.assign(by=shown["callback"].map({COUNTS: "counting callback", EMPTY: "empty callback"}))


_CHART = dumbbell("cycles", "hook", "by", low="low", high="high", facet="panel")

FIGURES = (
    Figure(
        "fig-empty-callback",
        "What does an ops cost over a trampoline made for the function?",
        chart=lambda frame: _CHART(dumbbells(frame)),
        table=table,
        answer=answer,
        alt="A panel per ISA, for one of its cores: estimated cycles that a generated trampoline, an ops and, where the release "
        "has one, an ops with all registers add, with a callback that counts and with an empty one. The table has every number.",
        limits="Emulated counts of one call of a function with two arguments, and cycles as estimates with their band. generated: "
        "a trampoline for the function that calls a program and has nothing around it, as proposed in 2019; its program counts. "
        + HYPOTHETICAL,
    ),
)
