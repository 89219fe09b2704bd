"""Can a function be replaced by changing only the instruction pointer, and what does each save set make of it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...analyse.returnstack import replay
from ...emulate.counts import COMPONENTS
from ...emulate.machine import COUNT, RECORD
from ...ftrace import releases
from ...isa import ISAS
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...publish.claims.verdict import BY_ISA, Verdict, across, judges
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...trampolines.plain import Ops
from ..once import once
from .patched_calls import CALLS, passed, result

NAME = "live_patching"
TITLE = "A function replaced through the instruction pointer"
#: What is attached -> callback, and save set. "call": the replacement comes back to a given place before the caller has it.
CASES = {
    "ip": ("lab_livepatch", "ip"),
    "ip+sp": ("lab_livepatch", "ip+sp"),
    "ip+sp, call": ("lab_call_instead", "ip+sp"),
    "args": ("lab_livepatch", "args"),
    "all": ("lab_livepatch", "own-regs"),
}
KERNELS = {"regs": ("lab_livepatch", "regs")}
OUTSIDE = tuple(c for c in COMPONENTS if c != "function")
UNITS = dict.fromkeys(OUTSIDE, "insns") | {"written": "B"}
#: The function whose costs are shown, and a core of each ISA to estimate for.
SHOWN, CORES = "three_args", ("skylake", "cortex-a72", "sifive-u74")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and what is attached, to each traced function in turn: do calls do what the replacement does?

    Columns: isa, release, save (a name of CASES; "regs" in the last release shown that has it), plain and plain_right (functions
    without arguments on the stack, and those of them whose caller gets what the replacement gives), stacked and stacked_right
    (the others), came_back (calls that came back to the given place); of a call of SHOWN also own and outer (mispredicted
    returns in the call and above it), written (bytes of the frame), and instructions by component, the functions left out.
    """
    frame = pd.DataFrame([_row(kernel, save, *case) for kernel, cases in _kernels() for save, case in cases.items()])
    frame.attrs["units"] = UNITS
    return frame


def _kernels() -> Iterator[tuple[Kernel, dict[str, tuple[str, str]]]]:
    """What is booted, and the cases that are tried there."""
    newest = releases.LATEST
    for isa in ISAS.values():
        with_regs = [r for r in releases.shown() if releases.features(isa, r, {})["regs"]][-1]
        if with_regs == newest:
            yield Kernel(isa.name, newest, meter=RECORD), {**CASES, **KERNELS}
        else:
            yield Kernel(isa.name, newest, meter=RECORD), CASES
            yield Kernel(isa.name, with_regs, meter=RECORD), KERNELS


def _row(kernel: Kernel, save: str, callback: str, saved: str) -> dict[str, object]:
    run = _call(kernel, SHOWN, callback, saved)
    kernel.machine.set_meter(COUNT)  # of the rest only the results are looked at
    returns = kernel.image.address("lab_returns")
    before = kernel.machine.read_u64(returns)
    tally: Counter[str] = Counter()
    for name in CALLS:
        made = passed(kernel, name)
        kind = "stacked" if kernel.passed(made.arguments, {})[1] else "plain"
        wanted = result(kernel, made, kernel.image.address(f"new_{name}"))
        with kernel.attached(kernel.function(name), _ops(name, callback, saved)):
            tally[kind] += 1
            tally[f"{kind}_right"] += result(kernel, made, kernel.function(name).address) == wanted
    kernel.machine.set_meter(RECORD)
    replayed = replay(run)
    return {
        "isa": kernel.isa.name,
        "release": kernel.features.release,
        "save": save,
        **{k: tally[k] for k in ("plain", "plain_right", "stacked", "stacked_right")},
        "came_back": kernel.machine.read_u64(returns) - before,
        "own": replayed.own,
        "outer": replayed.outer,
        "written": run.frame.written,
        **{c: run.counts.by_component[c].instructions for c in OUTSIDE},
    }


def _ops(name: str, callback: str, saved: str) -> Ops:
    return Ops(save=saved, callback=callback, go_to=f"new_{name}")


def _call(kernel: Kernel, name: str, callback: str, saved: str) -> Run:
    """One call of a function that is replaced so."""
    made = passed(kernel, name)
    with kernel.attached(kernel.function(name), _ops(name, callback, saved)):
        return kernel.call(name, *made.arguments, registers=made.registers)


@once
def estimates() -> pd.DataFrame:
    """What a replaced call takes less than with all registers: columns isa, core, save, cycles, low, high; newest release."""
    out = []
    for model in map(core, CORES):
        kernel = Kernel(model.isa, meter=RECORD)
        runs = {save: _call(kernel, SHOWN, *CASES[save]) for save in ("ip", "args", "all")}
        for save in ("ip", "args"):
            e = cycles.estimate(runs["all"], runs[save], model)
            out.append(
                {"isa": model.isa, "core": model.name, "save": save, "cycles": e.mid, "low": e.low, "high": e.high}
            )
    return pd.DataFrame(out)


