"""What is a smaller save set worth in cycles, as estimated and where it was measured?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import Core
from ...analyse.cores import get as core
from ...emulate.machine import RECORD
from ...isa import ISAS
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...native import Result
from ...native.agreement import apart
from ...native.host import name
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.figure import Figure
from ...publish.said import HYPOTHETICAL, UNTIMED, estimated
from ...trampolines.plain import Ops
from ..hypothetical import flagged, named
from ..once import once
from ..time import native_machine

NAME = "save_set_cycles"
TITLE = "What a trampoline's save set adds, in cycles"
#: Save set -> the hook that has it. They differ in nothing but that.
SETS = {"live": "ops-live", "clobbered": "ops-clobbered", "own-args": "ops-own-args", "own-regs": "ops-own-regs"}
LIVE, ALL_OF_C = SETS["live"], SETS["clobbered"]
CORES = ("skylake", "zen5", "apple-m1", "cortex-a72", "sifive-u74", "spacemit-x60")
FUNCTION, ARGUMENTS = "two_args", (1, 2)
ESTIMATED, MEASURED = "estimated", "timed"
UNITS = {"cycles": "added", "low": "added", "high": "added", "gain": "cycles", "gain_low": "cycles", "gain_high": "cycles"}
#: Less than this part of what the hook adds is called hardly a gain. The thread gave no number; this one is ours.
HARDLY = 0.1


@once
def rows() -> pd.DataFrame:
    """One row per core and save set: what one ops adds to a call, estimated with a model of the core for a function of two
    arguments in the newest release, and measured where a machine in data/native/ was timed with both sets that are compared.

    Columns: isa, core, how (ESTIMATED or MEASURED), hook, hypothetical, args, cycles, low, high; gain, gain_low, gain_high (cycles
    less than with all that C may clobber); share, share_low, share_high (the gain as part of what the hook then adds). The band of
    an estimate varies what is not known of the core, in both calls at once; that of a time is how far apart its windows are.
    """
    out: list[dict[str, object]] = []
    for isa in ISAS:
        kernel = Kernel(isa, meter=RECORD)
        function = kernel.function(FUNCTION)
        idle, runs = kernel.call(function, *ARGUMENTS), {}
        for save in SETS:
            with kernel.attached(function, Ops(save=save)):
                runs[save] = kernel.call(function, *ARGUMENTS)
        for model in map(core, CORES):
            if model.isa == isa:
                out += [_estimate(model, hook, runs[save], idle, runs["clobbered"]) for save, hook in SETS.items()]
        timed = [list(measured(result)) for result in native_machine.largest(isa)]
        out += itertools.chain.from_iterable({rows[0]["core"]: rows for rows in reversed(timed) if rows}.values())
    frame = flagged(pd.DataFrame(out))
    frame.attrs["units"] = UNITS
    return frame


def _estimate(model: Core, hook: str, run: Run, idle: Run, clobbered: Run) -> dict[str, object]:
    added, gain = cycles.estimate(run, idle, model), cycles.estimate(clobbered, run, model)
    part = cycles.relative((run, idle), (clobbered, idle), model)
    band = {"cycles": added.mid, "low": added.low, "high": added.high}
    band |= {"gain": gain.mid, "gain_low": gain.low, "gain_high": gain.high}
    share = {"share": 1 - part.mid, "share_low": 1 - part.high, "share_high": 1 - part.low}
    head = {"isa": model.isa, "core": model.name, "how": ESTIMATED, "hook": hook, "args": len(ARGUMENTS)}
    return head | {k: round(float(v), 1) for k, v in band.items()} | {k: round(float(v), 3) for k, v in share.items()}


def measured(result: Result) -> Iterator[dict[str, object]]:
    """The rows of one machine's times, of those on which its windows agree; none without both sets that are compared."""
    good: dict[str, Any] = {str(r["hook"]): r for r in result.rows if r["agreed"]}
    facts = native_machine.facts(result)
    if not {"none", LIVE, ALL_OF_C} <= set(good):
        return
    clock = min(result.clock)
    off = {hook: apart(r["windows"]) / clock for hook, r in good.items()}
    whole = good[ALL_OF_C]["cycles_over"]
    for hook in SETS.values():
        if hook in good:
            added, around = good[hook]["cycles_over"], off[hook] + off["none"]
            gain, within = whole - added, (off[hook] + off[ALL_OF_C]) * (hook != ALL_OF_C)
            band = {"cycles": added, "low": added - around, "high": added + around}
            band |= {"gain": gain, "gain_low": gain - within, "gain_high": gain + within}
            share = {f"share{end}": band[f"gain{end}"] / whole for end in ("", "_low", "_high")}
            head = {"isa": facts["isa"], "core": facts["core"] if facts["exact"] else name(result.provenance), "how": MEASURED}
            head |= {"hook": hook, "args": result.provenance["arguments"]}
            yield head | {k: round(float(v), 2) for k, v in band.items()} | {k: round(float(v), 3) for k, v in share.items()}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per core, timed ones named so, and a column per hook but for own-args, for which a mail is too narrow; the largest
    set first: cycles, of estimates with their band; a machine may not have timed all."""
    data = named(frame[frame["hook"] != SETS["own-args"]])
    data["core"] = [_core(r) for r in data.itertuples()]
    data["said"] = [_cycles(r) for r in data.itertuples()]
    order = list(dict.fromkeys(data["hook"]))[::-1]
    lines = pd.MultiIndex.from_frame(data[["isa", "core"]].drop_duplicates())
    out = data.pivot(index=["isa", "core"], columns="hook", values="said").reindex(index=lines, columns=order)
    out = out.reset_index()
    out.columns.name = None
    out = out.astype(object).where(out.notna(), UNTIMED)
    out.attrs["units"] = dict.fromkeys(order, "cycles")
    out.attrs["right"] = order
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: per core and hook what it adds; of the live arguments what part they take off all that
    C may clobber. A core has one ISA, and a mail no room for its name."""
    data, live = named(frame), frame["hook"] == LIVE
    out = pd.DataFrame({"core": [_core(r) for r in data.itertuples()], "hook": data["hook"]})
    out["adds"] = [_cycles(r) for r in data.itertuples()]
    out["taken off"] = pd.Series([_percent(r) for r in data.itertuples()]).where(live, "-")
    out.attrs = {"units": {"adds": "cycles", "taken off": "%"}, "right": ("adds", "taken off")}
    return out


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per core, estimated or measured: what the live arguments take off all that C may clobber. Columns: isa, core, how,
    args, clobbered, gain, gain_low, gain_high, share, share_low, share_high."""
    live, whole = (frame[frame["hook"] == hook].set_index(["isa", "core", "how"]) for hook in (LIVE, ALL_OF_C))
    names = ["args", "gain", "gain_low", "gain_high", "share", "share_low", "share_high"]
    return live[names].assign(clobbered=whole["cycles"]).reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by core, of the live arguments against all that C may clobber: "skylake-gain" in cycles and
    "skylake-share" in percent, with their bands; "timed", in words what machines measured; "hardly", the threshold."""
    per_core = shares(frame)
    out: dict[str, object] = {"hardly": f"{100 * HARDLY:.0f} %"}
    for r in per_core[per_core["how"] == ESTIMATED].itertuples():
        out |= {f"{r.core}-gain": estimated(r.gain, r.gain_low, r.gain_high), f"{r.core}-share": f"{_percent(r)} %"}
    timed = per_core[per_core["how"] == MEASURED]
    told = [f"on {r.core}, timed, {r.gain:.1f} of {r.clobbered:.1f} cycles" for r in timed.itertuples()]
    out["timed"] = "; ".join(told) or "no machine was timed with both"
    return out


