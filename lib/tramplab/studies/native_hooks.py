"""What do the lab's hooks cost on a real CPU, and what was estimated?"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pandas as pd

from ..analyse import cycles
from ..analyse.cores import cores, of_cpu
from ..analyse.returnstack import settled
from ..ftrace.measure import run
from ..native import Result
from ..native.kept import HOOKS, saved, shown
from ..publish.figure import Figure

NAME = "native_hooks"
TITLE = "The hooks on a real CPU"
UNITS = {"ns": "added", "cycles": "added", "low": "cycles", "high": "cycles"}
HERE = "here"


def results() -> dict[str, Result]:
    """What is compared: this machine's times (or, where it has none, the first saved ones), then all saved ones."""
    own, why = shown(HOOKS)
    return {**({} if why else {HERE: own}), **saved(HOOKS)}


def rows(timed: dict[str, Result] | None = None) -> pd.DataFrame:
    """One row per machine and hook, with the machine's own core; one per core of its ISA if it has none that is modelled.

    Columns: isa, machine ("here", or the name of a file in data/native/), release, hook, ns (over the unhooked call), ratio (to the
    direct call), cycles (the same by the clock the machine showed), core, estimate, low, high (cycles), missed
    (mispredicted returns, from the replay), counted (mispredicted branches by the CPU, None where it may not be asked).
    """
    out, once = [], functools.cache(run)  # machines are asked for the same hooks
    for machine, result in (timed or results()).items():
        facts = result.provenance
        isa, release, count = str(facts["isa"]), str(facts["release"]), int(facts["arguments"])
        base = once(isa, "none", release, count)
        own = of_cpu(str(facts["cpu"]))
        modelled = [own] if own else [c for c in cores().values() if c.isa == isa]
        for row in result.rows[1:]:
            name, _, callbacks = str(row["hook"]).partition(":")
            hooked = once(isa, name, release, count, int(callbacks or 1))
            for core in modelled:
                e = cycles.estimate(hooked, base, core)
                out.append(
                    {
                        "isa": isa,
                        "machine": machine,
                        "release": release,
                        "hook": row["hook"],
                        "ns": round(row["ns_over"], 2),
                        "ratio": row["ratio_direct"] and round(row["ratio_direct"], 2),
                        "cycles": round(row["cycles_over"], 1),
                        "core": core.name,
                        "estimate": round(e.mid, 1),
                        "low": round(e.low, 1),
                        "high": round(e.high, 1),
                        "missed": settled(hooked, core["return_stack"].value),
                        "counted": row.get("branch_misses"),
                    }
                )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per machine and core: what was timed, the band, and mispredictions as replayed and as counted."""
    out = pd.DataFrame(
        {
            "isa": frame["isa"] + ", " + frame["machine"] + ", model of " + frame["core"],
            "hook": frame["hook"],
            "ns": frame["ns"].map("{:.2f}".format),
            "ratio": frame["ratio"].map(lambda r: "-" if pd.isna(r) else f"{r:.2f}"),
            "cycles": frame["cycles"].map("{:.1f}".format),
            "from": frame["low"].map("{:.0f}".format),
            "to": frame["high"].map("{:.0f}".format),
            "missed": frame["missed"],
            "counted": frame["counted"].map(lambda n: "-" if pd.isna(n) else f"{n:.2f}"),
        }
    )
    out.attrs["units"] = {
        "ns": "added",
        "cycles": "added",
        "from": "estimate",
        "to": "estimate",
        "missed": "a call",
        "counted": "a call",
    }
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes of the first machine: "ops-ns", "ops-ratio", "ops-cycles", "ops-band" for each hook, and
    how many of how many measured cycles lie within their bands. And of the saved results of the two releases between which
    a site that has an fexit program went from call to jump: see jumped()."""
    first = frame[frame["machine"] == frame["machine"].iloc[0]]
    out: dict[str, object] = {}
    for r in first.drop_duplicates("hook").to_dict("records"):
        out |= {f"{r['hook']}-{k}": f"{r[k]:g}" for k in ("ns", "ratio", "cycles")}
        out[f"{r['hook']}-band"] = _band(r)
    core = first[first["core"] == first["core"].iloc[0]]
    out |= {
        "hooks": len(core),
        "within": int(core["cycles"].between(core["low"], core["high"]).sum()),
        "core": core["core"].iloc[0],
    }
    return out | jumped(frame)


def jumped(frame: pd.DataFrame) -> dict[str, object]:
    """Per hook of which there are saved times with the call and with the jump: "bpf-fexit-call-ns", "-call-cycles", "-call-band",
    "-call-missed" (returns, replayed), "-call-counted" (branches, by the CPU), the same with "-jump-", and
    "bpf-fexit-call-over-jump"."""
    saved = frame[frame["machine"] != HERE]
    ways = {way: saved[saved["release"] == release].set_index("hook") for way, release in _WAYS.items()}
    out: dict[str, object] = {}
    for hook in ways["call"].index.intersection(ways["jump"].index):
        both = {way: part.loc[[hook]].iloc[0] for way, part in ways.items()}
        for way, r in both.items():
            out |= {f"{hook}-{way}-{k}": f"{r[k]:g}" for k in ("ns", "cycles")}
            out |= {f"{hook}-{way}-band": _band(r), f"{hook}-{way}-missed": int(r["missed"])}
            out[f"{hook}-{way}-counted"] = "-" if pd.isna(r["counted"]) else f"{r['counted']:.2f}"
        out[f"{hook}-call-over-jump"] = f"{both['call']['ns'] / both['jump']['ns']:.2f}"
    return out


#: The last release with the one, and the first with the other (x86-64, commit 25e4e3565d45).
_WAYS = {"call": "v6.18", "jump": "v6.19"}


def _band(row: Mapping[str, object]) -> str:
    return f"{row['low']:.0f} to {row['high']:.0f}"


FIGURES = (
    Figure(
        "fig-native-hooks",
        "What does each hook add to a call on a real CPU, and what was estimated?",
        table=table,
        limits="Native times, warm, in user mode, less the unhooked call; bands are estimates in cycles for the cores named. "
        "They differ on every machine and are in no golden table.",
    ),
)
