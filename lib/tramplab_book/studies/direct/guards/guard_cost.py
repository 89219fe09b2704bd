"""What does a guard cost per call, and what is it made of: recursion bits, preemption, RCU, migration, counters?"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tramplab.build.inlined import written
from tramplab.emulate.counting.counts import COMPONENTS, Counts
from tramplab.emulate.machine import RECORD
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from ...shared.every_release import every_release, newest

NAME = "guard_cost"
TITLE = "What a guard adds to a call"
FUNCTION, ARGUMENTS = "two_args", (1, 2)
Requests = Callable[[], list[Request]]
#: Guard -> (hook with the guard, same hook without it, or None if no such hook exists); the cost is the difference. "trylock": the
#: callback takes the bit itself. "RECURSION": its ops asks for it. "list": the list function's, of which only the guard is shown.
#: Programs without a guard are called bare, which no kernel does.
GUARDS: dict[str, tuple[Requests, Requests | None]] = {
    "trylock": (lambda: [Ops(callback="lab_callback_guarded")], lambda: [Ops()]),
    "RECURSION": (lambda: [Ops(recursion=True)], lambda: [Ops()]),
    "list": (lambda: [Ops(), Ops()], None),
    "fentry": (lambda: [Bpf(fentry=1)], lambda: [Bpf(fentry=1, guarded=False)]),
    "fexit": (lambda: [Bpf(fexit=1)], lambda: [Bpf(fexit=1, guarded=False)]),
}
PROGRAMS = ("fentry", "fexit")
#: Parts of a guard; recursion: ftrace's bits, a program's counter.
RECURSION, PREEMPTION, RCU, MIGRATION, REST = PARTS = ("recursion", "preemption", "RCU", "migration", "rest")
#: Functions of the guest, inlined or not -> what their instructions are for. The first of a chain of calls decides; what turns
#: preemption off belongs to those that need it, and is named where nobody does but the guard itself.
FOR = {
    **dict.fromkeys(("rcu_read_lock", "rcu_read_unlock", "__rcu_read_lock", "__rcu_read_unlock", "rcu_is_watching"), RCU),
    **dict.fromkeys(("migrate_disable", "migrate_enable", "lab_migrate_disable", "lab_migrate_enable"), MIGRATION),
    **dict.fromkeys(("lab_prog_get", "lab_prog_put"), RECURSION),
}
OFF = ("preempt_disable_notrace", "preempt_enable_notrace")
BIT = ("trace_recursion_enter", "trace_recursion_leave")
COUNTED = ("instructions", "loads", "stores")


def part_of(chain: tuple[str, ...]) -> str:
    """What an instruction is for, from the functions it was written in.

    >>> part_of(("ftrace_ops_list_func", "trace_recursion_enter", "preempt_disable_notrace"))
    'preemption'
    >>> part_of(("__bpf_prog_enter_recur", "rcu_read_lock", "preempt_disable_notrace")), part_of(("lab_callback",))
    ('RCU', 'rest')
    """
    found = next((FOR[name] for name in chain if name in FOR), None)
    if found:
        return found
    return PREEMPTION if set(OFF) & set(chain) else RECURSION if set(BIT) & set(chain) else REST


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, guard (GUARDS), component and part (PARTS): what the guard adds to one call of FUNCTION.

    Columns: isa, release, guard, component, part, instructions, loads, stores: with the guard less without; of "list" what the
    list function has for it. `rest` may be negative, where the compiler makes of a guarded callback something shorter. Guards of
    programs are there where the lab knows them.
    """
    frame = pd.DataFrame(every_release(_counted))
    frame.attrs["units"] = {}
    return frame


def _counted(isa: str, release: str) -> list[dict[str, object]]:
    kernel, items = Kernel(isa, release, meter=RECORD), []
    for guard, (with_it, without) in GUARDS.items():
        if guard in PROGRAMS and not kernel.features["bpf"]:
            continue
        more, less = _split(kernel, with_it), _split(kernel, without) if without else {}
        for component in COMPONENTS:
            for part in PARTS:
                if part == REST and without is None:
                    continue
                key = component, part
                added = more.get(key, Counts()) - less.get(key, Counts())
                if any(getattr(added, what) for what in COUNTED):
                    head = {"guard": guard, "component": component, "part": part}
                    items.append(head | {what: getattr(added, what) for what in COUNTED})
    return items