@judges("v3")
def live_is_hardly_a_gain(frame: pd.DataFrame | None = None) -> Verdict:
    """Contradicted on a core where even the low end of the band is a gain of a tenth or more; that threshold is ours."""
    frame = rows() if frame is None else frame
    per_core = shares(frame)
    per_core["said"] = [_core(r) for r in per_core.itertuples()]
    cases = per_core.assign(truth=per_core["share_low"] < HARDLY, core=per_core["said"])
    kind, on = across(cases, {"isa": "the ISA", "core": "the core"})
    told = {
        truth: [f"{_percent(r)} % on {r.core}" for r in cases[cases["truth"] == truth].itertuples()] for truth in (True, False)
    }
    least = f"{100 * HARDLY:.0f} %"
    ends = ((False, f"with the whole band at {least} or above"), (True, f"with a band that begins below {least}"))
    parts = [f"{', '.join(told[truth])}, {what}" for truth, what in ends if told[truth]]
    because = (
        "Of what the hook adds with all that C may clobber, saving only the live arguments takes off "
        f"{'; '.join(parts)}. The thread gave no number; {least} is ours. Estimates with models of the cores, {len(ARGUMENTS)} "
        f"arguments; timed: {_timed(per_core)}. The trampolines are hypothetical: no kernel has them."
    )
    values: dict[str, int | float | str] = {f"{r.said}, taken off": f"{_percent(r)} %" for r in per_core.itertuples()}
    return Verdict(kind, because, values, on)


def _timed(per_core: pd.DataFrame) -> str:
    """What was measured, in words."""
    timed = per_core[per_core["how"] == MEASURED]
    said = [f"{r.args} argument{'s' * (r.args != 1)}, in user mode, {_gain(r)} cycles less" for r in timed.itertuples()]
    return "; ".join(said) or "nowhere so far"


def _core(r: Any) -> str:
    """How a line or a case names its core."""
    return f"{r.core}, {MEASURED}" if r.how == MEASURED else str(r.core)


def _cycles(r: Any) -> str:
    """What a hook adds: an estimate with its band, or a time as a number of cycles."""
    return f"{r.cycles:.1f}" if r.how == MEASURED else estimated(r.cycles, r.low, r.high)


def _gain(r: Any) -> str:
    """What is taken off, likewise."""
    return f"{r.gain:.1f}" if r.how == MEASURED else estimated(r.gain, r.gain_low, r.gain_high)


def _percent(r: Any) -> str:
    """The part that is taken off, in percent, with its band."""
    return estimated(100 * r.share, 100 * r.share_low, 100 * r.share_high)


def _answer(frame: pd.DataFrame) -> str:
    every = shares(frame)
    estimates = every[every["how"] != MEASURED].sort_values("share", kind="stable")
    ends = [f"{_percent(r)} % ({_core(r)})" for r in estimates.iloc[[0, -1]].itertuples()]
    timed = [f"{100 * r.share:.0f} % ({r.core})" for r in every[every["how"] == MEASURED].itertuples()]
    return (
        f"Saving live arguments, not all that C may clobber, takes {' to '.join(ends)} off a hook by estimates"
        f"{', ' if timed else ''}{' and '.join(timed)}{' as timed' if timed else ''}."
    )


FIGURES = (
    Figure(
        "fig-save-set-cycles",
        "What is a smaller save set worth on a core?",
        table=table,
        answer=_answer,
        limits="Estimates with models of the cores for one ops on a two-argument function; bands vary what is not known of the "
        "core. `timed` is a native time, warm, in user mode; the CSV has of how many arguments. " + HYPOTHETICAL,
    ),
)
