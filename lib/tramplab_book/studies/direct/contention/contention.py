"""The pools of return hooks with 1 to 64 CPUs at them: retries, and instructions per node, beside the published scaling."""

from __future__ import annotations

import pandas as pd

from tramplab.contention import POOLS, contend
from tramplab.isa import ISAS

from ....publish import published
from ....publish.figures.chart import lines
from ....publish.figures.figure import Figure
from ...memo import once
from .contended import LIMITS, NAMES, elsewhere

NAME = "contention"
TITLE = "Pools of return hooks under contention"
CPUS = (1, 2, 4, 8, 16, 32, 64)
SEEDS = (1, 2)
#: What the CPUs do: nothing but take a node and give it back, or hooked calls one after the other.
ALONE, CALLS = LOADS = ("pool alone", "hooked calls")
#: Operations of a run: so many, and for each CPU at least so many.
LEAST_OPERATIONS, PER_CPU = 800, 16
#: Load -> published scaling of the same: machine-readable id of a row up to the number of threads, and by which pool.
PUBLISHED = {
    ALONE: {"freelist": "x86-rawqueue-freelist", "objpool": "x86-rawqueue-objpool"},
    CALLS: {"freelist": "x86-kretprobe-freelist"},
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, pool, load, number of CPUs and seed, with CPUs that execute an instruction in every other tick, drawn.

    Columns: isa, pool, hypothetical, load (of LOADS), cpus, seed, operations, retries (per operation), pair (mean instructions of
    taking a node and of giving one back, together), elsewhere (instructions outside of the pool per pair), misses.
    """
    records = []
    for isa in ISAS:
        for pool in POOLS:
            for cpus in CPUS:
                for load in LOADS:
                    records += [_row(isa, pool, load, cpus, seed) for seed in SEEDS]
    return pd.DataFrame(records)


def _row(isa: str, pool: str, load: str, cpus: int, seed: int) -> dict[str, object]:
    outside = elsewhere(isa) if load == CALLS else 0
    operations = max(LEAST_OPERATIONS, PER_CPU * cpus)
    run = contend(isa, pool, cpus, between=outside // 2, operations=operations, seed=seed)
    head = {"isa": isa, "pool": pool, "hypothetical": pool == "shadow", "load": load, "cpus": cpus, "seed": seed}
    found = {"operations": run.operations, "retries": round(run.retries, 3), "pair": round(run.pair, 1)}
    return {**head, **found, "elsewhere": outside, "misses": run.total("misses")}


def means(frame: pd.DataFrame) -> pd.DataFrame:
    """Over the seeds: isa, pool, load, cpus, retries, pair, elsewhere, and times: the instructions of a pair and what is outside of
    the pool, as a multiple of the same with one CPU."""
    keys = ["isa", "pool", "load", "cpus"]
    plotted = frame.groupby(keys, as_index=False, sort=False)[["retries", "pair", "elsewhere"]].mean()
    whole = plotted["pair"] + plotted["elsewhere"]
    one = whole.where(plotted["cpus"] == 1).groupby([plotted[k] for k in keys[:3]]).transform("max")
    return plotted.assign(times=whole / one)


def at(frame: pd.DataFrame, isa: str, pool: str, load: str, cpus: int) -> pd.Series:
    """One row of means()."""
    return means(frame).set_index(["isa", "pool", "load", "cpus"]).loc[(isa, pool, load, cpus)]


def measured(load: str, pool: str) -> dict[int, float]:
    """Threads -> published time per operation and thread, as a multiple of the same with one thread: threads over throughput."""
    name = PUBLISHED[load].get(pool)
    if not name:
        return {}
    known = published.read()
    found = {n: known[f"{name}-{n}thr"].value for n in CPUS if f"{name}-{n}thr" in known}
    return {n: n * found[1] / value for n, value in found.items()}


# --- Retries


def _wide(frame: pd.DataFrame, column: str, digits: int) -> pd.DataFrame:
    """A line per ISA and pool, a column per number of CPUs."""
    printed = frame.assign(said=frame[column].map(lambda v: f"{v:.{digits}f}"), pool=frame["pool"].map(NAMES))
    wide = printed.pivot(index=["isa", "pool"], columns="cpus", values="said").reindex(
        pd.MultiIndex.from_frame(printed[["isa", "pool"]].drop_duplicates())
    )
    wide.columns = [str(n) for n in wide.columns]
    wide = wide.reset_index()
    wide.attrs["right"] = [str(n) for n in CPUS]
    return wide


def alone(frame: pd.DataFrame) -> pd.DataFrame:
    """The means of the pools alone, with names for a chart."""
    out = means(frame)
    out = out[out["load"] == ALONE].assign(line=lambda f: f["pool"].map(NAMES)).rename(columns={"retries": "failed attempts"})
    return out.rename(columns={"cpus": "CPUs"})


# --- Scaling


def scaling(frame: pd.DataFrame) -> pd.DataFrame:
    """Lines of the chart: panel (the load), line, CPUs, and times as much as with one; of x86-64, as the published ones are."""
    emulated = means(frame).query("isa == 'x86_64'")
    items = [{"panel": r.load, "line": NAMES[r.pool], "CPUs": r.cpus, "times": round(r.times, 2)} for r in emulated.itertuples()]
    for load, pools in PUBLISHED.items():
        for pool in pools:
            found = measured(load, pool).items()
            items += [{"panel": load, "line": f"{pool}, published", "CPUs": n, "times": round(t, 2)} for n, t in found]
    order = {load: n for n, load in enumerate(LOADS)}
    return pd.DataFrame(items).sort_values("panel", key=lambda c: c.map(order), kind="stable")


def _scaling_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per load, ISA and pool, and those published, of time: times as much as with one CPU or thread."""
    found = means(frame).assign(name=lambda f: f["isa"] + " " + f["pool"].map(NAMES))
    items = [{"load": r.load, "pool": r.name, "n": r.cpus, "said": f"{r.times:.1f}"} for r in found.itertuples(index=False)]
    for load, pools in PUBLISHED.items():
        for pool in pools:
            name, known = f"{pool}, time", measured(load, pool)
            items += [{"load": load, "pool": name, "n": n, "said": f"{t:.1f}"} for n, t in known.items()]
    table = pd.DataFrame(items)
    table["load"] = table["load"].map(dict(zip(LOADS, ("alone", "calls"), strict=True)))
    keys = table[["load", "pool"]].drop_duplicates().sort_values("load", kind="stable")
    wide = table.pivot(index=["load", "pool"], columns="n", values="said").reindex(pd.MultiIndex.from_frame(keys)).fillna("-")
    wide.columns = [str(n) for n in wide.columns]
    wide = wide.reset_index()
    wide.attrs["right"] = [str(n) for n in CPUS]
    return wide


# --- What is shown


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions of a pair, load by load."""
    found = means(frame)
    parts = [_wide(found[found["load"] == load], "pair", 1).assign(load=load) for load in LOADS]
    printed = pd.concat(parts, ignore_index=True)
    return printed[["load", *(c for c in printed.columns if c != "load")]]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "operations-total"; "most-cpus"; for each ISA and pool, with 1 and with 64 CPUs that do nothing else,
    "arm64-freelist-64-retries" and "arm64-freelist-64-pair"; "arm64-elsewhere"; as multiples of one CPU "x86_64-freelist-64-calls"
    and published ones, "kretprobe-64-published" and "raw-64-published"."""
    operations = f"{int(frame['operations'].sum()):,}".replace(",", " ")
    values: dict[str, object] = {"operations-total": operations, "most-cpus": int(frame["cpus"].max())}
    for r in means(frame).itertuples():
        name = f"{r.isa}-{r.pool}-{r.cpus}"
        if r.load == ALONE:
            values |= {f"{name}-retries": f"{r.retries:.1f}", f"{name}-pair": round(r.pair), f"{name}-alone": f"{r.times:.1f}"}
        else:
            values |= {f"{name}-calls": f"{r.times:.1f}", f"{name}-calls-pair": round(r.pair)}
            values[f"{r.isa}-elsewhere"] = int(r.elsewhere)
    for name, load in {"raw": ALONE, "kretprobe": CALLS}.items():
        values |= {f"{name}-{n}-published": f"{t:.0f}" for n, t in measured(load, "freelist").items()}
    return values | {f"ring-{n}-published": f"{t:.1f}" for n, t in measured(ALONE, "objpool").items()}


FIGURES = (
    Figure(
        "fig-contention-retries",
        "How many attempts of an operation fail?",
        chart=lambda frame: lines("failed attempts", over="CPUs", series="line")(alone(frame)),
        table=lambda frame: _wide(means(frame).query("load == @ALONE"), "retries", 2),
        alt="A panel per ISA: attempts that failed per operation against the number of CPUs from 1 to 64. The line of the freelist "
        "rises straight with the CPUs; those of rings and shadow stacks lie on zero.",
        limits=f"{LIMITS} A retry is a compare-and-swap that failed, or an exclusive load that no successful store followed. Means "
        f"of {len(SEEDS)} seeds.",
        hypothetical=True,
    ),
    Figure(
        "fig-contention-scaling",
        "Does that explain what was measured?",
        chart=lambda frame: lines("times", over="CPUs", series="line", facet="panel", columns=2, log="xy")(scaling(frame)),
        table=_scaling_table,
        alt="Two panels, both axes logarithmic: how many times as much a node, or a hooked call, takes with more CPUs as with one. "
        "Emulated lines of the freelist rise less steeply than the published ones; those of rings and shadow stacks are level, the "
        "published one of rings only up to some twenty threads.",
        limits=f"{LIMITS} Emulated: instructions per node, or per hooked call. Published: threads divided by throughput, on two "
        "Xeon 8260 with 48 cores and 96 threads (commit 4bbd93455659). Shapes beside each other, not a prediction.",
        hypothetical=True,
    ),
)
