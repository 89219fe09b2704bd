"""Do live patching and a direct call share a function: who is let in, who runs in which order, and where does it go on?"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from ....base.errors import TramplabError
from ....emulate.machine import RECORD
from ....ftrace import releases
from ....ftrace.ops import Request
from ....lab.kernel import Kernel
from ....lab.run import Run
from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ....publish.table import pivot
from ....trampolines.bpf import Bpf
from ....trampolines.direct import Direct
from ....trampolines.plain import Ops
from ...faults import LIVE_PATCHING, MARK, said, since
from ...memo import once
from ...shared.every_release import every_release

NAME = "beside_bpf"
TITLE = "Live patching and a direct call on one function"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: What stands beside live patching: a direct call whose ops has no ops_func, and BPF's, which have one.
#: Made for a kernel, of which the lab knows what guards a program, or not: where it does not, they are refused all the same.
BESIDE: dict[str, Callable[[bool], Request]] = {
    "no ops_func": lambda _: Direct(),
    "fentry": lambda guarded: Bpf(fentry=1, guarded=guarded),
    "fexit": lambda guarded: Bpf(fexit=1, guarded=guarded),
}
ORDERS = ("first", "second")
BOTH, BUSY, NOT_MADE, NONE = "both run", "refused, -EBUSY", "not made by the JIT, -ENOTSUPP", "no direct calls"
#: Outcome -> its letter in the chart.
LETTERS = {BUSY: "R", NOT_MADE: "J", BOTH: "B", NONE: "-"}
MEANINGS = {BUSY: theme.NOTHING, NOT_MADE: theme.NOTHING, BOTH: theme.RIGHT, NONE: theme.PLAIN}
#: Guest symbol -> what it is called here.
RUNNING = {
    "lab_livepatch": "live patching",
    "lab_direct_callback": "program",
    "lab_bpf_count": "program",
    f"new_{FUNCTION}": "replacement",
    FUNCTION: "function",
}
UNITS = {"added": "insns"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, what is beside live patching, and whether live patching comes first or second.

    Columns: isa, release, beside (a name of BESIDE), patching ("first" or "second"), outcome (BOTH, or with which error the second
    one is refused, or NONE), ran (who executed, in the order of the first instruction), went_on ("replacement" or "function"),
    added (instructions of a call, the functions left out, less those of the unhooked call), broken (what under `broken` in
    data/releases.yml kernels of this release did instead, "" where they did this). ran, went_on and added are empty or missing
    where they do not both run.
    """
    frame = pd.DataFrame(every_release(_tried)).astype({"added": "Int64"})
    frame[["ran", "went_on"]] = frame[["ran", "went_on"]].fillna("")
    frame.attrs["units"] = UNITS
    return frame


def _tried(isa: str, release: str) -> list[dict[str, object]]:
    """The rows of one kernel."""
    kernel = Kernel(isa, release, meter=RECORD)
    items: list[dict[str, object]] = []
    idle = kernel.call(FUNCTION, *ARGUMENTS)
    save = "args" if kernel.features["args"] else "regs"
    for beside, made in BESIDE.items():
        request = made(bool(kernel.features["bpf"]))
        for order in ORDERS:
            patch = Ops(save=save, callback="lab_livepatch", go_to=f"new_{FUNCTION}")
            both = (patch, request) if order == "first" else (request, patch)
            tried = {"beside": beside, "patching": order, **_outcome(kernel, both, idle)}
            items.append({**tried, "broken": _broken(isa, release, beside, order) if tried["outcome"] == BOTH else ""})
    return items


def _broken(isa: str, release: str, beside: str, order: str) -> str:
    """The use that kernels of a release have broken, of those that this is a case of: a direct call beside an ops, and fexit after
    a live patch."""
    uses = ("direct_beside_ops", *(["live_patch_then_fexit"] if (beside, order) == ("fexit", "first") else []))
    return next((use for use in uses if releases.broken(isa, release, use)), "")


def _outcome(kernel: Kernel, both: tuple[Request, Request], idle: Run) -> dict[str, object]:
    if not kernel.features["direct"]:
        return {"outcome": NONE}
    function = kernel.function(FUNCTION)
    with kernel.attached(function, both[0]):
        try:
            second = kernel.attach(function, both[1])
        except TramplabError as e:
            return {"outcome": next(refused for refused in (BUSY, NOT_MADE) if _error(refused) in str(e))}
        run = kernel.call(function, *ARGUMENTS)
        kernel.detach(*second)
    ran = _order(run)
    return {
        "outcome": BOTH,
        "ran": ", ".join(ran),
        "went_on": "replacement" if "replacement" in ran and "function" not in ran else "function",
        "added": (run.counts.outside - idle.counts.outside).instructions,
    }


