"""Do live patching and a direct call share a function: who is let in, who runs in which order, and where does it go on?"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.emulate.machine import RECORD
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ....publish.table import pivot
from ...faults import LIVE_PATCHING, said, since
from ...memo import once
from ...shared.every_release import every_release

NAME = "beside_bpf"
TITLE = "Live patching and a direct call on one function"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
#: What stands beside live patching: a direct call whose ops has no ops_func, and BPF's, which have one; the last begins with fentry
#: alone, and fexit joins when live patching is there, too.
#: Made for a kernel, of which the lab knows what guards a program, or not: where it does not, they are refused all the same.
BESIDE: dict[str, Callable[[bool], Request]] = {
    "no ops_func": lambda _: Direct(),
    "fentry": lambda guarded: Bpf(fentry=1, guarded=guarded),
    "fexit": lambda guarded: Bpf(fexit=1, guarded=guarded),
    "fentry, then fexit": lambda guarded: Bpf(fentry=1, guarded=guarded),
}
JOINED = list(BESIDE)[-1]
ORDERS = ("first", "second")
BOTH, BUSY, NOT_MADE, NONE = "both run", "refused, -EBUSY", "not made by the JIT, -ENOTSUPP", "no direct calls"
#: Faults that kernels had: the first try of a direct call keeps the second one out; a program is not called; live patching is lost.
KEPT, UNCALLED, LOST = "kept out by its own first try, -EBUSY", "no program runs", "the old function runs"
#: Outcome -> its letter in the chart.
LETTERS = {BUSY: "R", NOT_MADE: "J", KEPT: "K", UNCALLED: "N", LOST: "O", BOTH: "B", NONE: "-"}
_REFUSED = {BUSY: theme.NOTHING, NOT_MADE: theme.NOTHING, KEPT: theme.NOTICED}
MEANINGS = {**_REFUSED, UNCALLED: theme.WRONG, LOST: theme.WRONG, BOTH: theme.RIGHT, NONE: theme.PLAIN}
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

    Columns: isa, release, beside (a name of BESIDE), patching ("first" or "second"), outcome (BOTH, with which error the second
    one is refused, a fault of the release's, or NONE), ran (who executed, in the order of the first instruction), went_on
    ("replacement" or "function"), added (instructions of a call, the functions left out, less those of the unhooked call). ran,
    went_on and added are empty or missing where one is refused.
    """
    frame = pd.DataFrame(every_release(_tried)).astype({"added": "Int64"})
    frame[["ran", "went_on"]] = frame[["ran", "went_on"]].fillna("")
    frame.attrs["units"] = UNITS
    return frame


def _tried(isa: str, release: str) -> list[dict[str, object]]:
    """The rows of one release, each of a kernel of its own: what was refused may have left something."""
    items: list[dict[str, object]] = []
    for beside, made in BESIDE.items():
        for order in ORDERS:
            kernel = Kernel(isa, release, meter=RECORD, **releases.faulty(isa, release))
            save = "args" if kernel.features["args"] else "regs"
            patch = Ops(save=save, callback="lab_livepatch", go_to=f"new_{FUNCTION}")
            request = made(bool(kernel.features["bpf"]))
            both = (patch, request) if order == "first" else (request, patch)
            items.append({"beside": beside, "patching": order, **_outcome(kernel, both, beside == JOINED)})
    return items


def _outcome(kernel: Kernel, both: tuple[Request, Request], joined: bool) -> dict[str, object]:
    if not kernel.features["direct"]:
        return {"outcome": NONE}
    idle = kernel.call(FUNCTION, *ARGUMENTS)
    try:
        direct = next(ops for ops in kernel.attach(FUNCTION, *both) if ops.is_direct)
        if joined:
            kernel.modify(direct, Bpf(fentry=1, fexit=1, guarded=bool(kernel.features["bpf"])))
    except TramplabError as e:
        if "any more" in str(e):
            return {"outcome": KEPT}
        return {"outcome": next(refused for refused in (BUSY, NOT_MADE) if _error(refused) in str(e))}
    run = kernel.call(FUNCTION, *ARGUMENTS)
    ran = _order(run)
    went_on = "replacement" if "replacement" in ran and "function" not in ran else "function"
    return {
        "outcome": UNCALLED if "program" not in ran else BOTH if went_on == "replacement" else LOST,
        "ran": ", ".join(ran),
        "went_on": went_on,
        "added": (run.counts.outside - idle.counts.outside).instructions,
    }


def _error(outcome: str) -> str:
    """The error of an outcome, "-EBUSY"; the outcome itself where it has none."""
    return outcome.rpartition(", ")[2]


