"""What is a smaller save set worth in cycles, where it was measured?"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tramplab.ftrace.releases import parse
from tramplab.native import Result
from tramplab.native.agreement import apart
from tramplab.native.cached import HOOKS, saved

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.figures.fitted import digits
from ....publish.phrases import UNTIMED
from ...memo import once
from ...shared.hypothetical import flagged, named
from ...time import native_machine
from ...time.saved_times import MACHINES

NAME = "save_set_cycles"
TITLE = "What a trampoline's save set adds, in measured cycles"
#: Save set -> the hook that has it. They differ in nothing but that.
SETS = {"live": "ops-live", "clobbered": "ops-clobbered", "own-args": "ops-own-args", "own-regs": "ops-own-regs"}
LIVE, ALL_OF_C = SETS["live"], SETS["clobbered"]
UNITS = {"cycles": "added", "gain": "cycles", "gain_low": "cycles", "gain_high": "cycles"}


@once
def rows() -> pd.DataFrame:
    """One row per machine of data/native/ and save set, of machines that were timed with both sets that are compared, in the newest
    release that any was timed in.

    Columns: isa, machine, hook, hypothetical, args, cycles (that one ops adds to a call), gain (cycles less than with all that
    C may clobber), gain_low, gain_high (by how far apart the windows of both are), share (the gain as a part of what the hook
    with all that C may clobber adds).
    """
    of = {name: parse(str(result.provenance["release"])) for name, result in saved(HOOKS).items()}
    results = {name: result for name, result in saved(HOOKS).items() if of[name] == max(of.values())}
    frame = flagged(pd.DataFrame([row for name, result in results.items() for row in measured(name, result)]))
    frame.attrs["units"] = UNITS
    return frame


def measured(name: str, result: Result) -> Iterator[dict[str, object]]:
    """The rows of one machine's times, of those on which its windows agree; none without both sets that are compared."""
    good = {str(r["hook"]): r for r in result.rows if r["agreed"]}
    if not {"none", LIVE, ALL_OF_C} <= set(good):
        return
    added = {hook: float(str(row["cycles_over"])) for hook, row in good.items()}
    off = {hook: apart(row["windows"]) / min(result.clock) for hook, row in good.items()}  # type: ignore[arg-type]
    for hook in SETS.values():
        if hook in good:
            gain, within = added[ALL_OF_C] - added[hook], (off[hook] + off[ALL_OF_C]) * (hook != ALL_OF_C)
            head = {"isa": result.provenance["isa"], "machine": native_machine.called(result, name), "hook": hook}
            band = {"cycles": added[hook], "gain": gain, "gain_low": gain - within, "gain_high": gain + within}
            head |= {"args": result.provenance["arguments"]} | {k: round(v, 2) for k, v in band.items()}
            yield head | {"share": round(gain / added[ALL_OF_C], 3)}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per machine, and a column per hook, the largest set first; a machine may not have timed all."""
    data = named(frame)
    order = list(dict.fromkeys(data["hook"]))[::-1]
    wide = data.pivot(index=["isa", "machine"], columns="hook", values="cycles").reindex(columns=order)
    printed = wide.map(lambda v: UNTIMED if pd.isna(v) else digits(float(v))).reset_index()
    printed.columns.name = None
    printed.attrs = {"units": dict.fromkeys(order, "cycles"), "right": order}
    return printed


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per machine, of live arguments against all that C may clobber. Columns: isa, machine, args, clobbered and live
    (cycles), gain, share."""
    live, whole = (frame[frame["hook"] == hook].set_index(["isa", "machine"]) for hook in (LIVE, ALL_OF_C))
    return live[["args", "gain", "share"]].assign(clobbered=whole["cycles"], live=live["cycles"]).reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "zen3-gain", cycles less than with all that C may clobber if only the live arguments are saved, and
    "zen3-share", in percent of what the former add; and "whole-least-ratio", how many times the cycles of the next larger set all
    registers take at the least, on machines that timed all sets."""
    wide = frame.pivot(index="machine", columns="hook", values="cycles").reindex(columns=list(SETS.values())).dropna()
    ratio = wide[SETS["own-regs"]] / wide.drop(columns=SETS["own-regs"]).max(axis="columns")
    values: dict[str, object] = {"whole-least-ratio": round(float(ratio.min()), 2)}
    for r in shares(frame).itertuples():
        values |= {f"{r.machine}-gain": digits(r.gain), f"{r.machine}-share": round(100 * r.share)}
    return values


def bars(frame: pd.DataFrame) -> pd.DataFrame:
    """A bar per row, of a machine and a hook, in whole cycles."""
    out = named(frame).assign(cycles=frame["cycles"].round().astype(int), component="trampoline")
    out.attrs["units"] = frame.attrs["units"]
    return out


FIGURES = (
    Figure(
        "fig-save-set-cycles",
        "What is a smaller save set worth on a CPU?",
        chart=lambda frame: stacked_bars("cycles", facet="machine")(bars(frame)),
        table=table,
        alt="A panel per measured machine with a bar per save set: cycles that one ops adds to a call, least with only the live "
        "arguments saved, most with all general registers. The table has the decimals.",
        limits="Cycles that one ops adds to a call of a function of one argument, measured natively, warm, in user mode. Machines "
        "are called by their cores.",
        kind="measured",
        machine=MACHINES,
        hypothetical=True,
    ),
)