def _error(outcome: str) -> str:
    """The error of an outcome: "-EBUSY"."""
    return outcome.rpartition(" ")[2]


def _order(run: Run) -> list[str]:
    """Who executed, in the order of the first instruction; of the function its own body, not its patch site."""
    symbols = [run.symbol_of(s.pc) for s in run.steps if run.component_of(s.pc) != "site"]
    return [RUNNING[name] for name in dict.fromkeys(symbols) if name in RUNNING]


def outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per ISA, release and what is beside: what becomes of it in either order, which must be the same, and what kernels
    have broken of the order in which live patching is first."""
    keys = ["isa", "release", "beside"]
    found = frame.groupby(keys, sort=False)
    if (found["outcome"].nunique() > 1).any():
        raise TramplabError("the outcome depends on who comes first: show both orders.")
    return found.first().reset_index()[[*keys, "outcome", "added", "broken"]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and what is beside: instructions added in each release where both run, marked where kernels have that broken, else
    the error that the second gets."""
    out = outcomes(frame)
    out = out[out["release"].isin(releases.distinct())]
    words = (out["added"].astype(str) + _marks(out)).where(out["outcome"] == BOTH, out["outcome"].replace(NONE, " -").map(_error))
    return pivot("said", "release", ("isa", "beside"), total=False)(out.assign(said=words))


def _marks(frame: pd.DataFrame) -> pd.Series:
    return frame["broken"].map(lambda use: MARK if use else "")


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: who ran, and in which order."""
    keys = ["isa", "release", "beside"]
    shown = frame[frame["outcome"] != NONE].assign(ran=lambda d: d["ran"].where(d["ran"] != "", d["outcome"].map(_error)))
    shown = shown.assign(added=shown["added"].astype("string").fillna("-") + _marks(shown))
    shown.attrs["right"] = ["added"]
    return shown[[*keys, "patching", "ran", "added"]]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions added where both run, "x86_64-fentry-v7-2-added"; "first", the first release shown in
    which both run somewhere; "orders-total", how many runs there are of both, "replaced-total", those that went on in the
    replacement, and "unasked-total", those with a direct call whose ops has no ops_func; and what becomes of both in the
    newest release, "x86_64-fentry-outcome"."""
    both = frame[frame["outcome"] == BOTH]
    values: dict[str, object] = {"first": next((r for r in releases.shown() if (both["release"] == r).any()), "none")}
    values |= {"orders-total": len(both), "replaced-total": int((both["went_on"] == "replacement").sum())}
    values["unasked-total"] = int((both["beside"] == "no ops_func").sum())
    for r in both[both["patching"] == "first"].itertuples():
        values[f"{r.isa}-{r.beside.replace(' ', '-')}-{r.release.replace('.', '-')}-added"] = int(r.added)
    newest = frame[(frame["release"] == releases.LATEST) & (frame["patching"] == "first")]
    return values | {f"{r.isa}-{r.beside.replace(' ', '-')}-outcome": r.outcome for r in newest.itertuples()}


FIGURES = (
    Figure(
        "fig-beside-bpf",
        "Do live patching and a direct call share a function?",
        chart=lambda frame: heat_map("outcome", "beside", "release", meanings=MEANINGS, letters=LETTERS)(outcomes(frame)),
        table=table,
        alt="A panel per ISA: for each release and each kind of direct call beside live patching, a letter for what becomes of the "
        "second of the two: both run, or the error it gets. The table below has the same, with instructions.",
        limits="Emulated: the rules for who is let in are the lab's after kernel/trace/ftrace.c and kernel/bpf/trampoline.c. "
        "Counts of instructions in one call of a three-argument function, less the unhooked call's, without the functions; no "
        f"timing. Live patching is an ops that changes the ip; kernels have it: {since('live_patching')}. "
        f"{said(LIVE_PATCHING)}",
        legend=f"{MARK}: counted as it was meant to work; kernels of that release had it broken.",
    ),
)
