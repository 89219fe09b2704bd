"""When is there no node, and what does it cost to find that out? Nested calls and sleeping tasks that hold nodes."""

from __future__ import annotations

import pandas as pd

from ...analyse.contention import POOLS, contend
from ...isa import ISAS
from ...publish.figures.chart import heat_map, lines
from ...publish.figures.figure import Figure
from ...publish.said import HYPOTHETICAL, listed, on_each
from ..once import once
from .contended import LIMITS, NAMES, elsewhere

NAME = "contention_misses"
TITLE = "Pools of return hooks under contention: misses"
CPUS = (4, 8, 16, 32)
#: Case -> nodes that each CPU takes one after the other, and nodes of sleeping tasks per CPU. Kernels make two nodes per CPU.
CASES = {
    "2 deep": (2, 0),
    "3 deep": (3, 0),
    "1, 1 asleep": (1, 1),
    "2, 1 asleep": (2, 1),
    "1, 2 asleep": (1, 2),
    "40 deep": (40, 0),
}
#: In which there is no node at all, so that every take misses; and in which a task's own room is not enough.
EMPTY, DEEP = "1, 2 asleep", "40 deep"
#: Operations of a run: for each CPU so many, where calls are deep two rounds, and at least so many.
PER_CPU, ROUNDS, LEAST_OPERATIONS = 30, 144, 600


@once
def rows() -> pd.DataFrame:
    """One row per ISA, pool, number of CPUs and case, with pools as kernels make them: two nodes for each CPU.

    Columns: isa, pool, hypothetical, cpus, case, nodes, missed (percent of takes), cost (mean instructions of a take that missed),
    avoidable (misses although there was a node all the time, whatever the others did).
    """
    out = []
    for isa in ISAS:
        for pool in POOLS:
            for cpus in CPUS:
                out += [_row(isa, pool, cpus, case) for case in CASES if case != DEEP or pool == "shadow"]
    return pd.DataFrame(out)


