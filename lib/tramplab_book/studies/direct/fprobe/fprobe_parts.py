"""What makes BPF through an fprobe expensive: one reason removed after the other, and what is left over a direct call."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pandas as pd

from tramplab.isa import ISAS
from tramplab.lab.run import Run

from ....publish.figures.chart import stacked_bars, waterfall
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ..returns.signatures import FRAME, adapters
from .stages import (
    ARGUMENTS,
    DIRECT,
    OPTIMISED,
    REASONS,
    RING,
    SEQUENCE,
    UNGUARDED,
    UNOPTIMISED,
    WITHOUT_NODE,
    Stage,
    every,
    run,
)

NAME = "fprobe_parts"
TITLE = "What makes BPF through an fprobe expensive"
#: Part of a call -> what its functions' names begin with; what begins with none is a trampoline's or a site's.
PARTS = {
    "list function": ("ftrace_ops_list_func", "hash_contains_ip"),
    "fprobe": ("fprobe_handler", "lab_fprobe_args_handler"),
    "return hook": ("rethook_", "arch_rethook_", "objpool_", "rcu_is_watching", "fprobe_exit_handler", "bpf_fprobe_exit"),
    "handler": ("bpf_fprobe_entry",),
    "program, guarded": ("lab_bpf_", "__bpf_prog_", "update_prog_stats", "migrate_", "__rcu_read_"),
}
#: What of the handler goes into the arguments alone: what it executes more than for a function without any.
COPYING, HANDLER, PROGRAM = "copying", "handler", "program, guarded"
TRAMPOLINE = "site, trampoline"
ORDER = (TRAMPOLINE, "list function", "fprobe", "return hook", COPYING, HANDLER, PROGRAM)
_BOTH, _CALLED = "fprobe, return hook", "handler, program"
STEPS = ["unoptimised", *(f"no {name}" for name in REASONS.values()), "no node at all", "no fprobe"]
#: Columns that tell the stage.
CHOSEN = ("regs", "walk", "hook", "freelist", "node", "ring", "guard")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way to the program and part of the call: what a hooked call executes more than the unhooked one.

    Columns: isa, way ("fprobe" or "direct"), hypothetical (every fprobe is: no kernel runs BPF's fentry on one), regs, walk, hook,
    freelist, node, ring, guard (see stages.Stage; all False for the direct call), part (a name of ORDER), instructions, loads,
    stores.
    """
    records = []
    for isa in ISAS:
        stages: list[Stage | str] = [*every(), DIRECT]
        for stage in stages:
            hooked, idle = run(isa, stage)
            without, _ = run(isa, stage, arguments=False)
            known = {name: getattr(stage, name, False) for name in CHOSEN}
            head = {"isa": isa, "way": DIRECT if stage == DIRECT else "fprobe", "hypothetical": stage != DIRECT, **known}
            records += [{**head, **part} for part in _parts(hooked, idle, without)]
    return pd.DataFrame(records)


def _parts(hooked: Run, idle: Run, without: Run) -> list[dict[str, object]]:
    """The counts of each part of a call; the function itself is left out, and so is what the idle site does. without: a call with
    the same hook on a function without arguments."""
    found = dict.fromkeys(ORDER, idle.counts.total - idle.counts.total)
    for name, counts in hooked.counts.by_symbol.items():
        part = next((part for part, starts in PARTS.items() if name.startswith(starts)), TRAMPOLINE)
        found[part] += counts
    found[TRAMPOLINE] -= idle.counts.total
    for name, counts in without.counts.by_symbol.items():
        if name.startswith(PARTS[HANDLER]):
            found[COPYING] += found[HANDLER] - counts
            found[HANDLER] = counts
    return [{"part": p, "instructions": c.instructions, "loads": c.loads, "stores": c.stores} for p, c in found.items()]


def total(frame: pd.DataFrame, isa: str, stage: Stage | str, column: str = "instructions") -> int:
    """The number in a column, by default instructions, that a stage adds to a call."""
    return int(chosen(frame, isa, stage)[column].sum())