def bars(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per component; releases but the newest are named."""
    part = frame.assign(order=range(len(frame)))
    old = part["release"] != releases.LATEST
    part["save"] = part["save"].where(~old, part["save"] + ", " + part["release"])
    part = part.melt(["isa", "save", "order"], list(OUTSIDE), var_name="component", value_name="instructions")
    return part.sort_values("order", kind="stable")


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA, release and what is attached: functions that were replaced rightly, and one call of SHOWN."""

    def part(kind: str) -> pd.Series:
        return frame[f"{kind}_right"].astype(str) + "/" + frame[kind].astype(str)

    out = frame[["isa", "release", "save"]].assign(
        right=part("plain"),
        stacked=part("stacked"),
        missed=frame["own"].astype(str) + "+" + frame["outer"].astype(str),
        written=frame["written"],
        total=frame[list(OUTSIDE)].sum(axis=1),
    )
    out.attrs["units"] = {"total": "insns", "written": "B", "missed": "returns"}
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: instructions around a call, like "x86_64-ip" or "arm64-regs"; "functions", how many there are;
    "x86_64-stacked", those with arguments on the stack; "missed", mispredicted returns of a call that goes on elsewhere, and
    "x86_64-call-missed", of one that comes back; "skylake-ip", estimated cycles less than with all."""
    out: dict[str, object] = {"functions": int((frame["plain"] + frame["stacked"]).iloc[0])}
    for r in table(frame).itertuples():
        out[f"{r.isa}-{r.save.replace(', ', '-').replace('+', '-')}"] = int(r.total)
        out[f"{r.isa}-{r.save.replace(', ', '-').replace('+', '-')}-release"] = r.release
    for r in frame[frame["save"] == "ip+sp, call"].itertuples():
        out |= {f"{r.isa}-stacked": r.stacked, f"{r.isa}-call-missed": r.own}
    out["missed"] = " or ".join(map(str, sorted(set(frame[frame["save"] != "ip+sp, call"]["own"]))))
    for r in estimates().itertuples():
        out[f"{r.core}-{r.save}"] = round(r.cycles)
    return out


@judges("v6")
def ip_is_enough_for_live_patching(frame: pd.DataFrame | None = None) -> Verdict:
    """Showing ip alone replaces every function, for less than all registers cost; showing sp, too, lets a function be called."""
    frame = rows() if frame is None else frame
    cost = frame.assign(total=frame[list(OUTSIDE)].sum(axis=1)).set_index(["isa", "save"])["total"].to_dict()
    ip, call = (frame[frame["save"] == save] for save in ("ip", "ip+sp, call"))
    cheaper = ip["isa"].map(lambda isa: cost[isa, "ip"] < cost[isa, "all"])
    serves = (ip["plain_right"] == ip["plain"]) & (ip["stacked_right"] == ip["stacked"]) & cheaper
    returns = (call["plain_right"] == call["plain"]) & (call["came_back"] == call["plain"] + call["stacked"])
    kind, on = across(pd.concat([ip.assign(truth=serves), call.assign(truth=returns)]), BY_ISA)
    names = {isa: isa.replace("x86_64", "x86-64") for isa in ip["isa"]}
    costs = "; ".join(f"{cost[i, 'ip']}, {cost[i, 'args']} and {cost[i, 'all']} on {name}" for i, name in names.items())
    replaced, tried = (int(ip[f"plain{s}"].sum() + ip[f"stacked{s}"].sum()) for s in ("_right", ""))
    because = (
        f"Through a trampoline that shows its callback nothing but ip, {replaced} of {tried} functions were replaced (all ISAs "
        f"together). Instructions around one such call, with ip alone, with ftrace_regs and with all registers: {costs}. With "
        f"sp and the return address shown, too, the replacement could be called and come back in "
        f"{call['plain_right'].sum()} of {call['plain'].sum()} functions that take no argument on the stack, and in "
        f"{call['stacked_right'].sum()} of {call['stacked'].sum()} that do: a return address pushed there moves those away."
    )
    shown = (("ip", "ip alone"), ("args", "ftrace_regs"), ("all", "all registers"))
    values = {f"{name}, {words}": int(cost[isa, save]) for isa, name in names.items() for save, words in shown}
    return Verdict(kind, because, values, on)


FIGURES = (
    Figure(
        "fig-live-patching",
        "What does a call cost that goes on in another function?",
        chart=lambda frame: stacked_bars("instructions", bars=("save",))(bars(frame)),
        table=table,
        alt="Bars per ISA: instructions around one call that is sent on to another function, one bar per save set, split into "
        "site, trampoline, core and callback. The table below has every number.",
        limits="Emulated counts of instructions in one call of a three-argument function, without the functions themselves; no "
        "timing. ip, ip+sp and all: trampolines that no kernel has.",
    ),
)
