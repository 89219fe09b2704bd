"""What would CALL_OPS buy x86-64, where a lone ops has a trampoline of its own? Built and counted; no kernel has it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.ops import Registered
from tramplab.ftrace.steps import FENCES, Step, Sync, Wait, Write
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.plain import Ops

from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.phrases import marked
from ..memo import once

NAME = "on_x86"
TITLE = "CALL_OPS on x86-64, which no kernel has"
ISA, FUNCTION, OTHER, ARGUMENTS = "x86_64", "three_args", "one_arg", (1, 2, 3)
COPIES, POINTER = "copies", "CALL_OPS"
#: How each is built: as kernels are, and with the pointer.
BUILT: dict[str, dict[str, Any]] = {COPIES: {}, POINTER: {"call_ops": True}}
#: The ops on the function and on another one during a call, with their save set.
LOADS = {
    "one ops": (("args",), ()),
    "one ops, 10 elsewhere": (("args",), ("args",) * 10),
    "one ops, all registers": (("regs",), ()),
    "two ops": (("args",) * 2, ()),
    "ten ops": (("args",) * 10, ()),
}
#: Changes in order: what each does to the function's ops.
CHANGES = ("first comes", "second comes", "second goes", "first goes")
CALLED = ("instructions", "loads", "stores")
#: The counts of a plan: stores to text, waits until every CPU has synchronised, and waits for every task.
PLANNED = ("text", "cpus", "tasks", "bytes")
UNITS = {**dict.fromkeys(CALLED, "added"), "bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per kernel (as it is, and with CALL_OPS) and of what is counted: a load while a call is made, or a change of what is
    attached.

    Columns: isa, release, built (COPIES, POINTER), hypothetical, what (a key of LOADS, or one of CHANGES), then of a load CALLED,
    what a call adds (instructions, loads, stores), right (does the function return what it does unhooked, and was every ops on it
    called?); of a change PLANNED: text (writes to executable memory), cpus and tasks (waits for every CPU and for every task) and
    bytes (of code that exists for the ops alone when it is done).
    """
    records = []
    for built, overrides in BUILT.items():
        kernel = Kernel(ISA, releases.LATEST, **overrides)
        head = {"isa": ISA, "release": releases.LATEST, "built": built, "hypothetical": built == POINTER}
        records += [{**head, "what": load, **_called(kernel, load)} for load in LOADS]
        records += [{**head, "what": change, **counts} for change, counts in zip(CHANGES, _changes(kernel), strict=True)]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _called(kernel: Kernel, load: str) -> dict[str, object]:
    """The counts that the ops of a load add to a call, and whether it is right."""
    on_it, elsewhere = LOADS[load]
    function, other = kernel.function(FUNCTION), kernel.function(OTHER)
    unhooked = kernel.call(function, *ARGUMENTS)
    with kernel.attached(other, *(Ops(save=save) for save in elsewhere)), kernel.attached(function, *(Ops(save=s) for s in on_it)):
        run = kernel.call(function, *ARGUMENTS)
    added = {name: getattr(run.counts.total, name) - getattr(unhooked.counts.total, name) for name in CALLED}
    return {**added, "right": run.value == unhooked.value and sum(run.hits) == len(on_it)}


def _changes(kernel: Kernel) -> list[dict[str, int]]:
    """The steps of the plan of each of CHANGES, on a kernel with nothing attached."""
    made: list[Registered] = []
    items = []
    for change in CHANGES:
        if change.endswith("comes"):
            ops, steps = kernel.slowpath.register(kernel.filtered(Ops(), kernel.function(FUNCTION)))
            made.append(ops)
        else:
            steps = kernel.slowpath.unregister(made.pop())
        kernel.apply(steps)
        items.append(_planned(kernel, steps) | {"bytes": sum(g.size for o in made for g in o.generated)})
    return items


def _planned(kernel: Kernel, steps: list[Step]) -> dict[str, int]:
    waits = [s.sync for s in steps if isinstance(s, Wait) and s.sync not in FENCES]
    tasks = waits.count(Sync.RCU_TASKS)
    text = sum(kernel.machine.is_text(s.address) for s in steps if isinstance(s, Write))
    return {"text": text, "cpus": len(waits) - tasks, "tasks": tasks}