def chosen(frame: pd.DataFrame, isa: str, stage: Stage | str) -> pd.DataFrame:
    """The rows of one stage, or of the direct call."""
    rows = frame[frame["isa"] == isa]
    if isinstance(stage, str):
        return rows[rows["way"] == DIRECT]
    rows = rows[rows["way"] != DIRECT]
    for name in CHOSEN:
        rows = rows[rows[name] == getattr(stage, name)]
    return rows


# --- One after the other


def steps(frame: pd.DataFrame) -> pd.DataFrame:
    """The waterfall, a row per ISA and step. Columns: isa, step, instructions (what the unoptimised one adds, then changes)."""
    items = []
    for isa in dict.fromkeys(frame["isa"]):
        stages: list[Stage | str] = [*SEQUENCE, WITHOUT_NODE, DIRECT]
        sums = [total(frame, isa, stage) for stage in stages]
        names = [marked(STEPS[0]), *STEPS[1:]]
        changes = [sums[0], *(b - a for a, b in itertools.pairwise(sums))]
        items += [{"isa": isa, "step": name, "instructions": n} for name, n in zip(names, changes, strict=True)]
    return pd.DataFrame(items)


def alone(frame: pd.DataFrame) -> pd.DataFrame:
    """What each reason takes when it alone is taken away, and what it brings back as the only one. Columns: isa, reason, off,
    back."""
    items = []
    for isa in dict.fromkeys(frame["isa"]):
        whole, best = total(frame, isa, UNOPTIMISED), total(frame, isa, OPTIMISED)
        for reason, name in REASONS.items():
            without = Stage(**{r: r != reason for r in REASONS})
            only = Stage(**{r: r == reason for r in REASONS})
            off = whole - total(frame, isa, without)
            items.append({"isa": isa, "reason": name, "off": off, "back": total(frame, isa, only) - best})
    return pd.DataFrame(items)


def _steps_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per reason: instructions saved by removing only this reason, and added by leaving only this one, for each ISA."""
    wide = alone(frame)
    wide["said"] = [f"{-r.off:+d} / {r.back:+d}" for r in wide.itertuples()]
    out = wide.pivot(index="reason", columns="isa", values="said").reindex(index=list(REASONS.values()), columns=list(ISAS))
    out = out.reset_index()
    out.columns.name = None
    out.attrs["right"] = list(ISAS)
    return out


# --- What is left


def left(frame: pd.DataFrame) -> pd.DataFrame:
    """What the optimised fprobe executes more than the direct call, by part. Columns: isa, part, instructions, loads, stores."""
    names = ["instructions", "loads", "stores"]
    items = []
    for isa in dict.fromkeys(frame["isa"]):
        best, direct = (chosen(frame, isa, stage).set_index("part")[names] for stage in (OPTIMISED, DIRECT))
        items.append((best - direct).reset_index().assign(isa=isa))
    return pd.concat(items, ignore_index=True)[["isa", "part", *names]]


def ways(frame: pd.DataFrame) -> pd.DataFrame:
    """What the bars show, by part: the unoptimised fprobe, the optimised one, what was not proposed, and the direct call."""
    fprobes = {
        "fprobe": UNOPTIMISED,
        "all four gone": OPTIMISED,
        "v6.7's ring": RING,
        "no trylock": UNGUARDED,
        "no node": WITHOUT_NODE,
    }
    named: dict[str, Stage | str] = {marked(name): stage for name, stage in fprobes.items()} | {DIRECT: DIRECT}
    parts = [chosen(frame, isa, stage).assign(hook=name) for isa in ISAS for name, stage in named.items()]
    out = pd.concat(parts)[["isa", "hook", "part", "instructions", "loads", "stores"]]
    return out[out["instructions"] > 0]


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of ways() with fprobe and return hook as one part, and handler and program: a chart has five colours."""
    data = ways(frame)
    data["part"] = data["part"].replace({"fprobe": _BOTH, "return hook": _BOTH, HANDLER: _CALLED, PROGRAM: _CALLED})
    return data.groupby(["isa", "hook", "part"], sort=False)["instructions"].sum().reset_index()


