"""Can a function be replaced by changing only the instruction pointer, and what does each save set make of it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.emulate.counting.counts import COMPONENTS
from tramplab.emulate.machine import COUNT, RECORD
from tramplab.estimate.returnstack import replay
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.patched_calls import CALLS, passed, result
from tramplab.lab.run import Run
from tramplab.trampolines.plain import Ops
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.saved import saved

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ...shared.order import largest_first

#: The hook of real kernels.
PATCH = "livepatch"
NAME = "live_patching"
TITLE = "A function replaced through the instruction pointer"
#: What is attached -> callback, and save set; the kernels' own first. "call": the replacement comes back to a given place before
#: the caller has it.
CASES = {
    "args": ("lab_livepatch", "args"),
    "ip": ("lab_livepatch", "ip"),
    "ip+sp": ("lab_livepatch", "ip+sp"),
    "ip+sp, call": ("lab_call_instead", "ip+sp"),
    "all": ("lab_livepatch", "own-regs"),
}
KERNELS = {"regs": ("lab_livepatch", "regs")}
#: The save sets that a release has; the others are hypothetical.
REAL = ("args", "regs")
OUTSIDE = tuple(c for c in COMPONENTS if c != "function")
UNITS = dict.fromkeys(OUTSIDE, "insns") | {"written": "B", "added": "insns"}
#: The function whose costs are shown.
SHOWN = "three_args"


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release and what is attached, to each traced function in turn: do calls do what the replacement does?

    Columns: isa, release, save (a name of CASES; "regs" in the last release shown that has it), hypothetical (no kernel has it),
    plain and plain_right (functions without arguments on the stack, and those of them whose caller gets what the replacement
    gives), stacked and stacked_right (the others), came_back (calls that came back to the given place), shares (is a further
    ops on the function let in, and is it still replaced?); of a call of SHOWN also own and outer (mispredicted returns in the
    call, and of the `callers` above it), written (bytes of the frame), instructions by component, the functions left out, and
    added (their sum, less that of the unhooked call).
    """
    frame = pd.DataFrame([_row(kernel, save, *case) for kernel, cases in _kernels() for save, case in cases.items()])
    frame.attrs["units"] = UNITS
    return frame


def _kernels() -> Iterator[tuple[Kernel, dict[str, tuple[str, str]]]]:
    """Each kernel that is booted, and the cases that are tried there."""
    newest = releases.LATEST
    for isa in ISAS.values():
        with_regs = [r for r in releases.shown() if releases.features(isa, r, {})["regs"]][-1]
        if with_regs == newest:
            yield Kernel(isa.name, newest, meter=RECORD), {"args": CASES["args"], **KERNELS, **CASES}
        else:
            yield Kernel(isa.name, newest, meter=RECORD), CASES
            yield Kernel(isa.name, with_regs, meter=RECORD), KERNELS


def _row(kernel: Kernel, save: str, callback: str, saved: str) -> dict[str, object]:
    idle = kernel.call(SHOWN, *passed(kernel, SHOWN).arguments).counts
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
    came_back = kernel.machine.read_u64(returns) - before
    shares = _shares(kernel, callback, saved)
    kernel.machine.set_meter(RECORD)
    replayed = replay(run)
    by = {c: run.counts.by_component[c].instructions for c in OUTSIDE}
    return {
        "isa": kernel.isa.name,
        "release": kernel.features.release,
        "save": save,
        "hypothetical": save not in REAL,
        **{k: tally[k] for k in ("plain", "plain_right", "stacked", "stacked_right")},
        "came_back": came_back,
        "shares": shares,
        "own": replayed.own,
        "outer": replayed.outer,
        "callers": replayed.callers,
        "written": run.frame.written,
        **by,
        "added": (run.counts.outside - idle.outside).instructions,
    }


def _shares(kernel: Kernel, callback: str, saved: str) -> bool:
    """Does it replace a function that a further ops wants, too, and does that one see the call?"""
    made, function = passed(kernel, SHOWN), kernel.function(SHOWN)
    wanted = result(kernel, made, kernel.image.address(f"new_{SHOWN}"))
    try:
        with kernel.attached(function, _ops(SHOWN, callback, saved), Ops(save="regs" if saved == "regs" else "args")):
            run = kernel.call(function, *made.arguments, registers=made.registers)
            return run.hits == (1, 1) and result(kernel, made, function.address) == wanted
    except TramplabError:  # it must be alone
        return False


def _ops(name: str, callback: str, saved: str) -> Ops:
    return Ops(save=saved, callback=callback, go_to=f"new_{name}")