# -- what is shown


def calls(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of loads: a line per load and kernel."""
    return _told(frame[frame["what"].isin(LOADS)], CALLED)


def plans(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of changes: a line per change and kernel."""
    return _told(frame[frame["what"].isin(CHANGES)], PLANNED)


def _told(part: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    order = list(dict.fromkeys(part["what"]))
    part = part.sort_values("what", key=lambda s: s.map(order.index), kind="stable", ignore_index=True)
    out = part[["what"]].assign(kernel=[marked(str(r.built), r.hypothetical) for r in part.itertuples()])
    for column in columns:
        out[column] = part[column].astype(int)
    out.attrs["units"] = {c: UNITS[c] for c in columns if c in UNITS}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: calls and changes, a part for each."""
    parts = []
    for name, part, columns in (("a call", calls(frame), CALLED), ("a change", plans(frame), PLANNED)):
        parts.append(part.melt(["what", "kernel"], list(columns), "counted", "n").assign(isa=name))
    whole = pd.concat(parts, ignore_index=True)
    keys = ["isa", "what", "counted"]
    lines = pd.MultiIndex.from_frame(whole[keys].drop_duplicates())
    wide = whole.pivot(index=keys, columns="kernel", values="n").reindex(lines)
    wide = wide[list(dict.fromkeys(whole["kernel"]))].reset_index()
    wide.columns.name = None
    return wide


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The steps of the changes, one row per change, kernel and kind of step."""
    parts = {"tasks": "waits for every task", "cpus": "waits for every CPU", "text": "writes to text"}
    return plans(frame).rename(columns=parts).melt(["what", "kernel"], list(parts.values()), "step", "steps")


def get(frame: pd.DataFrame, built: str, what: str, column: str) -> int:
    """One number of the rows."""
    return int(frame.set_index(["built", "what"])[column].loc[(built, what)])


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "copies-one-ops-added" and "pointer-one-ops-added" in instructions;
    "copies-first-comes-text", "-cpus", "-tasks" of the plans, "copies-text-total" of all plans together; "copy-bytes", of a lone
    ops' trampoline; and "wrong-calls", how many of all loads did not call every ops or changed the result."""
    names = {COPIES: "copies", POINTER: "pointer"}
    values: dict[str, object] = {}
    for r in frame.itertuples():
        key = f"{names[str(r.built)]}-{str(r.what).replace(',', '').replace(' ', '-')}"
        if r.what in LOADS:
            values[f"{key}-added"] = int(r.instructions)
        else:
            values |= {f"{key}-{name}": int(getattr(r, name)) for name in PLANNED}
    for built, name in names.items():
        plans = frame[(frame["built"] == built) & frame["what"].isin(CHANGES)]
        values |= {f"{name}-{what}-total": int(plans[what].sum()) for what in ("text", "cpus", "tasks")}
    wrong = int((~frame[frame["what"].isin(LOADS)]["right"].astype(bool)).sum())
    return values | {"copy-bytes": get(frame, COPIES, CHANGES[0], "bytes"), "wrong-calls": wrong}


_LIMITS = (
    "Emulated counts in the newest release, booted without mitigations; no timing. copies: as kernels are, a lone ops, "
    "dynamic or not, has a trampoline of its own."
)

FIGURES = (
    Figure(
        "fig-x86-calls",
        "What would CALL_OPS cost a call on x86-64?",
        table=calls,
        limits=_LIMITS,
        hypothetical=True,
    ),
    Figure(
        "fig-x86-plans",
        "What would attaching and detaching take on x86-64 with CALL_OPS?",
        chart=lambda frame: stacked_bars("steps", bars="what", stack="step", facet="kernel")(drawn(frame)),
        table=plans,
        alt="A panel for x86-64 as it is and one with CALL_OPS, with a bar per change, the first and the second ops of a function "
        "coming and going: waits for every task, waits for every CPU and writes to text. With CALL_OPS the first and the last "
        "change take far fewer. The table has the bytes of code made for ops too.",
        limits="Steps of the lab's plans with nothing else attached, no times. cpus: waits until every CPU has synchronised. "
        f"tasks: synchronize_rcu_tasks(). bytes: of code made for the ops that are there. {_LIMITS}",
        hypothetical=True,
    ),
)
