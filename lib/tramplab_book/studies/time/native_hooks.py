"""What do the lab's hooks cost on a real CPU, and what was estimated?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.estimate import cores
from tramplab.estimate.cores import Core
from tramplab.estimate.measure import hook_estimate
from tramplab.estimate.returnstack import settled
from tramplab.lab.hooks import hypothetical, parted
from tramplab.lab.measure import run
from tramplab.native import Result
from tramplab.native.agreement import NEEDED, STEADY, WITHIN
from tramplab.native.cached import HOOKS, own, saved

from ...publish.figures.chart import Drawing, dumbbell
from ...publish.figures.figure import Figure
from ...publish.figures.fitted import digits
from ...publish.phrases import UNTIMED, estimated, marked
from ..memo import each, once
from ..shared.order import largest_first
from . import native_machine

NAME = "native_hooks"
TITLE = "The hooks on a real CPU"
UNITS = {"ns": "added", "cycles": "added", "estimate": "cycles", "low": "cycles", "high": "cycles"}
COLUMNS = (
    "isa machine release hook hypothetical ns ratio cycles agreed core lead exact estimate low high missed counted cpu date"
    " virtual".split()
)
HERE = "here"


@once
def rows() -> pd.DataFrame:
    """The saved results of data/native/, see frame()."""
    return frame(saved(HOOKS))


def here() -> pd.DataFrame:
    """The results of this machine, see frame(); no rows where there are none."""
    try:
        return frame({HERE: own(HOOKS)})
    except TramplabError:
        return frame({})


def frame(timed: Mapping[str, Result]) -> pd.DataFrame:
    """One row per machine, hook and usable model of a core of the machine's ISA, the nearest first; without a model where none is.

    Columns: isa, machine ("here", or the name of a file in data/native/), release, hook, hypothetical (no kernel has it), ns
    (over the unhooked call), ratio (to the direct call), cycles (the same by the clock the machine showed), agreed (do the
    windows?), core, lead (is it the nearest?), exact (is it the CPU's own?), estimate, low, high (cycles; None without a model),
    missed (mispredicted returns, from the replay with the model's return stack), counted
    (mispredicted branches by the CPU, None where it may not be asked), cpu, date, virtual (is it a virtual machine?).
    """
    records = []
    for machine, result in timed.items():
        facts, arguments = native_machine.facts(result), int(str(result.provenance["arguments"]))
        models: list[Core | None] = [*native_machine.models(result)]
        for row in result.rows[1:]:
            columns = {
                "machine": machine,
                "hook": row["hook"],
                "hypothetical": hypothetical(str(row["hook"])),
                "ns": row["ns_over"],
                "ratio": row["ratio_direct"],
                "cycles": row["cycles_over"],
                "agreed": row["agreed"],
                "counted": row.get("branch_misses"),
            }
            for model in models or [None]:
                lead = model is not None and model.name == facts["core"]
                of_model = {"core": model and model.name, "lead": lead, "exact": lead and facts["exact"]}
                asked = str(facts["isa"]), str(row["hook"]), str(facts["release"]), arguments
                records.append({**facts, **columns, **of_model, **(estimate(*asked, model.name) if model else {})})
    made = pd.DataFrame(records, columns=COLUMNS)
    made.attrs["units"] = UNITS
    return made


@each
def estimate(isa: str, hook: str, release: str, arguments: int, core: str) -> dict[str, object]:
    """What the model of a core says; nothing of a hook that this lab does not have."""
    name, callbacks = parted(hook)
    try:
        e = hook_estimate(isa, hook, release, arguments, cores.get(core))
    except TramplabError:
        return {}
    hooked = run(isa, name, release, arguments, callbacks)
    band = {"estimate": round(e.mid, 1), "low": round(e.low, 1), "high": round(e.high, 1)}
    return {**band, "missed": settled(hooked, cores.get(core)["return_stack"].value)}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per machine: what was timed, a column of bands per model, mispredictions as replayed and as counted; and how many
    hooks were not timed."""
    models = list(dict.fromkeys(frame["core"].dropna()))
    bands = {(r["machine"], r["hook"], r["core"]): _band(r) for r in _records(frame)}
    shown = _records(native_machine.led(frame))
    printed = pd.DataFrame(
        {
            "isa": [_part(r) for r in shown],
            "hook": [marked(r["hook"], r["hypothetical"]) + ("" if r["agreed"] else " ?") for r in shown],
            **{c: [digits(r[c]) for r in shown] for c in ("ns", "cycles")},
            **{core: [bands.get((r["machine"], r["hook"], core), "-") for r in shown] for core in models},
            "missed": ["-" if pd.isna(r["missed"]) else f"{r['missed']:.0f}" for r in shown],
            "counted": [digits(r["counted"]) for r in shown],
        }
    )
    printed = _with_untimed(printed, [part for _, part in frame.groupby("machine", sort=False)])
    printed.attrs["units"] = {"ns": "added", "cycles": "added", "missed": "a call", "counted": "a call"}
    printed.attrs["units"] |= dict.fromkeys(models, "estimate")
    printed.attrs["right"] = ("ns", "cycles", *models, "missed", "counted")
    return printed


def _with_untimed(table: pd.DataFrame, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The table with a line below each part that lacks hooks."""
    lines = [dict.fromkeys(table.columns, "-") | _untimed(part) for part in parts if native_machine.untimed(part)]
    titles = list(dict.fromkeys(table["isa"]))
    lengthened = pd.concat([table, pd.DataFrame(lines)], ignore_index=True)
    return lengthened.sort_values("isa", key=lambda isa: isa.map(titles.index), kind="stable", ignore_index=True)


def _untimed(part: pd.DataFrame) -> dict[str, str]:
    """The cells of the line on hooks that were not timed."""
    return {"isa": _part(part.iloc[0]), "hook": f"{len(native_machine.untimed(part))} others", "ns": UNTIMED}


def chart(frame: pd.DataFrame) -> Drawing | None:
    """What was measured of hooks that kernels have, beside the nearest model's estimate, a panel per CPU that was timed with more
    than half as many as any other; None for nothing."""
    shown = _largest(frame[frame["lead"].astype(bool) & frame["agreed"].astype(bool)])
    shown = shown[(shown[["cycles", "estimate", "low", "high"]] > 0).all(axis="columns")]
    shown = shown[~shown["hypothetical"].astype(bool) & (~shown["hook"].str.contains(":") | shown["hook"].str.startswith("ops:"))]
    if shown.empty:
        return None
    timed = shown["machine"].map(shown["machine"].value_counts())
    shown = shown[timed > timed.max() / 2]
    places = {machine: n for n, machine in enumerate(dict.fromkeys(shown["machine"]), 1)}
    name = "{1}, {2}, machine {0}" if len(places) > 1 else "{1}, {2}"
    panel = [name.format(places[r["machine"]], r["isa"], r["release"]) for r in _records(shown)]
    shown = shown.assign(panel=panel)
    measured = shown.assign(by="measured", low=float("nan"), high=float("nan"))
    modelled = shown.assign(by="model of " + shown["core"], cycles=shown["estimate"])
    both = pd.concat([measured, modelled], ignore_index=True).astype({"cycles": float, "low": float, "high": float})
    both.attrs["units"] = UNITS
    return _LINES(largest_first(both, "hook", "cycles", "panel"))


def _largest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the largest result of each CPU."""
    sizes = native_machine.led(frame).groupby(["cpu", "machine"], sort=False).size()
    kept = {part.idxmax()[1] for _, part in sizes.groupby(level="cpu", sort=False)}
    return frame[frame["machine"].isin(kept)]


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: of saved results, which are the same on every machine; of models only the nearest."""
    shown = native_machine.led(frame)
    nameless = shown.assign(core="estimate")
    titles = dict(zip(map(_part, _records(nameless)), map(_part, _records(shown)), strict=True))
    made = table(nameless)
    return made.assign(isa=made["isa"].map(titles))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the page: cycles that an fexit program adds on the first CPU of which there are times of both _WAYS,
    "fexit-call-cycles" and "fexit-jump-cycles", and its core, "fexit-core"; of the rule by which windows agree "windows", "within"
    and "steady"; and of the largest result of each CPU whose own core has a usable model "own-total", costs on which windows
    agree, "own-inside", those in the band of that model, and "own-missed", the hooks of the others."""
    shown = _largest(frame)
    shown = shown[shown["exact"].astype(bool) & shown["agreed"].astype(bool) & shown[["low", "cycles"]].notna().all(axis="columns")]
    missed = [f"{r['hook']} on {r['core']}" for r in _records(shown) if not _inside(r)]
    return {
        "own-total": len(shown),
        "own-inside": len(shown) - len(missed),
        "own-missed": ", ".join(missed),
        **_jump(native_machine.led(frame)),
        "windows": NEEDED,
        "within": f"{WITHIN:.0%}",
        "steady": f"{STEADY:.0%}",
    }


def _inside(row: Mapping) -> bool:
    """Does what was measured lie in the band, whose ends are rounded as it is?"""
    return row["low"] <= round(row["cycles"], 1) <= row["high"]


def _jump(frame: pd.DataFrame) -> dict[str, object]:
    """What fexit costs by the call and by the jump on one CPU; 0 where there are not times of both."""
    good = frame[frame["agreed"].astype(bool) & (frame["hook"] == "bpf-fexit") & frame["cycles"].notna()]
    core, call, jump = "", 0.0, 0.0
    for before, after in itertools.product(_records(good), repeat=2):
        if not core and (before["release"], after["release"]) == _WAYS and before["cpu"] == after["cpu"]:
            core, call, jump = before["core"], before["cycles"], after["cycles"]
    return {"fexit-core": core, "fexit-call-cycles": round(call, 1), "fexit-jump-cycles": round(jump, 1)}


#: The last release with the call, and the first with the jump (x86-64, commit 25e4e3565d45).
_WAYS = ("v6.18", "v6.19")


def _records(frame: pd.DataFrame) -> list[dict]:
    return frame.to_dict("records")


def _part(row: Mapping) -> str:
    """The title of a machine's part of the table."""
    model = f"model of {row['core']} ({'own' if row['exact'] else 'nearest'} core)" if row["lead"] else "no usable model"
    return f"{row['isa']} {row['release']}, {row['machine']}, {model}"


def _band(row: Mapping) -> str:
    return "-" if pd.isna(row["low"]) else estimated(row["estimate"], row["low"], row["high"])


_LINES = dumbbell("cycles", "hook", "by", low="low", high="high", facet="panel", columns=2, shared=True)
_LIMITS = (
    "Native times, warm, in user mode, less the unhooked call; under the name of a core is its model's estimate, with its band. ? "
    "marks a time that was not met again in three windows, or of a hook that has several speeds: nothing is concluded from it."
)
_ALT = (
    "A line per hook: the cycles that it adds as measured, and beside them the estimate of the nearest model with its band. The "
    "table below has every number."
)

FIGURES = (
    Figure(
        "fig-native-hooks",
        "What does each hook add on a real CPU, and what was estimated?",
        chart=chart,
        table=table,
        alt=_ALT,
        limits=_LIMITS,
        kind="native",
        hypothetical=True,
        measured=True,
    ),
    Figure(
        "fig-here-hooks",
        "What do they add on the machine that built this page?",
        rows=lambda _: here(),
        chart=chart,
        table=table,
        behind=lambda _: native_machine.said(),
        alt=_ALT,
        limits=f"{_LIMITS} Every machine has its own.",
        kind="native",
        hypothetical=True,
        measured=True,
        own=True,
    ),
)