def _split(kernel: Kernel, requests: Requests) -> dict[tuple[str, str], Counts]:
    """A call's counts by component and part."""
    run, chain = _run(kernel, requests), written(kernel.image.path).chain
    found = run.counts.by(lambda pc: f"{run.component_of(pc)}|{part_of(chain(pc))}")
    return {(component, part): counts for name, counts in found.items() for component, _, part in [name.partition("|")]}


def _run(kernel: Kernel, requests: Requests) -> Run:
    function = kernel.function(FUNCTION)
    with kernel.attached(function, *requests()):
        return kernel.call(function, *ARGUMENTS)


# -- what is shown


def totals(frame: pd.DataFrame, *by: str) -> pd.DataFrame:
    """The counts summed up by these columns, in order of appearance."""
    return frame.groupby(list(by), sort=False, as_index=False)[list(COUNTED)].sum()


def by_part(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per part of a guard in the newest release; what adds nothing is left out."""
    part = totals(newest(frame), "isa", "guard", "part")
    for column, order in (("guard", list(GUARDS)), ("part", list(PARTS))):
        part = part.sort_values(column, key=lambda values, order=order: values.map(order.index), kind="stable")
    return part[part["instructions"] > 0]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and guard in the newest release: instructions in each component, loads and stores in all."""
    some = newest(frame)
    wide = some.pivot_table(index=["isa", "guard"], columns="component", values="instructions", aggfunc="sum", sort=False)
    wide = wide.fillna(0).astype(int).reindex(columns=[c for c in COMPONENTS if c in wide.columns])
    all_of = totals(some, "isa", "guard").set_index(["isa", "guard"])
    printed = wide.assign(loads=all_of["loads"], stores=all_of["stores"]).reset_index()
    printed.columns = [str(name) for name in printed.columns]
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions by part in every release, then loads and stores."""
    keys = ["isa", "release", "guard"]
    wide = frame.pivot_table(index=keys, columns="part", values="instructions", aggfunc="sum", sort=False).fillna(0).astype(int)
    all_of = totals(frame, *keys).set_index(keys)
    wide = wide.reindex(columns=list(PARTS)).assign(total=all_of["instructions"], loads=all_of["loads"], stores=all_of["stores"])
    printed = wide.rename(columns={PREEMPTION: "preempt", MIGRATION: "migrate"}).reset_index()
    printed.columns = [str(name) for name in printed.columns]
    return printed.assign(isa=printed["isa"] + " " + printed["release"]).drop(columns="release")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions that a guard adds, "arm64-fentry-added" in the newest release and, in each,
    "arm64-v6-12-fentry-added" and by part "arm64-v6-12-fentry-migration-added"."""
    values: dict[str, object] = {}
    for r in totals(frame, "isa", "release", "guard").itertuples():
        values[f"{r.isa}-{slug(r.release)}-{slug(r.guard)}-added"] = int(r.instructions)
        if r.release == releases.LATEST:
            values[f"{r.isa}-{slug(r.guard)}-added"] = int(r.instructions)
    parts = totals(frame, "isa", "release", "guard", "part").set_index(["isa", "release", "guard", "part"])["instructions"]
    for (isa, release, guard), _ in frame.groupby(["isa", "release", "guard"], sort=False):
        for part in PARTS:
            values[f"{isa}-{slug(release)}-{slug(guard)}-{slug(part)}-added"] = int(parts.get((isa, release, guard, part), 0))
    return values


def added(frame: pd.DataFrame, guard: str) -> dict[str, int]:
    """ISA -> instructions that a guard adds in the newest release."""
    some = totals(newest(frame), "isa", "guard")
    return {r.isa: int(r.instructions) for r in some[some["guard"] == guard].itertuples()}


FIGURES = (
    Figure(
        "fig-guard-cost",
        f"What does a guard add to a call, and what is it for? ({releases.LATEST})",
        chart=lambda frame: stacked_bars("instructions", bars=("guard",), stack="part")(by_part(frame)),
        table=table,
        alt="A panel per ISA with a bar per guard: the instructions that it adds to a call, split into what is for recursion, "
        "preemption, RCU and migration, and the rest. The table has components, loads and stores.",
        limits="Emulated counts with the guard less those without, where programs without are called bare, which no kernel does; "
        "of the list function only its guard. An instruction is for what the function is for that it was written in.",
        hypothetical=True,
    ),
)
