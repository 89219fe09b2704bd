"""What do the lab's hooks cost on a real CPU, and what was estimated?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

import pandas as pd

from ...analyse import cores, cycles
from ...analyse.returnstack import settled
from ...errors import TramplabError
from ...lab.measure import run
from ...native import Result
from ...native.agreement import NEEDED, STEADY, WITHIN
from ...native.kept import HOOKS, own, saved
from ...publish.figures.figure import Figure
from ...publish.figures.fitted import digits
from ..once import once
from . import native_machine

NAME = "native_hooks"
TITLE = "The hooks on a real CPU"
UNITS = {"ns": "added", "cycles": "added", "estimate": "cycles", "low": "cycles", "high": "cycles"}
COLUMNS = (
    "isa machine release hook ns ratio cycles agreed core exact estimate low high missed counted cpu date virtual".split()
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
    """One row per machine and hook, with the estimate of the core that is nearest to the machine's.

    Columns: isa, machine ("here", or the name of a file in data/native/), release, hook, ns (over the unhooked call),
    ratio (to the direct call), cycles (the same by the clock the machine showed), agreed (do the windows?), core (None if
    none is by its maker), exact (is it the CPU's own?), estimate, low, high (cycles), missed (mispredicted returns, from the
    replay), counted (mispredicted branches by the CPU, None where it may not be asked), cpu, date, virtual (is it a virtual
    machine?).
    """
    out = []
    for machine, result in timed.items():
        facts, arguments = native_machine.facts(result), int(str(result.provenance["arguments"]))
        for row in result.rows[1:]:
            out.append(
                {
                    **facts,
                    "machine": machine,
                    "hook": row["hook"],
                    "ns": row["ns_over"],
                    "ratio": row["ratio_direct"],
                    "cycles": row["cycles_over"],
                    "agreed": row["agreed"],
                    "counted": row.get("branch_misses"),
                    **_estimate(str(facts["isa"]), str(row["hook"]), str(facts["release"]), arguments, facts["core"]),
                }
            )
    made = pd.DataFrame(out, columns=COLUMNS)
    made.attrs["units"] = UNITS
    return made


@functools.cache
def _estimate(isa: str, hook: str, release: str, arguments: int, core: str | None) -> dict[str, object]:
    """What the model of a core says; nothing without a core, and of a hook that this lab does not have."""
    name, _, callbacks = hook.partition(":")
    if core is None:
        return {}
    try:
        base, hooked = run(isa, "none", release, arguments), run(isa, name, release, arguments, int(callbacks or 1))
    except TramplabError:
        return {}
    e = cycles.estimate(hooked, base, cores.get(core))
    band = {"estimate": round(e.mid, 1), "low": round(e.low, 1), "high": round(e.high, 1)}
    return {**band, "missed": settled(hooked, cores.get(core)["return_stack"].value)}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per machine: what was timed, the band, and mispredictions as replayed and as counted."""
    cells = {c: [digits(v) for v in frame[c]] for c in ("ns", "ratio", "cycles", "counted")}
    out = pd.DataFrame(
        {
            "isa": [f"{r['isa']} {r['release']}, {r['machine']}, {native_machine.model(r)}" for r in _records(frame)],
            "hook": [f"{r['hook']}{'' if r['agreed'] else ' ?'}" for r in _records(frame)],
            **{c: cells[c] for c in ("ns", "ratio", "cycles")},
            "estimate": [_band(r) for r in _records(frame)],
            "missed": ["-" if pd.isna(n) else f"{n:.0f}" for n in frame["missed"]],
            "counted": cells["counted"],
        }
    )
    out.attrs["units"] = {"ns": "added", "cycles": "added", "estimate": "cycles", "missed": "a call", "counted": "a call"}
    out.attrs["right"] = ("ns", "ratio", "cycles", "estimate", "missed", "counted")
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: of saved results, which are the same for everybody."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the page quotes, whole sentences because what is saved may grow: "costs" of a few hooks and how many lie within their
    bands, from the largest result of each CPU; "jump", what an fexit program's site gained by the jump; and of the rule by
    which windows agree "windows", "within" and "steady"."""
    largest = [max((p for _, p in cpu.groupby("machine")), key=len) for _, cpu in frame.groupby("cpu", sort=False)]
    said = [s for part in largest for s in (native_machine.where(part), costs(part), within(part)) if s]
    return {
        "costs": " ".join(said) or "No times are saved in data/native/.",
        "jump": jump(frame),
        "windows": NEEDED,
        "within": f"{WITHIN:.0%}",
        "steady": f"{STEADY:.0%}",
    }


def costs(part: pd.DataFrame) -> str:
    """What some hooks add on one machine, of those it agrees on; "" if these are none."""
    good = {r["hook"]: r for r in _records(part) if r["agreed"] and not pd.isna(r["cycles"])}
    named = [f"{words} {digits(good[h]['ns'])} ns, {digits(good[h]['cycles'])} cycles" for h, words in _QUOTED if h in good]
    return f"What they add: {'; '.join(named)}." if named else ""


def within(part: pd.DataFrame) -> str:
    """How many of one machine's costs lie within the band of the core's model, of those it agrees on."""
    good = part[part["agreed"].astype(bool) & part["cycles"].notna()]
    if good.empty:
        return "Its windows agree on no hook, so nothing is concluded."
    estimated = good[good["low"].notna()]
    if estimated.empty:
        return f"Nothing is estimated: {native_machine.model(_records(good)[0])}."
    inside = sum(r["low"] <= round(r["cycles"], 1) <= r["high"] for r in _records(estimated))  # as exact as the band
    return f"{inside} of {len(estimated)} measured costs lie within the band of the {native_machine.model(_records(good)[0])}."


def jump(frame: pd.DataFrame) -> str:
    """What fexit costs by the call and by the jump, on each CPU of which there are times of both; a sentence in any case."""
    good = frame[frame["agreed"].astype(bool) & (frame["hook"] == "bpf-fexit") & frame["cycles"].notna()]
    said = []
    for call, jumped in itertools.product(_records(good), repeat=2):
        if (call["release"], jumped["release"]) == _WAYS and call["cpu"] == jumped["cpu"] and jumped["ns"] > 0:
            said.append(
                f"On {call['cpu']} fexit adds {_way(call)} with the call, up to {_WAYS[0]}, and {_way(jumped)} with the jump, "
                f"from {_WAYS[1]}: {digits(call['ns'] / jumped['ns'])} times as much with the call."
            )
    return " ".join(said) or f"No saved times on which windows agree are of both {_WAYS[0]} and {_WAYS[1]}."


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
    said = [native_machine.where(frame), result.verdict()]
    if frame["agreed"].any():
        said += [costs(frame), within(frame)]
    return " ".join(filter(None, [*said, *result.failures]))


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


def _band(row: Mapping) -> str:
    return "-" if pd.isna(row["low"]) else f"{row['low']:.0f} to {row['high']:.0f}"


_LIMITS = (
    "Native times, warm, in user mode, less the unhooked call; `estimate` is the band of the model of the core named. ? marks "
    "a time that was not met again in three windows, or of a hook that has several speeds: nothing is concluded from it."
)

FIGURES = (
    Figure(
        "fig-native-hooks",
        "What does each hook add to a call on a real CPU, and what was estimated?",
        table=table,
        limits=_LIMITS,
        measured=True,
    ),
    Figure(
        "fig-here-hooks",
        "What do they add on the machine that built this page?",
        rows=lambda _: here(),
        table=table,
        answer=answer_here,
        limits=f"{_LIMITS} Every machine has its own.",
        measured=True,
        own=True,
    ),
)