def _order(run: Run) -> list[str]:
    """The functions that executed, in the order of their first instructions; of the traced one its body, not its patch site."""
    symbols = [run.symbol_of(s.pc) for s in run.steps if run.component_of(s.pc) != "site"]
    return [RUNNING[name] for name in dict.fromkeys(symbols) if name in RUNNING]


def outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per ISA, release and what is beside, in each order where the outcome depends on it in any release."""
    counted = frame.groupby(["isa", "release", "beside"])["outcome"].nunique()
    depends = set(counted[counted > 1].index.get_level_values("beside"))
    lines = [f"{r.beside}; patch {r.patching}" if r.beside in depends else r.beside for r in frame.itertuples()]
    shown = frame.assign(beside=lines).drop_duplicates(["isa", "release", "beside"])
    return shown[["isa", "release", "beside", "outcome", "added"]].reset_index(drop=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and what is beside: instructions added in each release where both run, else the letter of what happens instead."""
    out = outcomes(frame)
    out = out[out["release"].isin(releases.distinct())]
    words = out["added"].astype(str).where(out["outcome"] == BOTH, " " + out["outcome"].map(LETTERS))
    return pivot("said", "release", ("isa", "beside"), total=False)(out.assign(said=words))


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: who ran, and in which order."""
    keys = ["isa", "release", "beside"]
    shown = frame[frame["outcome"] != NONE].assign(ran=lambda d: d["ran"].where(d["ran"] != "", d["outcome"].map(_error)))
    shown = shown.assign(added=shown["added"].astype("string").fillna("-"), beside=shown["beside"].replace(JOINED, "joined"))
    shown["ran"] = shown["ran"].where(shown["outcome"] != KEPT, "-EBUSY, kept")
    shown.attrs["right"] = ["added"]
    return shown[[*keys, "patching", "ran", "added"]]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions added where both run, "x86_64-fentry-v7-2-added"; "first", the first release shown in
    which both run somewhere; "orders-total", how many runs there are in which both were let in, "replaced-total", those that went
    on in the replacement, "lost-isas" and "lost-last", of which ISAs and up to which release the others are; "unasked-total", those
    with a direct call whose ops has no ops_func; and what becomes of both, "x86_64-fentry-outcome" in the newest release and live
    patching first, and "x86_64-fentry-first-v6-4" in any."""
    both, let_in = frame[frame["outcome"] == BOTH], frame[frame["outcome"].isin((BOTH, UNCALLED, LOST))]
    lost = let_in[let_in["went_on"] == "function"]
    values: dict[str, object] = {"first": next((r for r in releases.shown() if (both["release"] == r).any()), "none")}
    values |= {"orders-total": len(let_in), "replaced-total": len(let_in) - len(lost)}
    last = max(lost["release"], key=releases.parse, default="none")
    values |= {"lost-isas": ", ".join(sorted(set(lost["isa"]))), "lost-last": last}
    values["unasked-total"] = int((let_in["beside"] == "no ops_func").sum())
    for r in both[both["patching"] == "first"].itertuples():
        values[f"{r.isa}-{_word(r.beside)}-{r.release.replace('.', '-')}-added"] = int(r.added)
    for r in frame.itertuples():
        values[f"{r.isa}-{_word(r.beside)}-{r.patching}-{r.release.replace('.', '-')}"] = r.outcome
    newest = frame[(frame["release"] == releases.LATEST) & (frame["patching"] == "first")]
    return values | {f"{r.isa}-{_word(r.beside)}-outcome": r.outcome for r in newest.itertuples()}


def _word(beside: str) -> str:
    return "joined" if beside == JOINED else beside.replace(" ", "-")


FIGURES = (
    Figure(
        "fig-beside-bpf",
        "Do live patching and a direct call share a function?",
        chart=lambda frame: heat_map("outcome", "beside", "release", meanings=MEANINGS, letters=LETTERS)(outcomes(frame)),
        table=table,
        alt="A panel per ISA: for each release, what is beside live patching and, where it matters, which of them came first, a "
        "letter for what becomes of them: both run, the second is refused, or a release's fault. The table has the instructions.",
        limits="Emulated: the rules for who is let in are the lab's after kernel/trace/ftrace.c and kernel/bpf/trampoline.c. "
        "Counts of instructions in one call of a three-argument function, less the unhooked call's, without the functions; no "
        f"timing. Live patching is an ops that changes the ip; kernels have it: {since('live_patching')}. "
        f"{said(LIVE_PATCHING)}",
        legend=", ".join(f"{letter}: {outcome.partition(',')[0]}" for outcome, letter in LETTERS.items() if outcome != NONE) + ".",
    ),
)
