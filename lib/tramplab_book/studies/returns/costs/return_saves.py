"""What must a kretprobe's return trampoline save? Each set of registers, what it costs, and which consumers it does not serve."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.meant import kprobes_break, kretprobes_on_return_hooks
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.matrix import GARBAGE, NOT_ASKED, RIGHT, WRONG, Matrix, matrix
from tramplab.sparsity.structures.providers import PROVIDERS
from tramplab.sparsity.structures.views import DIRECT, View
from tramplab.trampolines.kprobe import Kretprobe

from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from ...shared.consumers import NAMES
from ...shared.hypothetical import named
from .return_costs import added, with_and_without

NAME = "return_saves"
TITLE = "What a kretprobe's return trampoline saves, and who is served"
LATEST = releases.LATEST
REGS, WITHOUT, ARGS, VALUE = "all", "no trap", "arguments", "value"
#: What is saved -> the features' values: all general registers, as kernels do; the same by a trampoline where kernels have an
#: exception do it, as the smaller sets are saved; what an ftrace_regs has; what a value is returned in.
SAVES: dict[str, dict[str, Any]] = {
    REGS: {},
    WITHOUT: {"kretprobe_brk": False},
    ARGS: {"return_save": "args"},
    VALUE: {"return_save": "value"},
}
#: What asks something of a return, in the order in which the chart shows it. The others emulate instructions, or ask for what is
#: not asked of a return.
CONSUMERS = {
    name: NAMES[name]
    for name in (
        "return-value",
        "instruction-pointer",
        "stack-pointer",
        "stack-word",
        "user-mode",
        "callchain",
        "interrupts",
        "conditions",
    )
}
LETTERS = {RIGHT: "r", WRONG: "W", GARBAGE: "G", NOT_ASKED: "-"}
MEANINGS = {RIGHT: theme.RIGHT, WRONG: theme.WRONG, GARBAGE: theme.WRONG, NOT_ASKED: theme.NOTHING}
UNITS = {"instructions": "insns"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, save set and consumer, in the newest release. arm64's kernels have an exception save them all, so that all
    by a trampoline is there as well.

    Columns: isa, saves (a name of SAVES), hypothetical, consumer (a name of CONSUMERS), outcome, fields (that it read); and of the
    whole call, in each of its rows: instructions, stores (that the kretprobe adds).
    """
    records = []
    for isa in ISAS:
        for saves in sets(isa):
            kernel = _kernel(isa, saves)
            whole = {"isa": isa, "saves": saves, "hypothetical": saves != REGS, **_cost(kernel)}
            cells = {cell.consumer.name: cell for cell in _matrix(kernel).cells}
            for consumer in CONSUMERS:
                cell = cells[consumer]
                records.append({**whole, "consumer": consumer, "outcome": cell.outcome, "fields": " ".join(cell.fields)})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def sets(isa: str) -> list[str]:
    """The save sets that an ISA has, in order."""
    trap = _kernel(isa, REGS).features["kretprobe_brk"]
    return [saves for saves in SAVES if trap or saves != WITHOUT]


@functools.cache
def _kernel(isa: str, saves: str) -> Kernel:
    return Kernel(isa, LATEST, **SAVES[saves])


def _matrix(kernel: Kernel) -> Matrix:
    """All consumers on what the return trampoline of a kretprobe passes."""
    own = not kretprobes_on_return_hooks(kernel.features)
    return matrix(kernel, View(PROVIDERS["__kretprobe_trampoline" if own else "arch_rethook_trampoline"], DIRECT))


def _cost(kernel: Kernel) -> dict[str, object]:
    hooked, idle = with_and_without(kernel, Kretprobe(breakpoint=kprobes_break(kernel.features)))
    more = added(hooked, idle)
    return {"instructions": more.instructions, "stores": more.stores}


# --- What is shown


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and save set: what the call adds, and how many consumers are right of those that were asked."""
    keys = ["isa", "saves", "hypothetical", "instructions", "stores"]
    asked = frame[frame["outcome"] != NOT_ASKED]
    counted = asked.assign(right=asked["outcome"] == RIGHT).groupby(keys, sort=False)["right"].agg(["sum", "size"])
    return counted.rename(columns={"sum": "right", "size": "asked"}).reset_index()


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and save set: what a kretprobe then adds, and how many consumers it serves."""
    data = named(whole(frame), "saves")
    printed = data[["isa", "saves", "instructions", "stores"]].rename(columns={"instructions": "insns"})
    printed["right"] = [f"{r.right}/{r.asked}" for r in data.itertuples()]
    printed.attrs["right"] = ["insns", "stores", "right"]
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: the same, with a letter for each consumer, in order."""
    letters = frame.assign(letter=frame["outcome"].map(LETTERS)).groupby(["isa", "saves"], sort=False)["letter"].agg("".join)
    printed = table(frame)
    printed["consumers"] = [letters[r.isa, r.saves] for r in whole(frame).itertuples()]
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "x86_64-value-added": instructions; "-right" and "-asked"."""
    values: dict[str, object] = {}
    for r in whole(frame).itertuples():
        key = f"{r.isa}-{slug(r.saves)}"
        values |= {f"{key}-added": int(r.instructions), f"{key}-right": int(r.right), f"{key}-asked": int(r.asked)}
    return values


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The sets that every ISA has, with the names of the chart."""
    part = frame[frame["saves"] != WITHOUT].replace({"saves": {ARGS: "args"}})
    return named(part, "saves").assign(consumer=part["consumer"].map(CONSUMERS))


FIGURES = (
    Figure(
        "fig-return-saves",
        "Which consumers does a return trampoline serve that saves less?",
        chart=lambda frame: heat_map("outcome", "consumer", "saves", meanings=MEANINGS, letters=LETTERS)(_drawn(frame)),
        table=table,
        alt="A panel per ISA with a row per consumer and a column per save set: right, wrong, garbage or not asked. The table has "
        "what a kretprobe adds with each, and arm64's trampoline that saves them all.",
        limits="A kretprobe in the newest release, its trampoline rebuilt to save less; no trap: all registers by a trampoline "
        "where the kernel has an exception save them, against which less is held there; consumers of the chapter on register "
        "structures, beside a full set of true registers.",
        legend="right: of as many consumers as were asked.",
        hypothetical=True,
    ),
)
