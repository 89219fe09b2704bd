"""What does one hook cost, part by part, on each ISA and in each release?"""

from __future__ import annotations

import itertools

import pandas as pd

from tramplab.emulate.counting.counts import COMPONENTS, Counts
from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import FUNCTIONS

from ....publish import phrases
from ....publish.figures.chart import stacked_bars, steps
from ....publish.figures.figure import Figure
from ....publish.table import pivot
from ...memo import once
from ...shared.every_release import every_release
from ...shared.hypothetical import named
from ...shared.order import largest_first

NAME = "single_callback"
TITLE = "What one hook adds to a call"
#: (hook, callbacks) in the order of the figure; a hook with several callbacks is written "ops x2".
_FIRST = (("none", 1), ("ops", 1), ("ops-regs", 1), ("ops", 2), ("ops", 10))
CASES = (*_FIRST, *((name, 1) for name in hooks.PLAIN if (name, 1) not in _FIRST))
ARGS = 1
UNITS = {"load_bytes": "B", "store_bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, hook and component: the counts of one call of a one-argument function.

    Columns: isa, release, hook, callbacks, component, then the counts. A hook that a release never had has no rows. The
    order is that of the figure.
    """
    frame = pd.DataFrame(every_release(_costs))
    frame.attrs["units"] = UNITS
    return frame


def _costs(isa: str, release: str) -> list[dict[str, object]]:
    """The rows of one kernel, for each hook that the release has."""
    kernel, out = Kernel(isa, release, meter=COUNT), []
    function = kernel.function(FUNCTIONS[ARGS])
    for name, callbacks in CASES:
        hook = hooks.get(name)
        if not kernel.features[hook.needs]:
            continue
        with kernel.attached(function, *hooks.requests(hook, callbacks)):
            counts = kernel.call(function, *range(1, ARGS + 1)).counts.by_component
        head = {"hook": hooks.label(name, callbacks), "callbacks": callbacks if name != "none" else 0}
        out += [{**head, "component": c, **counts[c].as_dict()} for c in COMPONENTS]
    return out


def costs(frame: pd.DataFrame) -> pd.DataFrame:
    """What each hook adds to the unhooked call, summed over components: columns isa, hook, release, then the counts."""
    keys, values = ["isa", "hook", "release"], [name for name in frame.columns if name in Counts().as_dict()]
    sums = frame.groupby(keys, sort=False)[values].sum()
    base = sums.xs("none", level="hook")
    out = sums.drop(index="none", level="hook").reset_index()
    out[values] -= base.loc[list(zip(out["isa"], out["release"], strict=True))].to_numpy()
    out.attrs["units"] = UNITS
    return out


def added(frame: pd.DataFrame, value: str = "instructions") -> pd.DataFrame:
    """One column of costs() as a table: columns isa, hook, then one per release.

    Releases that never had the hook are empty.
    """
    table = pivot(value, "release", ("isa", "hook"), total=False)(costs(frame))
    return table[["isa", "hook", *releases.shown()]]


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """What each component adds in the last release, without ten callbacks, which would dwarf the rest.

    Columns: isa, hook, hypothetical, component, then the counts; the hooks that kernels have come first.
    """
    rows = frame[(frame["release"] == releases.LATEST) & (frame["callbacks"] <= 2)]
    values = [name for name in frame.columns if name in Counts().as_dict()]
    base = rows[rows["hook"] == "none"].set_index(["isa", "component"])[values]
    hooked = rows[(rows["hook"] != "none") & (rows["component"] != "function")].copy()
    hooked[values] -= base.loc[list(zip(hooked["isa"], hooked["component"], strict=True))].to_numpy()
    hooked["hypothetical"] = [hooks.hypothetical(r.hook, r.isa) for r in hooked.itertuples()]
    out = hooked.sort_values("hypothetical", kind="stable").sort_values("isa", key=lambda c: c.map(list(ISAS).index), kind="stable")
    out = out[(out["component"] != "site") | out.groupby("component")["instructions"].transform("any")]
    out = out[["isa", "hook", "hypothetical", "component", *values]].reset_index(drop=True)
    out["hook"] = [phrases.marked(*pair) for pair in zip(out["hook"], out["hypothetical"], strict=True)]
    out.attrs["units"] = frame.attrs["units"]
    return out


#: Of by_release() the hooks that the chart has; a direct call is far where no kernel has a near one.
CHARTED = ("ops", "ops-static", "ops x2", "direct", "direct+ops", "bpf-fentry")


def by_release(frame: pd.DataFrame) -> pd.DataFrame:
    """What each hook adds in each release: costs() with whether the hook is hypothetical, and whether the kernel has CALL_OPS."""
    out = costs(frame)
    out.insert(3, "hypothetical", [hooks.hypothetical(r.hook, r.isa, r.release) for r in out.itertuples()])
    have = {
        (isa.name, release): bool(releases.features(isa, release, {})["call_ops"])
        for isa in ISAS.values()
        for release in releases.shown()
    }
    out.insert(4, "CALL_OPS", [have[pair] for pair in zip(out["isa"], out["release"], strict=True)])
    return out


def _charted(frame: pd.DataFrame) -> pd.DataFrame:
    alone = frame[frame["hypothetical"] & (frame["hook"] == "direct")][["isa", "release"]]
    far = frame[frame["hook"] == "direct-far"].merge(alone).assign(hook="direct")
    out = pd.concat([frame[frame["hook"].isin(CHARTED) & ~frame["hypothetical"]], far], ignore_index=True)
    return out.sort_values("release", key=lambda c: c.map(releases.shown().index), kind="stable")


def cost(frame: pd.DataFrame, isa: str, hook: str, release: str, value: str = "instructions") -> int:
    """What a hook adds to the unhooked call: one number of added()."""
    here = frame[(frame["isa"] == isa) & (frame["release"] == release)]
    return int(here.loc[here["hook"] == hook, value].sum() - here.loc[here["hook"] == "none", value].sum())


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: instructions added, by release."""
    return added(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by name.

    "newest"; the cost of every hook, like "arm64-direct-ops-v6-4-added", and of the newest release "arm64-direct-ops-added"; and
    what a direct call adds where code of modules or BPF really lies, like "riscv64-direct-to-bpf-v7-2-added": of the near case or
    the far one, or "23 or 28" where both are met.
    """
    table = added(frame)
    out: dict[str, object] = {"newest": releases.LATEST}
    for _, line in table.iterrows():
        for release in releases.shown():
            if not pd.isna(line[release]):
                names = [(release,), ()] if release == releases.LATEST else [(release,)]
                for name in ("-".join((line["isa"], line["hook"], *when, "added")) for when in names):
                    out[name.translate(str.maketrans(" +.", "---"))] = int(line[release])
    return out | _real(out)


#: How code is reached -> the hooks that do it.
_REACHED = {"near": ("direct",), "far": ("direct-far",), "either": ("direct", "direct-far")}


def _real(costs: dict[str, object]) -> dict[str, object]:
    """What a direct call adds to where modules and BPF have their code, from the costs by name; see releases.reach."""
    out: dict[str, object] = {}
    for isa, release, code in itertools.product(ISAS, releases.shown(), ("modules", "bpf")):
        tag = release.replace(".", "-")
        hooked = _REACHED[releases.reach(isa, release, code).value]
        names = [f"{isa}-{hook}-{tag}-added" for hook in hooked]
        added = [costs[name] for name in names if name in costs]
        if added:
            out[f"{isa}-direct-to-{code}-{tag}-added"] = added[0] if len(set(added)) == 1 else " or ".join(map(str, added))
    return out


def _released(frame: pd.DataFrame) -> pd.DataFrame:
    """The table of by_release(): a line per hook, a column per release."""
    table = pivot("instructions", "release", ("isa", "hook"), total=False)(named(frame))
    return table[["isa", "hook", *releases.shown()]]


FIGURES = (
    Figure(
        "fig-single-callback",
        f"What does a hook add to a call, and where? ({releases.LATEST})",
        rows=newest,
        chart=lambda frame: stacked_bars("instructions")(largest_first(frame, "hook", "instructions")),
        table=pivot("instructions", index=("isa", "hook")),
        alt="Bars per ISA: instructions that each hook adds to a call of a one-argument function, split into site, trampoline, "
        "core and callback. The table below has every number.",
        limits="Instructions added to one call of a one-argument function.",
        hypothetical=True,
    ),
    Figure(
        "fig-by-release",
        "Which release changed what a hook costs?",
        rows=by_release,
        chart=lambda frame: steps("instructions", since="CALL_OPS")(_charted(frame)),
        table=_released,
        alt="A panel per ISA: instructions that each hook adds, as steps from release to release, with a rule where the kernel "
        "first has CALL_OPS. The table below has the numbers of all hooks.",
        limits="Instructions added to one call, with nothing else registered. A dash: that release never had the hook on that ISA.",
        hypothetical=True,
    ),
)
