"""What a hook reads and writes of the task, of per-CPU data and of RCU's state, and in what state it calls its callback."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ....publish.phrases import marked, slug
from ....publish.table import pivot
from ...memo import once
from ...shared.every_release import every_release, newest
from .state import accesses, watcher

NAME = "surroundings"
TITLE = "What a hook needs of task, CPU and RCU"
FUNCTION, ARGUMENTS = "two_args", (1, 2)
#: Hook -> what is registered, the feature it needs, and the guest function that is called at its end.
HOOKS: dict[str, tuple[Callable[[], list[Request]], str, str]] = {
    "ops": (lambda: [Ops()], "ops", "lab_callback"),
    "two ops": (lambda: [Ops(), Ops(callback="ftrace_stub")], "ops", "lab_callback"),
    "ops RCU": (lambda: [Ops(rcu=True)], "ops", "lab_callback"),
    "direct": (lambda: [Direct()], "direct", "lab_direct_callback"),
    "bare fentry": (lambda: [Bpf(fentry=1, guarded=False)], "direct", "lab_bpf_count"),
    "fentry": (lambda: [Bpf(fentry=1)], "bpf", "lab_bpf_count"),
    "fexit": (lambda: [Bpf(fexit=1)], "bpf", "lab_bpf_count"),
    "fmod_ret": (lambda: [Bpf(fmod_ret=1)], "bpf", "lab_bpf_modify"),
}
#: Of these, what no kernel has.
SKETCHED = ("bare fentry",)
READS, WRITES, BOTH, NEITHER = "reads", "writes", "reads and writes", "does not touch"
MEANINGS = {READS: theme.RIGHT, WRITES: theme.ONE, BOTH: theme.TWO, NEITHER: theme.NOTHING}
#: Field of the guest's structs -> what it is for, in the order of the figure.
PURPOSES = {
    "trace_recursion": "bits",
    "counts": "counters",
    "bpf_ctx": "run context",
    **dict.fromkeys(("preempt_count", "no_resched", "flags"), "preemption"),
    **dict.fromkeys(("rcu_read_lock_nesting", "rcu_read_unlock_special"), "RCU readers"),
    "rcu_watching": "RCU watching",
    **dict.fromkeys(("migration_disabled", "cpus_ptr", "cpus_mask", "nr_pinned"), "migration"),
    "current_task": "task pointer",
    "cpu": "CPU number",
    "stack_canary": "canary",
}
#: In which state a callback is called: may it be preempted? A kernel that does not count sections preempts nothing that it runs.
OFF, ON, UNCOUNTED, NONE = "preemption off", "preemption on", "kernel never preempts", "no such hook"
PREEMPTION = {ON: theme.RIGHT, OFF: theme.ONE, UNCOUNTED: theme.TWO, NONE: theme.NOTHING}
#: Hook -> what it is called at the head of a column.
SHORT = {"two ops": "two", "ops RCU": "RCU", "bare fentry": "bare"}


def attachable(kernel: Kernel) -> list[str]:
    """The hooks that a kernel's release has, and the lab knows."""
    return [name for name, (_, needs, _) in HOOKS.items() if kernel.features[needs]]


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, hook and field of the current task or of this CPU's data that a call of FUNCTION reads or writes.

    Columns: isa, release, hook, hypothetical, owner ("task" or "CPU"), field (of the guest's structs, named after the kernel's;
    "counts" are counters of programs and images), loads, stores. A hook that touches nothing has no rows.
    """
    frame = pd.DataFrame(every_release(lambda isa, release: _made(isa, release)[0]))
    frame.attrs["units"] = {}
    return frame


@once
def states() -> pd.DataFrame:
    """One row per ISA, release and hook: columns isa, release, hook, hypothetical, preemption (OFF, ON, UNCOUNTED or NONE), off,
    readers, pinned: see state.Seen."""
    frame = pd.DataFrame(every_release(lambda isa, release: _made(isa, release)[1]))
    frame.attrs["units"] = {}
    return frame


def _made(isa: str, release: str) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Both kinds of rows of one kernel."""
    kernel, fields, seen = Kernel(isa, release, meter=RECORD), [], []
    watching = {called: watcher(kernel, called) for _, _, called in HOOKS.values()}
    had = attachable(kernel)
    for hook, (_, _, called) in HOOKS.items():
        head = {"hook": hook, "hypothetical": hook in SKETCHED}
        if hook not in had:
            seen.append({**head, "preemption": NONE, "off": 0, "readers": 0, "pinned": 0})
            continue
        run = call(kernel, hook)
        for (owner, field), (loads, stores) in accesses(kernel, run.recording).items():
            fields.append({**head, "owner": owner, "field": field, "loads": loads, "stores": stores})
        (found,) = watching[called]()
        how = OFF if found.off else ON if kernel.features["preemption"] else UNCOUNTED
        seen.append({**head, "preemption": how, "off": found.off, "readers": found.readers, "pinned": found.pinned})
    return fields, seen


def call(kernel: Kernel, hook: str) -> Run:
    """A call of FUNCTION with a hook of HOOKS."""
    function = kernel.function(FUNCTION)
    with kernel.attached(function, *HOOKS[hook][0]()):
        return kernel.call(function, *ARGUMENTS)


