"""What do the lab's hooks cost on a real CPU, and what was estimated?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import pandas as pd

from ...base.errors import TramplabError
from ...estimate import cores
from ...estimate.cores import Core
from ...estimate.measure import hook_estimate
from ...estimate.returnstack import settled
from ...lab.hooks import hypothetical
from ...lab.measure import run
from ...native import Result
from ...native.agreement import NEEDED, STEADY, WITHIN
from ...native.cached import HOOKS, own, saved
from ...publish.figures.chart import Drawing, dumbbell
from ...publish.figures.figure import Figure
from ...publish.figures.fitted import digits
from ...publish.phrases import UNTIMED, estimated, listed, marked
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
    """This machine's, see frame(); no rows where there are none."""
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
    name, _, callbacks = hook.partition(":")
    try:
        e = hook_estimate(isa, hook, release, arguments, cores.get(core))
    except TramplabError:
        return {}
    hooked = run(isa, name, release, arguments, int(callbacks or 1))
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
    """The cells of that line."""
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
    """Numbers for the page: "jump", a sentence on what an fexit program's site gained by the jump; and of the rule by which
    windows agree "windows", "within" and "steady"; and of the largest result of each CPU whose own core has a usable model
    "own-total", costs on which windows agree, and "own-inside", those in the band of that model."""
    shown = _largest(frame)
    shown = shown[shown["exact"].astype(bool) & shown["agreed"].astype(bool) & shown[["low", "cycles"]].notna().all(axis="columns")]
    return {
        "own-total": len(shown),
        "own-inside": _inside(shown),
        "jump": jump(native_machine.led(frame)),
        "windows": NEEDED,
        "within": f"{WITHIN:.0%}",
        "steady": f"{STEADY:.0%}",
    }


def answer(frame: pd.DataFrame) -> str:
    """Whole sentences, because what is saved may grow: what a few hooks cost, which were not timed, and how many costs lie within
    the models' bands, from the largest result of each CPU."""
    parts = [part for _, part in _largest(frame).groupby("machine", sort=False)]
    said = [s for part in parts for s in (f"{part['cpu'].iloc[0]}.", costs(part), lacks(part), within(part)) if s]
    return " ".join(said) or "No times are saved in data/native/."


def costs(part: pd.DataFrame) -> str:
    """What some hooks add on one machine, of those it agrees on; "" if these are none."""
    agreed = (r for r in _records(native_machine.led(part)) if r["agreed"])
    good = {r["hook"]: r for r in agreed if not pd.isna(r["cycles"])}
    named = [f"{words} {digits(good[h]['ns'])} ns, {digits(good[h]['cycles'])} cycles" for h, words in _QUOTED if h in good]
    return f"What they add: {'; '.join(named)}." if named else ""


def lacks(part: pd.DataFrame) -> str:
    """How many hooks one machine's result does not have; "" if it has all."""
    left = len(native_machine.untimed(part))
    return f"{UNTIMED.capitalize()} on this machine: {left} of {left + part['hook'].nunique()} hooks." if left else ""


def within(part: pd.DataFrame) -> str:
    """How many of one machine's costs lie within the bands of the models, of those it agrees on; the nearest model first."""
    good = part[part["agreed"].astype(bool) & part["cycles"].notna()]
    if good.empty:
        return "Its windows agree on no hook, so nothing is concluded."
    if good["core"].isna().all():
        return "No model of a core of its ISA is usable, so nothing is estimated."
    modelled = good[good["low"].notna()]
    if modelled.empty:
        return "The lab has none of these hooks, so nothing is estimated."
    first = _records(modelled)[0]
    inside = {core: _inside(rows) for core, rows in modelled.groupby("core", sort=False)}
    of = modelled["hook"].nunique()
    others = listed([f"{core} {n}" for core, n in inside.items() if core != first["core"]])
    also = f"; of other models: {others}" if others else ""
    return f"{inside[first['core']]} of {of} measured costs lie within the band of the {native_machine.model(first)}{also}."


def _inside(rows: pd.DataFrame) -> int:
    """How many lie in the band, whose ends are as exact as what is compared with them."""
    return sum(r["low"] <= round(r["cycles"], 1) <= r["high"] for r in _records(rows))


def jump(frame: pd.DataFrame) -> str:
    """What fexit costs by the call and by the jump, on each CPU of which there are times of both; a sentence in any case."""
    good = frame[frame["agreed"].astype(bool) & (frame["hook"] == "bpf-fexit") & frame["cycles"].notna()]
    parts = []
    for call, jumped in itertools.product(_records(good), repeat=2):
        if (call["release"], jumped["release"]) == _WAYS and call["cpu"] == jumped["cpu"] and jumped["ns"] > 0:
            parts.append(
                f"On {call['cpu']} fexit adds {_way(call)} with the call, up to {_WAYS[0]}, and {_way(jumped)} with the jump, "
                f"from {_WAYS[1]}: {digits(call['ns'] / jumped['ns'])} times as much with the call."
            )
    return " ".join(parts) or f"No saved times on which windows agree are of both {_WAYS[0]} and {_WAYS[1]}."


def _way(row: Mapping) -> str:
    """One side of the comparison: measured, estimated, and the mispredictions."""
    out = f"{digits(row['ns'])} ns ({digits(row['cycles'])} cycles"
    if not pd.isna(row["low"]):
        out += f", estimated {_band(row)}; mispredicted returns by the replay: {row['missed']:.0f}"
    if not pd.isna(row["counted"]):
        out += f"; mispredicted branches by the CPU's counter: {digits(row['counted'])}"
    return out + ")"


def answer_here(frame: pd.DataFrame) -> str:
    """What stands above this machine's table: sentences that are true of any machine."""
    try:
        result = own(HOOKS)
    except TramplabError as e:
        return f"There are no times of the machine that built this page: {e}"
    parts = [native_machine.where(frame), result.verdict()]
    if frame["agreed"].any():
        parts += [costs(frame), lacks(frame), within(frame)]
    return " ".join(filter(None, [*parts, *result.failures]))


#: The last release with the one, and the first with the other (x86-64, commit 25e4e3565d45).
_WAYS = ("v6.18", "v6.19")
#: Hooks whose costs are quoted, and how.
_QUOTED = (
    ("direct", "a direct call"),
    ("ops", "one ops"),
    ("ops:2", "two"),
    ("ops:10", "ten"),
    ("bpf-fentry", "an fentry program"),
    ("bpf-fexit", "an fexit program"),
)


def _records(frame: pd.DataFrame) -> list[dict]:
    return frame.to_dict("records")


def _part(row: Mapping) -> str:
    """The title of a machine's part of the table."""
    model = f"model of {row['core']} ({'own' if row['exact'] else 'nearest'} core)" if row["lead"] else native_machine.model(row)
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
        answer=answer,
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
        answer=answer_here,
        alt=_ALT,
        limits=f"{_LIMITS} Every machine has its own.",
        kind="native",
        hypothetical=True,
        measured=True,
        own=True,
    ),
)