def _ways_table(frame: pd.DataFrame) -> pd.DataFrame:
    data = ways(frame)
    wide = data.pivot(index=["isa", "hook"], columns="part", values="instructions")
    lines = pd.MultiIndex.from_frame(data[["isa", "hook"]].drop_duplicates())
    wide = wide.reindex(index=lines, columns=list(ORDER)).astype("Int64").astype("string").fillna("-")
    wide.columns = ["tramp", "list", "fprobe", "rethook", "copying", "handler", "program"]
    out = wide.reset_index()
    out.attrs["right"] = list(wide.columns)
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: every stage's total, and the direct call's."""
    keys = ["isa", "way", *CHOSEN]
    return frame.groupby(keys, sort=False)[["instructions", "loads", "stores"]].sum().reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, instructions: "arm64-unoptimised-added", "-optimised-added" (all four gone, as was proposed),
    "-ring-added" (that with v6.7's ring), "-unguarded-added" (without the trylock), "-direct-added", "-over" (the optimised one
    over the direct call), and per part "arm64-copying-over", "arm64-handler-over"; "arm64-all-registers-off" and so on, what a call
    saves without a reason; "arm64-ring-over", what the ring executes more than the list, and "-stack-under", what the stack
    executes less, where the other three are gone; "arm64-trampolines-apart", by how much the two trampolines differ;
    "arm64-stored", what it takes a direct call's trampoline to store as many arguments as "-copying-over" copies."""
    listed = replace(OPTIMISED, freelist=True)
    stored = adapters().set_index(["isa", "way", "arguments"])["instructions"]
    named: dict[str, Stage | str] = {
        "unoptimised": UNOPTIMISED,
        "optimised": OPTIMISED,
        "ring": RING,
        "unguarded": UNGUARDED,
        "direct": DIRECT,
    }
    values: dict[str, object] = {}
    for isa in ISAS:
        values |= {f"{isa}-{name}-added": total(frame, isa, stage) for name, stage in named.items()}
        values[f"{isa}-over"] = total(frame, isa, OPTIMISED) - total(frame, isa, DIRECT)
        values[f"{isa}-ring-over"] = total(frame, isa, RING) - total(frame, isa, listed)
        values[f"{isa}-stack-under"] = total(frame, isa, listed) - total(frame, isa, OPTIMISED)
        values[f"{isa}-stored"] = int(stored[isa, FRAME, len(ARGUMENTS)])
    for r in left(frame).itertuples():
        values[f"{r.isa}-{r.part.replace(', ', '-').replace(' ', '-')}-over"] = int(r.instructions)
        if r.part == TRAMPOLINE:
            values[f"{r.isa}-trampolines-apart"] = abs(int(r.instructions))
    for r in alone(frame).itertuples():
        values[f"{r.isa}-{r.reason.replace(' ', '-')}-off"] = int(r.off)
    return values


_LIMITS = "Emulated counts of instructions in one call of a two-argument function with one program, less the unhooked call's; no "
_LIMITS += "timing. "
FIGURES = (
    Figure(
        "fig-fprobe-reasons",
        "What makes BPF through an fprobe expensive?",
        chart=lambda frame: waterfall("instructions", "step", end=DIRECT)(steps(frame)),
        table=_steps_table,
        alt="A waterfall per ISA: what BPF through an unoptimised fprobe adds to a call, in instructions, what goes with each of "
        "the four reasons that were named, one after the other, then with the hook's node and the fprobe itself, and the direct "
        "call that is left. The table has what removing only this reason saves, and what leaving only this one adds.",
        limits=f"{_LIMITS}One CPU and one ops. In the table: removed by itself / left by itself.",
        hypothetical=True,
    ),
    Figure(
        "fig-fprobe-left",
        "What is left over a direct call when all four are gone?",
        chart=lambda frame: stacked_bars("instructions", bars="hook", stack="part")(_drawn(frame)),
        table=_ways_table,
        alt="Six bars per ISA: BPF through an unoptimised fprobe, through one without the four reasons, through that with v6.7's "
        "ring, without the trylock and without a node of a return hook, and by a direct call, each made of its parts: site and "
        "trampoline, list function, fprobe and return hook, copying, and the program with its guards.",
        limits=f"{_LIMITS}riscv64's direct call comes through ftrace_caller.",
        hypothetical=True,
    ),
)
