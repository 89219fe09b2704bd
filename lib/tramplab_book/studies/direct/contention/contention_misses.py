"""When is there no node, and what does it cost to find that out? Nested calls and sleeping tasks that hold nodes."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tramplab.contention import POOLS, contend
from tramplab.isa import ISAS

from ....publish.figures.chart import lines
from ....publish.figures.figure import Figure
from ...memo import once
from .contended import LIMITS, NAMES, elsewhere

NAME = "contention_misses"
TITLE = "Pools of return hooks under contention: misses"
CPUS = (2, 4, 16, 32)


@dataclass(frozen=True)
class Case:
    """Nodes that each CPU takes one after the other; per CPU, nodes of sleeping tasks and, for None as kernels make it, of the
    pool. In hooked calls, or with stalls and nothing between."""

    depth: int
    asleep: int = 0
    nodes: int | None = None
    stalls: bool = False


#: Case -> what it is. Kernels make two nodes per CPU.
CASES = {
    "2 deep": Case(2),
    "3 deep": Case(3),
    "1 deep + 1 asleep": Case(1, 1),
    "2 deep + 1 asleep": Case(2, 1),
    "1 deep + 2 asleep": Case(1, 2),
    "1 deep, node each": Case(1, nodes=1, stalls=True),
    "40 deep": Case(40),
}
#: In which there is no node at all; in which there is always one; and in which a task's own room is not enough.
DRAWN = ("2 deep + 1 asleep", "3 deep")
EMPTY, EACH, DEEP = "1 deep + 2 asleep", "1 deep, node each", "40 deep"
#: Operations of a run: for each CPU so many, where calls are deep two rounds, and at least so many; where there is always a node.
PER_CPU, ROUNDS, LEAST_OPERATIONS, MANY = 30, 144, 600, 3000


@once
def rows() -> pd.DataFrame:
    """One row per ISA, pool, number of CPUs and case.

    Columns: isa, pool, hypothetical, cpus, case, nodes, takes, missed (percent of them), cost (mean instructions of a take that
    missed), avoidable (misses although there was a node all the time, whatever the others did).
    """
    records = []
    for isa in ISAS:
        for pool in POOLS:
            for cpus in CPUS:
                records += [_row(isa, pool, cpus, case) for case in CASES if case != DEEP or pool == "shadow"]
    return pd.DataFrame(records)


def _row(isa: str, pool: str, cpus: int, name: str) -> dict[str, object]:
    case, shadow = CASES[name], pool == "shadow"
    run = contend(
        isa,
        pool,
        cpus,
        nodes=None if shadow or case.nodes is None else case.nodes * cpus,
        depth=case.depth,
        asleep=case.asleep * cpus,
        between=0 if case.stalls else elsewhere(isa) // 2,
        schedule="stalls" if case.stalls else "drawn",
        operations=MANY if name == EACH else max(LEAST_OPERATIONS, (ROUNDS if name == DEEP else PER_CPU) * cpus),
    )
    head = {"isa": isa, "pool": pool, "hypothetical": shadow, "cpus": cpus, "case": name, "nodes": run.nodes}
    found = {"takes": run.total("pops"), "missed": round(100 * run.missed, 1), "cost": round(run.miss_cost, 1)}
    return {**head, **found, "avoidable": 0 if shadow else run.total("avoidable")}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, pool and number of CPUs: percent of takes that missed, case by case, and instructions of one."""
    keys = ["isa", "pool", "CPUs"]
    shown = frame.rename(columns={"cpus": "CPUs"}).assign(pool=frame["pool"].map(NAMES))
    wide = shown.assign(said=shown["missed"].map(lambda v: f"{v:.1f}")).pivot(index=keys, columns="case", values="said").fillna("-")
    wide = wide.reindex(pd.MultiIndex.from_frame(shown[keys].drop_duplicates()))[list(CASES)]
    cost = shown[shown["case"] == EMPTY].set_index(keys)["cost"]
    wide["insns"] = [f"{v:.0f}" if v else "-" for v in cost.reindex(wide.index)]
    wide.columns.name = None
    wide = wide.rename(columns=_short).reset_index()
    wide.attrs["right"] = [c for c in wide.columns if c not in keys]
    return wide


