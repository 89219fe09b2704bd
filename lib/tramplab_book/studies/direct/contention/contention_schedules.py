"""How much do retries, and how evenly CPUs are served, depend on when each CPU executes its next instruction?"""

from __future__ import annotations

import pandas as pd

from tramplab.contention import POOLS, SCHEDULES, contend
from tramplab.isa import ISAS

from ....publish.figures.chart import dumbbell, heat_map
from ....publish.figures.figure import Figure
from ...memo import once
from .contended import LIMITS, NAMES

NAME = "contention_schedules"
TITLE = "Pools of return hooks under contention: schedules and fairness"
CPUS, OPERATIONS, SEEDS = 16, 1200, (1, 2)
#: Bytes of a reservation: a cache line, and only the word itself.
LINE, WORD = 64, 8


@once
def rows() -> pd.DataFrame:
    """One row per ISA, pool, schedule, bytes of a reservation and seed, with 16 CPUs that do nothing else.

    Columns: isa, pool, hypothetical, schedule, granule (another than a line's only where exclusive accesses are retried), seed,
    retries (per operation), pair (instructions), longest (instructions of the longest operation), least, most (operations of the
    CPU that did least and most, as a multiple of the mean), served (the same of all CPUs, in that order, as text), fairness (Jain's
    index).
    """
    records = []
    for isa in ISAS:
        for pool in POOLS:
            cases = [(schedule, LINE) for schedule in SCHEDULES]
            if pool != "shadow" and isa != "x86_64":
                cases.append((next(iter(SCHEDULES)), WORD))
            records += [_row(isa, pool, *case, seed) for case in cases for seed in SEEDS]
    return pd.DataFrame(records)


def _row(isa: str, pool: str, schedule: str, granule: int, seed: int) -> dict[str, object]:
    run = contend(isa, pool, CPUS, operations=OPERATIONS, schedule=schedule, seed=seed, granule=granule)
    head = {"isa": isa, "pool": pool, "hypothetical": pool == "shadow", "schedule": schedule, "granule": granule, "seed": seed}
    found = {"retries": round(run.retries, 3), "pair": round(run.pair, 1), "longest": run.longest}
    served: dict[str, object] = {"least": round(float(run.shares.min()), 3), "most": round(float(run.shares.max()), 3)}
    served |= {"served": " ".join(f"{share:.2f}" for share in sorted(run.shares))}
    return {**head, **found, **served, "fairness": round(run.fairness, 4)}


def means(frame: pd.DataFrame) -> pd.DataFrame:
    """Over the seeds, of reservations of a line: means, of longest and most the largest, of least the smallest."""
    how = {"retries": "mean", "pair": "mean", "fairness": "mean", "longest": "max", "most": "max", "least": "min"}
    keys = ["isa", "pool", "schedule"]
    plotted = frame[frame["granule"] == LINE].groupby(keys, as_index=False, sort=False).agg(how)
    return plotted.assign(line=plotted["pool"].map(NAMES), CPUs=CPUS)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, pool and schedule, of which each figure prints its own columns."""
    found = means(frame)
    printed = found[["isa", "line", "schedule"]].rename(columns={"line": "pool"})
    printed["retries"] = [f"{v:.2f}" for v in found["retries"]]
    printed["insns"] = [f"{v:.0f}" for v in found["pair"]]
    printed["longest"] = found["longest"].to_numpy()
    printed["least-most"] = [f"{r.least:.2f}-{r.most:.2f}" for r in found.itertuples()]
    printed["Jain"] = [f"{v:.3f}" for v in found["fairness"]]
    printed.attrs["right"] = ["retries", "insns", "longest", "least-most", "Jain"]
    return printed


def by_granule(frame: pd.DataFrame) -> pd.DataFrame:
    """Retries of the list per operation with reservations of a line and of a word. Columns: isa, line, word."""
    chosen = frame[(frame["schedule"] == next(iter(SCHEDULES))) & (frame["pool"] == "freelist")]
    wide = chosen.pivot_table(index="isa", columns="granule", values="retries", aggfunc="mean", sort=False).dropna()
    return wide.rename(columns={LINE: "line", WORD: "word"}).reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "cpus"; "turn", instructions of one; "line", bytes of a reservation; per ISA, pool and schedule
    "arm64-freelist-even-retries", "-pair", "-longest", "-least", "-most"; with reservations of a word "arm64-word-retries"."""
    values: dict[str, object] = {"cpus": CPUS, "turn": SCHEDULES["turns"].slice, "line": LINE}
    for r in means(frame).itertuples():
        name = f"{r.isa}-{r.pool}-{r.schedule}"
        values |= {f"{name}-retries": f"{r.retries:.1f}", f"{name}-pair": round(r.pair), f"{name}-longest": int(r.longest)}
        values |= {f"{name}-least": f"{r.least:.2f}", f"{name}-most": f"{r.most:.2f}"}
    return values | {f"{r.isa}-word-retries": f"{r.word:.1f}" for r in by_granule(frame).itertuples()}


def _ends(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for the CPU that did least and one for that which did most, per ISA and pool; of the first schedule, means of seeds."""
    found = means(frame)
    part = found[found["schedule"] == next(iter(SCHEDULES))]
    out = part.melt(["isa", "line"], ["least", "most"], "CPU", "share")
    out.attrs["units"] = {"share": "of the mean"}
    return out.assign(share=out["share"].round(2), CPU="did " + out["CPU"])


FIGURES = (
    Figure(
        "fig-contention-schedules",
        "How much depends on the schedule?",
        chart=lambda frame: heat_map("instructions", rows="schedule", columns="line")(
            means(frame).assign(instructions=means(frame)["pair"].round().astype(int))
        ),
        table=lambda frame: table(frame).drop(columns=["longest", "least-most", "Jain"]),
        alt="A panel per ISA with a row per schedule and a column per pool: instructions of taking a node and giving it back. "
        "Those of the freelist are many when all CPUs run at once, fewer with stalls, and few when they take turns.",
        limits=f"{LIMITS} {CPUS} CPUs, means of {len(SEEDS)} seeds.",
        hypothetical=True,
    ),
    Figure(
        "fig-contention-fairness",
        "Is every CPU served?",
        chart=lambda frame: dumbbell("share", "line", "CPU", shared=True)(_ends(frame)),
        table=lambda frame: table(frame).drop(columns=["retries", "insns"]),
        alt="A panel per ISA with a line per pool: operations of the CPU that did least and of the one that did most, over "
        "the mean. The two are far apart on the freelist, and close together in the other pools.",
        limits=f"{LIMITS} {CPUS} CPUs, {OPERATIONS} operations in each of {len(SEEDS)} runs; no CPU is nearer to memory than "
        f"another.",
        hypothetical=True,
    ),
)