def _row(isa: str, pool: str, cpus: int, case: str) -> dict[str, object]:
    depth, asleep = CASES[case]
    operations = max(LEAST_OPERATIONS, (ROUNDS if case == DEEP else PER_CPU) * cpus)
    run = contend(isa, pool, cpus, depth=depth, asleep=asleep * cpus, between=elsewhere(isa) // 2, operations=operations)
    head = {"isa": isa, "pool": pool, "hypothetical": pool == "shadow", "cpus": cpus, "case": case, "nodes": run.nodes}
    avoidable = run.total("avoidable") if pool != "shadow" else 0
    return {**head, "missed": round(100 * run.missed, 1), "cost": round(run.miss_cost, 1), "avoidable": avoidable}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, pool and number of CPUs: percent of takes that missed, case by case, and instructions of one."""
    keys = ["isa", "pool", "CPUs"]
    shown = frame.rename(columns={"cpus": "CPUs"}).assign(pool=frame["pool"].map(NAMES))
    wide = shown.assign(said=shown["missed"].map(lambda v: f"{v:.1f}")).pivot(index=keys, columns="case", values="said").fillna("-")
    wide = wide.reindex(pd.MultiIndex.from_frame(shown[keys].drop_duplicates()))[list(CASES)]
    cost = shown[shown["case"] == EMPTY].set_index(keys)["cost"]
    wide["insns"] = [f"{v:.0f}" if v else "-" for v in cost.reindex(wide.index)]
    wide.columns.name = None
    wide = wide.rename(columns=lambda c: c.replace(", ", "+").replace(" asleep", " a.")).reset_index()
    wide.attrs["right"] = [c for c in wide.columns if c not in keys]
    return wide


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def costs(frame: pd.DataFrame) -> pd.DataFrame:
    """What a miss costs, where there are some."""
    found = frame[(frame["case"] == EMPTY) & (frame["missed"] > 0)]
    return found.assign(line=found["pool"].map(NAMES)).rename(columns={"cpus": "CPUs", "cost": "instructions of a miss"})


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: "avoidable-total"; "shadow-nodes", of a task; per ISA, pool and CPUs, where calls are three deep,
    "arm64-objpool-16-missed" in percent; where they are two deep and a task per CPU sleeps, "arm64-objpool-16-asleep-missed"; and
    of an empty pool "arm64-objpool-16-cost"."""
    own = frame[(frame["pool"] == "shadow") & (frame["cpus"] == CPUS[0])]["nodes"]
    out: dict[str, object] = {"avoidable-total": int(frame["avoidable"].sum()), "shadow-nodes": int(own.iloc[0]) // CPUS[0]}
    for r in frame.itertuples():
        name = f"{r.isa}-{r.pool}-{r.cpus}"
        if r.case == "3 deep":
            out[f"{name}-missed"] = f"{r.missed:.1f}"
        elif r.case == "2, 1 asleep":
            out[f"{name}-asleep-missed"] = f"{r.missed:.0f}"
        elif r.case == EMPTY and r.missed:
            out[f"{name}-cost"] = round(r.cost)
    return out


def _missed_answer(frame: pd.DataFrame) -> str:
    pools = frame[frame["pool"] != "shadow"]
    enough = [case for case, part in pools.groupby("case", sort=False) if not part["missed"].any()]
    short = pools[(pools["case"] == "2, 1 asleep") & (pools["cpus"] == CPUS[0])]["missed"]
    own = frame[(frame["pool"] == "shadow") & (frame["missed"] == 0)]["case"].drop_duplicates()
    return (
        f"Freelist and rings miss nothing where two nodes per CPU are enough ({listed(enough)}); where more are wanted, up to "
        f"{short.max():.0f} % of takes with {CPUS[0]} CPUs (two deep, a sleeping task per CPU). A shadow stack misses nothing in "
        f"{len(own)} of {len(CASES)} cases: its room is the task's, whatever others do."
    )


def _cost_answer(frame: pd.DataFrame) -> str:
    few, most = min(frame["cpus"]), max(frame["cpus"])
    of = costs(frame).set_index(["isa", "pool", "CPUs"])["instructions of a miss"]
    ring = {isa: f"{of[isa, 'objpool', few]:.0f} to {of[isa, 'objpool', most]:.0f}" for isa in ISAS}
    flat = {isa: f"{of[isa, 'freelist', most]:.0f}" for isa in ISAS}
    return (
        f"To find all rings empty takes from {on_each(ring, 'instructions')} with {few} to {most} CPUs, since each is looked at; "
        f"to find the list empty takes {on_each(flat)}."
    )


FIGURES = (
    Figure(
        "fig-contention-misses",
        "When is there no node?",
        chart=lambda frame: heat_map("missed", rows=("line", "n"), columns="case")(
            frame.assign(line=frame["pool"].map(NAMES), n=frame["cpus"].map(lambda n: f"{n} CPUs"), missed=frame["missed"].round())
        ),
        table=table,
        answer=_missed_answer,
        alt="A panel per ISA with a row per pool and number of CPUs, and a column per case: percent of takes that got no node. "
        "Freelist and rings miss when more nodes are wanted than there are; shadow stacks when calls are deeper than their room.",
        limits=f"{LIMITS} One seed, in hooked calls; percent of takes. The pool has two nodes per CPU; tasks that sleep hold "
        f"theirs all the time. {DEEP}: shadow stacks alone. {HYPOTHETICAL}",
    ),
    Figure(
        "fig-contention-miss-cost",
        "What does a miss cost?",
        chart=lambda frame: lines("instructions of a miss", over="CPUs", series="line")(costs(frame)),
        table=table,
        answer=_cost_answer,
        alt="A panel per ISA: instructions of a take that gets no node, against the number of CPUs. The line of the rings rises "
        "straight with it, that of the freelist is level.",
        limits=f"{LIMITS} All nodes are with tasks that sleep, so nobody gives one back.",
    ),
)
