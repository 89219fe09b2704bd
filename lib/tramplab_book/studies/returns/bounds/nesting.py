"""Who misses which calls: calls in calls of several tasks, all on their way at once, until there is no room for one more."""

from __future__ import annotations

import pandas as pd

from tramplab.isa import ISAS
from tramplab.lab.places import STACK_SIZE
from tramplab.returns import Bounds, counted
from tramplab.returns.mechanisms import FEXIT, get
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.reentry import HOOKED

from ....publish.figures.chart import heat_map
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ....publish.table import pivot
from ...memo import once
from . import nesting_told
from .nesting_builds import CPUS, TASKS, bounds, keeps, kernel, shown
from .nesting_told import NOBODY, OWN, TASK

NAME = "nesting"
TITLE = "Calls on their way at once, and who misses some"
DEPTHS, TASK_COUNTS = (1, 4, 16, 64, 128), (1, TASKS)
#: Up to where bounds are looked for: calls of a task, and tasks.
DEEPEST, MOST_TASKS = 512, 16
SHORT = {OWN: "probe", TASK: "task", NOBODY: "-"}
UNITS = {"percent": "of calls"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism, number of tasks and depth of their calls, with what kernels make on CPUS CPUs.

    Columns: isa, mechanism, name (as shown), release, keeps (where a call's state is), tasks, depth, calls, seen, missed (by the
    probe's own counter), overrun (by the tasks'), right (all calls returned what they do unhooked), ended (a stack ended first, so
    that nothing was counted); and of the mechanism in each of its rows: deepest (calls of one task that are all seen), ends (what
    comes with one more), deepest_all (the same of TASKS tasks, calls of each), widest (tasks with a call each; MOST_TASKS where all
    were seen), told (who counts the first call that is not seen).
    """
    records = []
    for isa in ISAS:
        for name, build in shown(isa).items():
            found = bounds(build)
            head = {"isa": isa, "mechanism": build.mechanism, "name": name, "release": build.release, "keeps": keeps(build)}
            whole = _whole(found)
            records += [{**head, **_run(found, tasks, depth), **whole} for tasks in TASK_COUNTS for depth in DEPTHS]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _run(found: Bounds, tasks: int, depth: int) -> dict[str, object]:
    run = found.run(tasks, depth)
    head = {"tasks": tasks, "depth": depth, "calls": tasks * depth}
    if run is None:
        return {**head, "seen": 0, "missed": 0, "overrun": 0, "right": False, "ended": True}
    seen = {"seen": run.counted.seen, "missed": run.counted.missed, "overrun": run.counted.overrun}
    return {**head, **seen, "right": run.right, "ended": False}


def _whole(found: Bounds) -> dict[str, object]:
    one, wide = found.depth(DEEPEST), found.tasks(MOST_TASKS)
    every = found.depth(DEEPEST, TASKS, guess=one.most)
    counter = nesting_told.teller(one.beyond.counted) if one.beyond else NOBODY
    return {"deepest": one.most, "ends": one.ends, "deepest_all": every.most, "widest": wide.most, "told": counter}


@once
def guarded() -> pd.DataFrame:
    """One row per ISA: what a program at the return counts whose own code calls the function once more. Columns: isa, seen,
    missed."""
    items = []
    for isa in ISAS:
        made = kernel(get(isa, FEXIT))
        function = made.function(HOOKED)
        with made.attached(function, Bpf(fexit=1, reenters="itself")) as (ops,):
            before = counted(made, ops, ())
            made.call(function, 1, 2)
            found = counted(made, ops, ()) - before
        items.append({"isa": isa, "seen": found.seen, "missed": found.missed})
    return pd.DataFrame(items)


# --- What is shown


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and mechanism: what bounds it."""
    columns = ["isa", "mechanism", "name", "release", "keeps", "deepest", "ends", "deepest_all", "widest", "told"]
    return frame[columns].drop_duplicates().reset_index(drop=True)


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Percent of the calls that are not seen, rounded down, and none where a stack ended."""
    percent = (100 * (frame["calls"] - frame["seen"]) // frame["calls"]).where(~frame["ended"])
    plotted = frame.assign(percent=percent, line=frame["name"].str.replace(",", ""))
    plotted.attrs["units"] = UNITS
    return plotted


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and mechanism: its release, where a call's state is, how many calls of one task are all seen, how many of each
    of TASKS tasks, how many tasks with a call each, and who counts the next one."""
    data = whole(frame)
    printed = data[["isa", "name", "release", "keeps"]].rename(columns={"keeps": "kept in"})
    printed["1 task"], printed[f"{TASKS} tasks"] = data["deepest"], data["deepest_all"]
    printed["tasks"] = [f"{'>' * (n == MOST_TASKS)}{n}" for n in data["widest"]]
    printed["told"] = data["told"].map(SHORT)
    printed.attrs["right"] = ["1 task", f"{TASKS} tasks", "tasks"]
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: calls seen, by tasks and depth, and the counters that know of the others."""
    counts = [f"{r.seen} {r.missed}/{r.overrun}{'' if r.right else ' wrong'}" for r in frame.itertuples()]
    said = frame["ended"].map({True: "stack ends"}).fillna(pd.Series(counts, frame.index))
    return pivot("said", "depth", index=("isa", "name", "tasks"), total=False)(frame.assign(said=said))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "x86_64-graph-tracer-deepest" (calls of one task that are all seen), "-all" (of each of "tasks"
    tasks), "-tasks" (with a call each); "x86_64-graph-tracer-frame" (bytes of the task's stack for each call, at which
    that ends first); "x86_64-guard-seen", "-missed"; "cpus", "tasks", "stack"; those of nesting_told behind "told-"."""
    values: dict[str, object] = {"cpus": CPUS, "tasks": TASKS, "stack": STACK_SIZE}
    for r in whole(frame).itertuples():
        key = f"{r.isa}-{slug(r.name)}"
        values |= {f"{key}-deepest": int(r.deepest), f"{key}-all": int(r.deepest_all), f"{key}-tasks": int(r.widest)}
        values[f"{key}-frame"] = STACK_SIZE // max(int(r.deepest), 1)
    for r in guarded().itertuples():
        values |= {f"{r.isa}-guard-seen": int(r.seen), f"{r.isa}-guard-missed": int(r.missed)}
    return values | {f"told-{name}": number for name, number in nesting_told.numbers(nesting_told.rows()).items()}


FIGURES = (
    Figure(
        "fig-return-bounds",
        "Which calls are missed, at which depth, with how many tasks?",
        chart=lambda frame: heat_map("percent", rows=("line", "tasks"), columns="depth")(_drawn(frame)),
        table=table,
        alt=f"A panel per ISA with a row per mechanism, of 1 and of {TASKS} tasks, and a column per depth: percent of the calls "
        "that are not seen returning. Rows of pools fill up with tasks and with depth; those of shadow stacks only at the deepest, "
        "and alike for any number of tasks; BPF's fexit misses none. The table has the bounds.",
        limits=f"Emulated calls, no timing; one probe, with the pool that kernels make on {CPUS} CPUs; a shadow stack of 4096 "
        "bytes, a stack of 16 KiB. Every task has its calls on their way at once, then all return. Rows: tasks; columns: depth; "
        "percent rounded down; a dash where the stack ends first, or the ISA never had it. In the table 1 task, "
        f"{TASKS} tasks: deepest calls of each that are all seen; tasks: with a call each; told: whose counter has the next, where "
        "calls have no data.",
    ),
)
