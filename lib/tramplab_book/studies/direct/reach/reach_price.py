"""What does a direct call cost where the site reaches it, where it does not, and beside an ops?"""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.counting.counts import COMPONENTS
from tramplab.estimate.returnstack import replay
from tramplab.ftrace.releases import LATEST
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel

from ....publish import phrases
from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.every_release import every_release
from ...shared.order import largest_first
from ...time.saved_times import MACHINES, MEASURED, columns
from .reach_kernels import kernels
from .reach_ways import ARGUMENTS, CASES, FAR, FUNCTION, NEAR, SHARED

NAME = "reach_price"
TITLE = "What a direct call costs: near, far and beside an ops"
#: Beside the cases: the ops of the shared one without the direct call, and a BPF program.
OPS, PROGRAM = "ops", "bpf-fentry"
HOOKS = {**CASES, OPS: "ops", PROGRAM: "bpf-fentry"}
COUNTS = ("instructions", "loads", "stores", "branches_taken")
UNITS: dict[str, str] = {}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release with direct calls, case (of HOOKS) and component: what it adds to an unhooked call of a
    one-argument function.

    Columns: isa, release, case, component, instructions, loads, stores, branches_taken; mispredicted (returns, of the whole call:
    in it and among its callers, see estimate.returnstack). A hook that the lab does not know in a release has no rows.
    """
    frame = pd.DataFrame(every_release(_prices))
    frame.attrs["units"] = UNITS
    return frame


def _prices(isa: str, release: str) -> list[dict[str, object]]:
    """The rows of one kernel; none without direct calls."""
    kernel, items = Kernel(isa, release), []
    if not kernel.features["direct"]:
        return []
    function = kernel.function(FUNCTION)
    idle = kernel.call(function, *ARGUMENTS).counts.by_component
    for case, name in HOOKS.items():
        hook = hooks.get(name)
        if not kernel.features[hook.needs]:
            continue
        with kernel.attached(function, *hooks.requests(hook, 1)):
            run = kernel.call(function, *ARGUMENTS)
        missed = replay(run)
        for component in COMPONENTS:
            more = {n: getattr(run.counts.by_component[component], n) - getattr(idle[component], n) for n in COUNTS}
            items.append({"case": case, "component": component, **more, "mispredicted": missed.own + missed.outer})
    return items


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the kernels that the page shows, without those of what no case runs; named by ISA and release in isa."""
    keys = frame[["isa", "release"]].apply(tuple, axis=1)
    plotted = pd.concat([frame[keys == kernel] for kernel in kernels()], ignore_index=True)
    plotted["isa"] = [f"{phrases.isa_name(r.isa)} {r.release}" for r in plotted.itertuples()]
    return plotted[plotted.groupby("component")["instructions"].transform("any")].reset_index(drop=True)


def totals(frame: pd.DataFrame) -> pd.DataFrame:
    """What each case adds, over all components: indexed by isa, release, case; the counts, and mispredicted."""
    keys = ["isa", "release", "case"]
    sums = frame.groupby(keys, sort=False)[list(COUNTS)].sum()
    return sums.join(frame.groupby(keys, sort=False)["mispredicted"].first())


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and case: what is added, in all, and the cycles that each machine measured. Rows are those of shown()."""
    counted = totals(frame).reset_index()
    cycles = columns([(*_kernel(r.isa), HOOKS[r.case]) for r in counted.itertuples()])
    printed = _starred(counted).rename(columns={"instructions": "insns", "branches_taken": "taken"})
    printed = printed.rename(columns={"mispredicted": "mispredicted returns"}).assign(**cycles)
    printed.attrs = {"right": list(cycles), "units": dict.fromkeys(cycles, "cycles")}
    return printed


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: of every release shown."""
    out = totals(frame).reset_index().rename(columns={"instructions": "insns", "branches_taken": "taken"})
    out["isa"] = [f"{phrases.isa_name(r.isa)} {r.release}" for r in out.itertuples()]
    return _starred(out).rename(columns={"mispredicted": "mispredicted returns"})


def _kernel(named: str) -> tuple[str, str]:
    """The ISA and the release that shown() has named in one."""
    name, release = named.split()
    return next(isa for isa in ISAS if phrases.isa_name(isa) == name), release


def _starred(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of shown() with the mark behind a case that no such kernel has; without their releases."""
    cases = [phrases.marked(r.case, hooks.hypothetical(HOOKS[r.case], *_kernel(r.isa))) for r in frame.itertuples()]
    return frame.drop(columns="release").assign(case=cases)


def detour(frame: pd.DataFrame, isa: str, release: str) -> pd.Series:
    """What a call pays where its target is as far away as the lab's layout has it, more than where it is near, by count."""
    found = totals(frame).loc[(isa, release)]
    return found.loc[FAR] - found.loc[NEAR]


def beside(frame: pd.DataFrame, isa: str, release: str) -> pd.Series:
    """What a direct call adds to a function that has an ops already, by count."""
    found = totals(frame).loc[(isa, release)]
    return found.loc[SHARED] - found.loc[OPS]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by ISA and release, such as "arm64-v7-2-near-added", "-far-added", "-shared-added"; "-detour-added",
    with "-detour-loads-added", "-detour-stores-added" and "-detour-taken-added"; "-beside-added", what a direct call adds to a
    function with an ops; "-program-added", a BPF program's whole call in the lab; and "-mispredicted" of the three cases."""
    values: dict[str, object] = {}
    every = totals(frame)
    for isa, release in dict.fromkeys(zip(frame["isa"], frame["release"], strict=True)):
        name, costs = f"{isa}-{release.replace('.', '-')}", every.loc[(isa, release)]
        values |= {f"{name}-{case}-added": int(costs.loc[case, "instructions"]) for case in CASES}
        more = detour(frame, isa, release)
        values[f"{name}-detour-added"] = int(more["instructions"])
        for short, column in (("loads", "loads"), ("stores", "stores"), ("taken", "branches_taken")):
            values[f"{name}-detour-{short}-added"] = int(more[column])
        values[f"{name}-beside-added"] = int(beside(frame, isa, release)["instructions"])
        if PROGRAM in costs.index:
            values[f"{name}-program-added"] = int(costs.loc[PROGRAM, "instructions"])
        values[f"{name}-mispredicted"] = phrases.listed(str(int(costs.loc[case, "mispredicted"])) for case in CASES)
    return values


FIGURES = (
    Figure(
        "fig-reach-price",
        "What does each way cost a call?",
        rows=shown,
        chart=lambda frame: stacked_bars("instructions", bars="case", columns=4)(_charted(frame)),
        table=table,
        alt="A panel per kernel with a bar per case, near, far and shared, and for comparison one ops and one fentry program: "
        "instructions added to a call, split into site, trampoline, core and callback. The table has loads, stores, branches and "
        "measured cycles.",
        limits="Emulated counts of what is added to one call of a one-argument function; mispredicted returns under a "
        "return-stack model. `far` is as far away as the lab's layout has it; "
        f"`near` on riscv64 {LATEST} is within 2 KiB of ftrace_caller, where no real code of modules or BPF lies. {MEASURED}",
        kind="measured",
        machine=MACHINES,
        measured=True,
        hypothetical=True,
    ),
)


def _charted(frame: pd.DataFrame) -> pd.DataFrame:
    out = _starred(frame[frame["component"] != "function"])
    out.attrs = {"units": {"instructions": "added"}}
    return largest_first(out, "case", "instructions")
