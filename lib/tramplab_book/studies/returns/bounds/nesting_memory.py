"""What it takes in memory to see every call of several tasks return."""

from __future__ import annotations

import functools

import pandas as pd

from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.returns import CODE, NODES, PARTS, RINGS, SHADOW, STRUCTS, Bounds, nest
from tramplab.returns.mechanisms import FPROBE, KRETPROBE, Build, breaks, get
from tramplab.trampolines.kprobe import Kretprobe

from ....publish.figures.chart import dumbbell
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from ...shared.order import largest_first
from .nesting import DEEPEST
from .nesting_builds import CPUS, STACK, TASKS, held_by, keeps, kernel, shown, sized

NAME = "nesting_memory"
TITLE = "What the bounds of return hooks take in memory"
#: Calls of each task, one inside the other, all on their way at once; and tasks.
DEPTH, TASK_COUNTS = 8, (1, 2, 4, 8, TASKS)
FRAMES = "frames"
COLUMNS = {STRUCTS: "structs", NODES: "nodes", RINGS: "rings", SHADOW: "shadow", CODE: "code", FRAMES: "frames"}
#: A function's fprobes that share its frame on a shadow stack; CPUs of machines; bytes of its own that a kretprobe gives a call.
PROBES, MACHINES, DATA = (1, 2, 4), (1, 32), 64
UNITS = {"bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, mechanism and number of tasks with DEPTH calls each on their way, on CPUS CPUs; a pool is as large as that.

    Columns: isa, mechanism, name, keeps, tasks, calls, seen (of them, returning), bytes (held for it, with the frames on the
    stacks), structs, nodes, rings, shadow, code, frames (the same by part); and of the mechanism in each of its rows: call (bytes
    that a call on its way takes), default (bytes held as kernels make it, without shadow stacks), even (calls at which a pool for
    them holds as much as a task's shadow stack; 0 where there is no pool).
    """
    records = []
    for isa in ISAS:
        for name, build in shown(isa).items():
            head = {"isa": isa, "mechanism": build.mechanism, "name": name, "keeps": keeps(build)}
            made, whole = kernel(build), _whole(build)
            records += [{**head, **_run(made, build, tasks), **whole} for tasks in TASK_COUNTS]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _run(made: Kernel, build: Build, tasks: int) -> dict[str, object]:
    calls = DEPTH * tasks
    run = nest(made, sized(build, calls), tasks, DEPTH)
    parts = held_by(made, sized(build, calls), tasks) | {FRAMES: run.stack * calls}
    by = {column: parts[part] for part, column in COLUMNS.items()}
    return {"tasks": tasks, "calls": calls, "seen": run.counted.seen, "bytes": sum(parts.values()), **by}


def _whole(build: Build) -> dict[str, object]:
    made = kernel(build)
    one, two = (held_by(made, sized(build, calls), 1)[NODES] for calls in (1, 2))
    run = nest(made, build.request(), 1, 2)
    default = _default(build)
    return {"call": two - one + run.stack + run.shadow // 2, "default": default, "even": _even(build) if two > one else 0}


def _default(build: Build, cpus: int = CPUS) -> int:
    """Bytes held as kernels make it, without shadow stacks."""
    found = held_by(kernel(build, cpus), build.request(), 0)
    return sum(found[part] for part in PARTS)


def _even(build: Build) -> int:
    """The least number of calls for which a pool takes as many bytes as a task's shadow stack."""
    made, stack = kernel(build), kernel(get(build.isa, FPROBE))
    size = held_by(stack, get(build.isa, FPROBE).request(), 1)[SHADOW]
    low, high = 0, DEEPEST
    while high - low > 1:
        calls = (low + high) // 2
        found = held_by(made, sized(build, calls), 1)
        low, high = (low, calls) if found[NODES] + found[RINGS] >= size else (calls, high)
    return high


@once
def more() -> pd.DataFrame:
    """One row per ISA and number of fprobes on a function, by the graph tracer. Columns: isa, probes, deepest (calls of a task that
    the last one attached sees all)."""
    items = []
    for isa in ISAS:
        build = get(isa, FPROBE)
        for probes in PROBES:
            found = Bounds(functools.partial(kernel, build), build.request, functools.partial(_others, build, probes - 1))
            items.append({"isa": isa, "probes": probes, "deepest": found.depth(DEEPEST, guess=16).most})
    return pd.DataFrame(items)


def _others(build: Build, number: int) -> tuple[Request, ...]:
    return tuple(build.request() for _ in range(number))


@once
def machines() -> pd.DataFrame:
    """One row per ISA, kretprobe and machine. Columns: isa, name, cpus, default (bytes held as kernels make it there)."""
    items = []
    for isa in ISAS:
        for name, build in shown(isa).items():
            if build.mechanism == KRETPROBE:
                items += [{"isa": isa, "name": name, "cpus": cpus, "default": _default(build, cpus)} for cpus in MACHINES]
    return pd.DataFrame(items)


@once
def with_data() -> pd.DataFrame:
    """One row per ISA: bytes that an instance of the newest kretprobe has more with DATA bytes of its own. Columns: isa, more."""
    items = []
    for isa in ISAS:
        build = get(isa, KRETPROBE)
        made, breakpoint_ = kernel(build), breaks(isa, build.release)
        probes = (Kretprobe(breakpoint=breakpoint_, maxactive=1, data=data) for data in (0, DATA))
        without, with_ = (held_by(made, probe, 1)[NODES] for probe in probes)
        items.append({"isa": isa, "more": with_ - without})
    return pd.DataFrame(items)


# --- What is shown


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA and mechanism: what is true of all its rows."""
    columns = ["isa", "mechanism", "name", "keeps", "call", "default", "even"]
    return frame[columns].drop_duplicates().reset_index(drop=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and mechanism: bytes of a call on its way, of what is held by default, of what DEPTH calls of 1 and of TASKS
    tasks take, and the calls at which a pool holds as much as a shadow stack."""
    data = whole(frame)
    printed = data[["isa", "name", "call", "default"]].copy()
    by = frame.set_index(["isa", "name", "tasks"])["bytes"]
    for tasks in (TASK_COUNTS[0], TASK_COUNTS[-1]):
        printed[f"{tasks} task" + "s" * (tasks > 1)] = [int(by[r.isa, r.name, tasks]) for r in data.itertuples()]
    printed["even at"] = [str(n) if n else "-" for n in data["even"]]
    printed.attrs["right"] = [c for c in printed.columns if c not in ("isa", "name")]
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: bytes by part."""
    return frame[["isa", "name", "tasks", "seen", "bytes", *COLUMNS.values()]]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-kretprobe-rings-most" (bytes for TASKS tasks); "arm64-probes-4-deepest";
    "arm64-kretprobe-list-32-cpus" (bytes); "arm64-data-more"; "data", "depth", "shadow" (bytes); "cpus" (of the largest
    machine)."""
    shadow = frame[frame["keeps"] == STACK]
    size = int((shadow["shadow"] // shadow["tasks"]).max())
    values: dict[str, object] = {"data": DATA, "depth": DEPTH, "tasks": TASKS, "shadow": size, "cpus": max(MACHINES)}
    for r in frame[frame["tasks"] == TASKS].itertuples():
        values[f"{r.isa}-{slug(r.name)}-most"] = int(r.bytes)
    values |= {f"{r.isa}-probes-{r.probes}-deepest": int(r.deepest) for r in more().itertuples()}
    values |= {f"{r.isa}-{slug(r.name)}-{r.cpus}-cpus": int(r.default) for r in machines().itertuples()}
    values |= {f"{r.isa}-data-more": int(r.more) for r in with_data().itertuples()}
    return values


def _ends(frame: pd.DataFrame) -> pd.DataFrame:
    """What the fewest tasks take and the most, the mechanism that takes most first."""
    said = {TASK_COUNTS[0]: f"{TASK_COUNTS[0]} task", TASK_COUNTS[-1]: f"{TASK_COUNTS[-1]} tasks"}
    out = largest_first(frame[frame["tasks"].isin(said)], "name", "bytes")
    return out.assign(**{"held for": out["tasks"].map(said)})


FIGURES = (
    Figure(
        "fig-return-memory",
        f"How many bytes does it take to see {DEPTH} calls per task return?",
        chart=lambda frame: dumbbell("bytes", "name", "held for", shared=True)(_ends(frame)),
        table=table,
        alt=f"A panel per ISA with a line per mechanism: bytes held for {DEPTH} calls of one task, and of {TASKS}. Both are "
        "most with the graph tracer and with fprobes on it, a page for each task; rings in whole pages take the same for "
        "one task and for all; lists and fexit's frames take least.",
        limits=f"Bytes in the lab, in steps of 16, on {CPUS} CPUs, rings of v6.12 and later in whole pages; without the hashes and "
        "tables that a probe is found by; kernels round code up to pages, allocate in steps of their own, and have a shadow stack "
        "for every task, also those that call nothing. call: a call on its way; default: what kernels make, without shadow stacks; "
        f"1 task, {TASKS} tasks: for {DEPTH} calls of each; even at: calls for which a pool holds as much as a shadow stack.",
    ),
)
