"""Which functions does a call go through that is hooked in one way or another, and what are its instructions for?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tramplab.anatomy import boxes
from tramplab.anatomy.parts import PARTS, parts
from tramplab.ftrace.releases import LATEST, features
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.measure import run

from ...publish.figures.chart import Drawing, flame
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name
from ..kernels.names import NAMES
from ..memo import once
from . import ORDER

NAME = "anatomy"
TITLE = "What the instructions of a hooked call are for"
#: What a chart calls a mechanism -> its hook, or the one in its place, and the number of callbacks.
MECHANISMS = {
    "one ops": ("ops", 1),
    "two ops": ("ops", 2),
    "direct call": ("direct", 1),
    "fentry": ("bpf-fentry", 1),
    "fexit": ("bpf-fexit", 1),
    "kprobe_multi": ("kprobe-multi", 1),
    "fprobe exit": ("fprobe-exit", 1),
    "kretprobe": ("kretprobe", 1),
}
#: In the kernel's names.
EXCEPTIONS = [names["lab_trap_entry"] for names in NAMES.values()]


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism and box of its call (see anatomy/), in the newest release; the traced function has one argument.

    Columns: isa, mechanism, hook, name (the kernel's), part, start, depth, instructions (of the box, with what lies on it), own
    (without), missed (mispredicted returns of its own), added (instructions of the whole call over the unhooked one).
    """
    records = []
    for isa in ISAS:
        idle = len(run(isa, "none").recording)
        for mechanism, (name, callbacks) in MECHANISMS.items():
            hook = hooks.of_release(name, features(ISAS[isa], LATEST, {})).name
            r = run(isa, hook, callbacks=callbacks)
            call = {"isa": isa, "mechanism": mechanism, "hook": hook, "added": len(r.recording) - idle}
            for box, part in parts(boxes(r, r.component_of)):
                place = {"name": NAMES[isa].get(box.name, box.name), "part": part, "start": box.start, "depth": box.depth}
                records.append({**call, **place, "instructions": box.length, "own": box.own, "missed": box.mispredicted})
    return pd.DataFrame(records)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions by part: one line per ISA and mechanism. Those of the site and of the function are left out, which an unhooked
    call has as well; added is the sum of the others."""
    keys = ["isa", "mechanism"]
    wide = frame.pivot_table(index=keys, columns="part", values="own", aggfunc="sum", fill_value=0, sort=False)
    wide = wide.reindex(columns=[part for part in PARTS if part in wide and part not in ("site", "function")]).astype(int)
    return wide.join(frame.groupby(keys, sort=False)["added"].first()).reset_index().rename_axis(columns=None)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-kretprobe-added", "arm64-kretprobe-exception" and so on for each part of each mechanism, and
    "arm64-kretprobe-exceptions", how often such a call takes one. Names have hyphens for spaces."""
    values: dict[str, object] = {"latest": LATEST}
    for line in table(frame).to_dict("records"):
        name = f"{line['isa']}-{_hyphened(line['mechanism'])}"
        values |= {f"{name}-{part}": line[part] for part in line if part not in ("isa", "mechanism")}
    for (isa, mechanism), call in frame.groupby(["isa", "mechanism"], sort=False):
        values[f"{isa}-{_hyphened(mechanism)}-exceptions"] = int(call["name"].isin(EXCEPTIONS).sum())
    return values


def _hyphened(mechanism: str) -> str:
    return mechanism.replace(" ", "-")


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with the title of their panel, and parts in the order of the legend."""
    ranked = frame.assign(rank=frame["part"].map(PARTS.index))
    titles = frame["mechanism"] + ": +" + frame["added"].astype(str) + " instructions"
    return ranked.assign(panel=titles).sort_values("rank", kind="stable")


ALT = (
    "A panel per mechanism, one below the other on one scale: from left to right the instructions of the call in the order "
    "of execution, a box per function, and on it the functions that it calls. Colours are the parts of the table below. A "
    "triangle is a mispredicted return. The titles say how many instructions each adds."
)
LIMITS = (
    "Emulated counts of instructions in one call of a function with one argument; no timing. A box's colour is its own "
    "part; what lies on it may be another. A direct call is a module's, which riscv64's site does not reach; BPF's code is out of "
    "reach on riscv64, and with KASLR on arm64."
)


def _figure(isa: str) -> Figure:
    return Figure(
        f"fig-anatomy-{isa.replace('_', '-')}",
        f"Which functions does a hooked call go through on {isa_name(isa)}?",
        rows=lambda frame: frame[frame["isa"] == isa],
        chart=lambda frame: flame("instructions", mispredicted="missed", facet="panel")(drawn(frame)),
        table=table,
        alt=ALT,
        limits=LIMITS,
    )


def _compared(name: str, question: str, mechanisms: Sequence[str]) -> Figure:
    """A figure with these mechanisms on each ISA, arm64 first, all on one scale."""

    def some(frame: pd.DataFrame) -> pd.DataFrame:
        there = frame[frame["mechanism"].isin(mechanisms)]
        return pd.concat([there[there["isa"] == isa] for isa in ORDER])

    def chart(share: pd.DataFrame) -> Drawing:
        whole = some(rows())
        most = int((whole["start"] + whole["instructions"]).max())
        return flame("instructions", mispredicted="missed", facet="panel", most=most)(drawn(share))

    return Figure(name, question, rows=some, chart=chart, table=table, tabs="isa", alt=ALT, limits=LIMITS)


FIGURES = (
    *map(_figure, ORDER),
    _compared(
        "fig-one-call",
        "What does a call of a traced function execute?",
        ("one ops", "two ops", "direct call", "fprobe exit", "kretprobe"),
    ),
    _compared("fig-anatomy-ops", "Where do the instructions of a second ops go?", ("one ops", "two ops", "direct call")),
    _compared("fig-anatomy-direct", "What does an fprobe execute beside a direct call?", ("direct call", "fentry", "kprobe_multi")),
    _compared("fig-anatomy-fexit", "What does seeing a return add to an entry?", ("fentry", "fexit", "fprobe exit")),
    _compared("fig-anatomy-kretprobe", "What does a kretprobe execute, and its successors?", ("kretprobe", "fprobe exit", "fexit")),
)