# -- what is shown


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with hooks as readers see them, short: what no kernel has is marked."""
    names = [marked(SHORT.get(h, h), bool(x)) for h, x in zip(frame["hook"], frame["hypothetical"], strict=True)]
    plotted = frame.assign(hook=names)
    plotted.attrs = dict(frame.attrs)
    return plotted


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA, purpose of fields that any hook touches in the newest release, and hook: what it does to them (`how`)."""
    part = newest(frame)
    did: dict[tuple[str, str, str], list[int]] = {}
    for r in part.itertuples():
        found = did.setdefault((r.isa, PURPOSES[r.field], r.hook), [0, 0])
        found[0], found[1] = found[0] + r.loads, found[1] + r.stores
    items = []
    for isa in dict.fromkeys(part["isa"]):
        for purpose in (p for p in dict.fromkeys(PURPOSES.values()) if any(key[:2] == (isa, p) for key in did)):
            for hook in HOOKS:
                loads, stores = did.get((isa, purpose, hook), (0, 0))
                how = BOTH if loads and stores else READS if loads else WRITES if stores else NEITHER
                head = {"isa": isa, "purpose": purpose, "hook": hook, "hypothetical": hook in SKETCHED}
                items.append({**head, "how": how})
    return named(pd.DataFrame(items))


def _fields(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """(isa, owner, field) of all that is touched, the task's first."""
    found = dict.fromkeys(frame[["isa", "owner", "field"]].itertuples(index=False, name=None))
    isas = list(dict.fromkeys(frame["isa"]))
    return sorted(found, key=lambda key: (isas.index(key[0]), key[1] != "task"))


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per field, a column per hook: loads+stores."""
    did = {(r.isa, r.owner, r.field, r.hook): f"{r.loads}+{r.stores}" for r in frame.itertuples()}
    heads = {hook: marked(SHORT.get(hook, hook), hook in SKETCHED) for hook in HOOKS}
    items = [
        {"isa": key[0], "field": key[2], **{head: did.get((*key, hook), "-") for hook, head in heads.items()}}
        for key in _fields(frame)
    ]
    return pd.DataFrame(items)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and field in the newest release: loads+stores by each hook."""
    return _wide(newest(frame))


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: of v6.1, v6.12 and the newest release."""
    part = frame[frame["release"].isin(["v6.1", "v6.12", releases.LATEST])]
    return _wide(part.assign(isa=part["isa"] + " " + part["release"]))


def states_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA, hook and release: open sections without preemption, RCU's counted readers, and how often migration is off."""
    words = ["-" if r.preemption == NONE else f"{r.off} {r.readers} {r.pinned}" for r in frame.itertuples()]
    return pivot("said", "release", ("isa", "hook"), total=False)(named(frame).assign(said=words))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, of the newest release: loads and stores of the task's fields and of this CPU's data in a call, like
    "arm64-fentry-task-accesses" and "arm64-ops-CPU-accesses"; of STATES the one that a callback is called in,
    "arm64-fentry-preemption", and RCU's counted readers then, "arm64-fentry-readers"; and that "release"."""
    part = newest(frame)
    values: dict[str, object] = {"release": releases.LATEST}
    for r in newest(states()).itertuples():
        name = f"{r.isa}-{slug(r.hook)}"
        values |= {f"{name}-preemption": r.preemption, f"{name}-readers": int(r.readers)}
    for isa in dict.fromkeys(part["isa"]):
        for hook in HOOKS:
            for owner in ("task", "CPU"):
                some = part[(part["isa"] == isa) & (part["hook"] == hook) & (part["owner"] == owner)]
                name = f"{isa}-{hook.lower().replace(', ', '-').replace('_', '-')}-{owner.lower()}-accesses"
                values[name] = int((some["loads"] + some["stores"]).sum())
    return values


_CHART = heat_map("how", rows="purpose", columns="hook", meanings=MEANINGS)

FIGURES = (
    Figure(
        "fig-surroundings",
        f"What does a hook read and write of the task and of per-CPU data? ({releases.LATEST})",
        rows=newest,
        chart=lambda frame: _CHART(cells(frame)),
        table=table,
        alt="A panel per ISA: for what fields of the current task and of this CPU's data are for, and each hook, a colour for "
        "whether a call reads such fields, writes them, or both. The table has every field, and how often.",
        limits="Emulated: every access of one call, by the field it falls into. `two`: two ops, "
        "through the "
        "list function; `RCU`: an ops with FTRACE_OPS_FL_RCU.",
        legend="In the table loads+stores.",
        hypothetical=True,
    ),
    Figure(
        "fig-preemption",
        "Can the callback be preempted?",
        rows=lambda frame: states(),
        chart=lambda frame: heat_map("preemption", rows="hook", columns="release", meanings=PREEMPTION)(named(frame)),
        table=states_table,
        alt="A panel per ISA: for each hook and release a colour that says whether its callback runs with preemption on, off, or "
        "in a "
        "kernel that preempts nothing. The table has the counts it sees.",
        limits="Emulated: read from the preempt count when the callback is entered. In the table: sections without preemption, "
        "counted "
        "RCU readers, migration off.",
        hypothetical=True,
    ),
)
