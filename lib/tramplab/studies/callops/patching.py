"""Which ways to change what a function calls are safe, whatever threads that call it are in the middle of?"""

from __future__ import annotations

import pandas as pd

from ...analyse.races import explore
from ...analyse.races.executions import Executions
from ...analyse.races.explore import SAFE, THREADS
from ...analyse.races.fetches import MODELS
from ...analyse.races.schemes import SCHEMES
from ...analyse.races.verdicts import FREED, LATE, MISSED, PAIR, STATE, TARGET, TORN
from ...publish.claims.claims import HOLDS
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.chart import heat_map
from ...publish.figures.figure import Figure
from ...publish.said import HYPOTHETICAL, listed
from ..hypothetical import named
from ..once import once

NAME = "patching"
TITLE = "Patching schemes under every interleaving"
UNITS = {"steps": "shortest", "states": "visited", "transitions": "visited"}
#: What a schedule ends with -> its letter; the words are those of analyse/races/verdicts.py.
LETTERS = {SAFE: "s", TARGET: "T", TORN: "M", PAIR: "P", FREED: "F", LATE: "L", MISSED: "N", STATE: "R"}
#: One trampoline for everybody, which knows its ops from a variable; and beside each function a pointer to the ops.
COMMON, CALL_OPS = ("arm64-common", "riscv64-common", "x86_64-common"), ("arm64-call-ops", "riscv64-call-ops")
#: AUIPC and JALR, preempted in between: the two examples of the mail.
EXAMPLES = ("riscv64-pair-preempt", "riscv64-pair-target")
LIMITS = (
    "Emulated: the lab's site, trampoline and C core, one instruction at a time; callbacks return at once. Data are seen by every "
    "CPU in the order in which they are written: what only keeps loads and stores in order is not tested. Threads are not "
    "interrupted inside a call but by what the patcher sends."
)


@once
def rows() -> pd.DataFrame:
    """One row per scheme (analyse/races/schemes.py) and model of fetches, for three threads.

    Columns: scheme, isa, release, hypothetical, fetch, worst (is it what a CPU may do there at worst, on a riscv64 with Ziccif?),
    outcome (SAFE, or the property that is violated), steps (of the shortest schedule that ends so, 0 where none does), states,
    transitions (visited; of one thread alone where one is enough).
    """
    out = []
    for scheme in SCHEMES.values():
        subject = scheme.subject()
        executions = Executions(subject)
        for fetch in MODELS:
            found = explore(subject, THREADS, fetch, executions=executions)
            assert not found.limit, "a scheme that takes longer than its limit decides nothing"
            out.append(
                {
                    "scheme": scheme.name,
                    "isa": scheme.isa,
                    "release": scheme.release,
                    "hypothetical": bool(scheme.hypothetical),
                    "fetch": fetch,
                    "worst": fetch == scheme.fetch,
                    "outcome": found.violation.which if found.violation else SAFE,
                    "steps": len(found.schedule),
                    "states": found.states,
                    "transitions": found.transitions,
                }
            )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


# -- what is shown


def short(frame: pd.DataFrame) -> pd.DataFrame:
    """As charts name them: without the ISA in front, and with the mark of what no kernel has."""
    out = named(frame, "scheme")
    names = [scheme.removeprefix(f"{isa}-") for scheme, isa in zip(out["scheme"], out["isa"], strict=True)]
    return out.assign(scheme=names)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per scheme: its outcome under each model, and how much was visited under the worst that holds there."""
    words = named(frame, "scheme")
    wide = words.pivot(index="scheme", columns="fetch", values="outcome")[list(MODELS)]
    worst = words[words["worst"]].set_index("scheme")
    out = wide.loc[list(worst.index)].join(worst[["steps", "states"]]).reset_index()
    out.columns = [str(c) for c in out.columns]
    out.attrs["units"] = UNITS
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


def worst_of(frame: pd.DataFrame) -> pd.Series:
    """Scheme -> outcome, under what a CPU may do there at worst."""
    return frame[frame["worst"]].set_index("scheme")["outcome"]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: schemes in all and those that are safe, "schemes-total", "schemes-safe"; states and transitions
    that were visited, under the worst model, for the safe ones together, "states-total", "transitions-total"; of each scheme
    the steps of its worst schedule, "riscv64-pair-preempt-steps"."""
    some = frame[frame["worst"]]
    safe = some[some["outcome"] == SAFE]
    out: dict[str, object] = {"schemes-total": len(some), "schemes-safe": len(safe)}
    out |= {"states-total": f"{int(safe['states'].sum()):,}", "transitions-total": f"{int(safe['transitions'].sum()):,}"}
    return out | {f"{r.scheme}-steps": r.steps for r in some.itertuples() if r.steps}