def _call(kernel: Kernel, name: str, callback: str, saved: str) -> Run:
    """A call of a function that is replaced by a callback with a save set."""
    made = passed(kernel, name)
    with kernel.attached(kernel.function(name), _ops(name, callback, saved)):
        return kernel.call(name, *made.arguments, registers=made.registers)


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with what is attached as readers see it: what no kernel has is marked."""
    return frame.assign(save=[marked(r.save, r.hypothetical) for r in frame.itertuples()])


def bars(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per component of what is attached in the newest release: instructions added. Of the components the unhooked call
    has the site's NOPs alone, and they are in `site`. Components that add nothing anywhere are left out."""
    part = named(frame[frame["release"] == releases.LATEST]).reset_index(drop=True).assign(order=lambda d: d.index)
    part["site"] -= part[list(OUTSIDE)].sum(axis=1) - part["added"]
    part = part.melt(["isa", "save", "order"], list(OUTSIDE), var_name="component", value_name="instructions")
    counted = part.groupby("component")["instructions"].transform("max") > 0
    return part[counted].sort_values("order", kind="stable")


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA, release and what is attached: functions that were replaced correctly, and one call of SHOWN."""

    def part(kind: str) -> pd.Series:
        return frame[f"{kind}_right"].astype(str) + "/" + frame[kind].astype(str)

    printed = named(frame)[["isa", "release", "save"]].assign(
        right=part("plain"),
        stacked=part("stacked"),
        shares=frame["shares"],
        missed=frame["own"].astype(str) + "+" + frame["outer"].astype(str),
        written=frame["written"],
        added=frame["added"],
    )
    printed.attrs["units"] = {"added": "insns", "written": "B", "missed": "returns"}
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions added to a call, like "x86_64-ip-added" or "arm64-regs-added", with "-right",
    functions that were replaced, and "-shares", is a further ops let in; "functions-total", how many there are;
    "x86_64-stacked-total", those with arguments on the stack, and "-stacked-right", those of them that find their arguments where
    the stack is changed; "missed-total" and "missed-outer", mispredicted returns of a call that goes on elsewhere, and of its
    callers; of one that comes back "call-missed-total", and of the callers above, "callers-total", "call-missed-outer". And what a
    live patch adds to a function of one argument in Debian's newest kernel for x86-64: "image-added", of these "image-handler" its
    handler's; in the lab "image-lab-added"."""
    values: dict[str, object] = {"functions-total": int((frame["plain"] + frame["stacked"]).iloc[0])}
    for r in frame.itertuples():
        name = f"{r.isa}-{r.save.replace(', ', '-').replace('+', '-')}"
        values |= {f"{name}-added": int(r.added), f"{name}-right": int(r.plain_right + r.stacked_right)}
        values[f"{name}-shares"] = "yes" if r.shares else "no"
    called = frame[frame["save"] == "ip+sp, call"]
    for r in called.itertuples():
        values |= {f"{r.isa}-stacked-total": r.stacked, f"{r.isa}-stacked-right": r.stacked_right}
    rest = frame[frame["save"] != "ip+sp, call"]
    values |= {"missed-total": _alternatives(rest["own"]), "missed-outer": int(rest["outer"].max())}
    values |= {"call-missed-total": _alternatives(called["own"]), "call-missed-outer": _alternatives(called["outer"])}
    values["callers-total"] = _alternatives(called["callers"])
    return values | _in_image()


def _in_image() -> dict[str, object]:
    kernel = saved.nearest("x86_64", releases.LATEST)
    counted = next(row for row in kernel["hooks"] if row["hook"] == PATCH)
    overrides = beside.overrides(kernel["kernel"])
    return {
        "image-added": saved.added("x86_64", releases.LATEST, PATCH),
        "image-handler": counted["symbols"]["klp_ftrace_handler"][0],
        "image-lab-added": beside.added("x86_64", releases.LATEST, PATCH, *overrides, args=1),
    }


def _alternatives(values: pd.Series) -> str:
    """Different values, in order.

    >>> _alternatives(pd.Series([3, 1, 3]))
    '1 or 3'
    """
    return " or ".join(map(str, sorted(set(values))))


FIGURES = (
    Figure(
        "fig-live-patching",
        "What does live patching add to a call, by what the trampoline saves?",
        chart=lambda frame: stacked_bars("instructions", bars=("save",))(largest_first(bars(frame), "save", "instructions")),
        table=table,
        alt="Bars per ISA: instructions added to a call that is sent on to another function, one bar per save set, the kernels' "
        "own first, split into site, trampoline, core and callback. The table below has every number.",
        limits="Emulated counts of instructions in one call of a three-argument function, less the unhooked call's, without the "
        "functions themselves; no timing.",
        legend="Pairs: what came out right / what was tried; mispredicted returns in the call + of its callers.",
        hypothetical=True,
    ),
)