def cost_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and pool: instructions of a take that missed, a column per number of CPUs."""
    shown = costs(frame)
    wide = shown.pivot_table("instructions of a miss", ["isa", "line"], "CPUs", sort=False).round().astype(int)
    wide.columns = [f"{cpus} CPUs" for cpus in wide.columns]
    return wide.reset_index().rename(columns={"line": "pool"})


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """What the lines show: the two cases in which a CPU wants more nodes than the two that kernels make for it; a shadow stack's
    is one line where it is the same in both. The others are in the table."""
    part = frame[frame["case"].isin(DRAWN)].assign(percent=lambda rows: rows["missed"].round().astype(int))
    own = part[part["pool"] == "shadow"]
    alike = (own.groupby(["isa", "cpus"])["percent"].nunique() == 1).all()
    part = part.drop(index=own[own["case"] != DRAWN[0]].index) if alike else part
    pool = part["pool"].map(NAMES)
    line = pool.where((part["pool"] == "shadow") & alike, pool + ", " + part["case"].map(_said))
    return part.assign(line=line, CPUs=part["cpus"])


def _said(case: str) -> str:
    return "asleep" if "asleep" in case else case


def _short(case: str) -> str:
    """A case as the head of a column.

    >>> _short("2 deep + 1 asleep"), _short("1 deep, node each"), _short("3 deep")
    ('2+1', 'each', '3')
    """
    return "each" if case.endswith("each") else "+".join(part.split()[0] for part in case.split("+"))


def costs(frame: pd.DataFrame) -> pd.DataFrame:
    """What a miss costs, where there are some."""
    found = frame[(frame["case"] == EMPTY) & (frame["missed"] > 0)]
    return found.assign(line=found["pool"].map(NAMES)).rename(columns={"cpus": "CPUs", "cost": "instructions of a miss"})


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "shadow-nodes", of a task; where there is always a node, "freelist-avoidable" of "freelist-takes",
    over all ISAs and numbers of CPUs; per ISA, pool and CPUs, where calls are three deep, "arm64-objpool-16-missed" in percent;
    where they are two deep and a task per CPU sleeps, "arm64-objpool-16-asleep-missed"; of an empty pool
    "arm64-objpool-16-cost"."""
    shadow = frame[(frame["pool"] == "shadow") & (frame["cpus"] == CPUS[0])]["nodes"]
    values: dict[str, object] = {"shadow-nodes": int(shadow.iloc[0]) // CPUS[0]}
    for pool, part in frame[frame["case"] == EACH].groupby("pool", sort=False):
        values |= {f"{pool}-avoidable": int(part["avoidable"].sum()), f"{pool}-takes": int(part["takes"].sum())}
    for r in frame.itertuples():
        name = f"{r.isa}-{r.pool}-{r.cpus}"
        if r.case == "3 deep":
            values[f"{name}-missed"] = f"{r.missed:.1f}"
        elif r.case == "2 deep + 1 asleep":
            values[f"{name}-asleep-missed"] = f"{r.missed:.0f}"
        elif r.case == EMPTY and r.missed:
            values[f"{name}-cost"] = round(r.cost)
    return values


FIGURES = (
    Figure(
        "fig-contention-misses",
        "When is there no node?",
        chart=lambda frame: lines("percent without a node", over="CPUs", series="line", log="x")(
            _drawn(frame).rename(columns={"percent": "percent without a node"})
        ),
        table=lambda frame: table(frame).drop(columns="insns"),
        alt="A panel per ISA: percent of takes that got no node, against the number of CPUs. With calls two deep and a task "
        "asleep in one, freelist and rings miss most, with calls three deep fewer, and both fewer with more CPUs; the "
        "line of shadow stacks is at zero.",
        limits=f"{LIMITS} One seed, in hooked calls; percent of takes. Columns: how deep calls are, and sleeping tasks per CPU, "
        "which hold a node all the time, with two nodes per CPU; each: one deep, one node per CPU, with stalls, no calls around; "
        f"40: shadow stacks alone.",
        hypothetical=True,
    ),
    Figure(
        "fig-contention-miss-cost",
        "What does a miss cost?",
        chart=lambda frame: lines("instructions of a miss", over="CPUs", series="line")(costs(frame)),
        table=cost_table,
        alt="A panel per ISA: instructions of a take that gets no node, against the number of CPUs. The line of the rings rises "
        "straight with it, that of the freelist is level.",
        limits=f"{LIMITS} All nodes are with tasks that sleep, so nobody gives one back.",
    ),
)