def answer(frame: pd.DataFrame) -> str:
    """Which are safe, and which are not."""
    some = named(frame[frame["worst"]], "scheme")
    good = some[some["outcome"] == SAFE]["scheme"]
    bad = [f"{r.scheme} ({r.outcome}, {r.steps} steps)" for r in some[some["outcome"] != SAFE].itertuples()]
    torn = frame[(frame["fetch"] == TORN) & (frame["outcome"] == TORN) & ~frame["worst"]]
    without = listed(named(torn, "scheme")["scheme"])
    return (
        f"Safe, whatever three threads are in the middle of: {listed(good)}. Not safe: {listed(bad)}."
        + f" Where one fetch may find half of an instruction, {without} break too." * bool(without)
    )


# -- claims


def _said(frame: pd.DataFrame, schemes: tuple[str, ...]) -> str:
    some = frame[frame["worst"] & frame["scheme"].isin(schemes)]
    ends = {r.scheme: f"ends in '{r.outcome}' after {r.steps} steps" if r.steps else "is safe" for r in some.itertuples()}
    return listed(f"{name} {how}" for name, how in ends.items())


@judges("r3")
def patched_at_any_time(frame: pd.DataFrame | None = None) -> Verdict:
    """On arm64, with a pointer beside the function, no interleaving reaches a bad state, whatever a CPU may fetch."""
    frame = rows() if frame is None else frame
    some = frame[frame["scheme"] == "arm64-call-ops"]
    kind, on = across(some.assign(truth=some["outcome"] == SAFE), {"fetch": "what a CPU may fetch"})
    visited = some[some["worst"]].iloc[0]
    found = "none is bad" if kind == HOLDS else "some are bad"
    because = (
        f"Ops come and go and threads call: of {visited['states']} states and {visited['transitions']} steps of three threads, "
        f"reduced, {found}, under each of the {len(some)} models of what a CPU may fetch."
    )
    return Verdict(kind, because, {"states": int(visited["states"]), "transitions": int(visited["transitions"])}, on)


@judges("r4")
def preempted_between(frame: pd.DataFrame | None = None) -> Verdict:
    """Both examples end with a jump to where nobody wanted to go; where no thread is preempted there, none does."""
    frame = rows() if frame is None else frame
    some = frame[frame["scheme"].isin((*EXAMPLES, "riscv64-pair"))]
    truth = (some["outcome"] == TARGET) == some["scheme"].isin(EXAMPLES)
    kind, on = across(some[some["worst"]].assign(truth=truth), {"scheme": "the example"})
    because = (
        f"{_said(frame, EXAMPLES)}: a jump to where neither the old nor the new site leads. {_said(frame, ('riscv64-pair',))}, as "
        f"nobody is preempted in it. {HYPOTHETICAL}"
    )
    steps = some[some["worst"]].set_index("scheme")["steps"]
    return Verdict(kind, because, {f"{name} steps": int(steps[name]) for name in EXAMPLES}, on)


@judges("r8")
def auipc_at_boot(frame: pd.DataFrame | None = None) -> Verdict:
    """With the AUIPC written once, preemption between the two is no harm, where with both written it is."""
    frame = rows() if frame is None else frame
    found = worst_of(frame)
    both = pd.DataFrame({"truth": [found["riscv64-fixed-auipc"] == SAFE, found["riscv64-pair-preempt"] != SAFE], "all": "all"})
    kind, on = across(both, {"all": ""})
    pair = "riscv64-pair-preempt", "riscv64-fixed-auipc"
    because = f"In a preemptible kernel, {_said(frame, pair)}, without stopping the machine."
    return Verdict(kind, because, {name: found[name] for name in pair}, on)


@judges("r13")
def generic_trampoline(frame: pd.DataFrame | None = None) -> Verdict:
    """With a common trampoline a function is called with another's ops, even where all CPUs see all text at once; with CALL_OPS
    not."""
    frame = rows() if frame is None else frame
    some = frame[frame["scheme"].isin((*COMMON, *CALL_OPS))]
    truth = (some["outcome"] == PAIR) == some["scheme"].isin(COMMON)
    kind, on = across(some[some["worst"]].assign(truth=truth), {"scheme": "the scheme"})
    because = f"One ops is there, another comes, the first goes: {_said(frame, COMMON)}; {_said(frame, CALL_OPS)}."
    steps = some[some["worst"]].set_index("scheme")["steps"]
    return Verdict(kind, because, {f"{name} steps": int(steps[name]) for name in COMMON}, on)


FIGURES = (
    Figure(
        "fig-patching",
        "Which patching schemes are safe, whatever threads are in the middle of?",
        chart=lambda frame: heat_map("outcome", rows="scheme", columns="fetch", letters=LETTERS)(short(frame)),
        table=table,
        answer=answer,
        alt="A panel per ISA: for each scheme, and for each model of what a CPU may fetch, a letter: s where every interleaving of "
        "three threads with the patcher's steps is safe, else the property that the shortest bad one violates.",
        limits=f"{LIMITS} {HYPOTHETICAL}",
    ),
)
