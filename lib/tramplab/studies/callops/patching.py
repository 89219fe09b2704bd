"""Which ways to change what a function calls are safe, whatever threads that call it are in the middle of?"""

from __future__ import annotations

import pandas as pd

from ...isa import ISAS
from ...publish.claims.verdict import Verdict, across, judges
from ...publish.figures.chart import heat_map, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import HYPOTHETICAL, isa_name, listed
from ...races import explore
from ...races.explore import SAFE, THREADS
from ...races.model.executions import Executions
from ...races.model.fetches import MODELS
from ...races.model.verdicts import FREED, LATE, MISSED, PAIR, STATE, TARGET, TORN
from ...races.schemes.schemes import SCHEMES
from ..memo import once
from ..shared.hypothetical import named

NAME = "patching"
TITLE = "Patching schemes under every interleaving"
UNITS = {"steps": "shortest", "states": "visited", "transitions": "visited"}
#: What a schedule ends with -> its letter; the words are those of races/model/verdicts.py.
LETTERS = {SAFE: "s", TARGET: "T", TORN: "M", PAIR: "P", FREED: "F", LATE: "L", MISSED: "N", STATE: "R"}
MEANINGS = {SAFE: theme.RIGHT, **dict.fromkeys((TARGET, TORN, PAIR, FREED, LATE, MISSED, STATE), theme.WRONG)}
#: Scheme -> what it is called where a reader meets it, beside its ISA.
LABELS = {
    "arm64-bl": "BL or NOP",
    "arm64-common": "BL or NOP, shared trampoline",
    "arm64-call-ops": "CALL_OPS",
    "riscv64-pair": "AUIPC/JALR, not preemptible",
    "riscv64-pair-preempt": "AUIPC/JALR, preemptible",
    "riscv64-pair-target": "AUIPC/JALR to another target, preemptible",
    "riscv64-trap": "AUIPC/JALR under a breakpoint",
    "riscv64-saved-pc": "AUIPC/JALR, threads put back",
    "riscv64-fixed-auipc": "AUIPC at boot, JALR or NOP",
    "riscv64-common": "AUIPC at boot, shared trampoline",
    "riscv64-call-ops": "CALL_OPS",
    "x86_64-int3": "CALL or NOP under a breakpoint",
    "x86_64-store": "CALL or NOP, one store",
    "x86_64-store-crossing": "CALL or NOP, one store, unaligned",
    "x86_64-common": "under a breakpoint, shared trampoline",
}
#: One trampoline for all ops, which finds its ops in a variable; and beside each function a pointer to the ops.
COMMON, CALL_OPS = ("arm64-common", "riscv64-common", "x86_64-common"), ("arm64-call-ops", "riscv64-call-ops")
#: AUIPC and JALR, preempted in between: the two examples of the mail.
EXAMPLES = ("riscv64-pair-preempt", "riscv64-pair-target")
LIMITS = (
    "Emulated: the lab's site, trampoline and C core, one instruction at a time; callbacks return at once. Data are seen by every "
    "CPU in the order in which they are written: what only keeps loads and stores in order is not tested. Threads are not "
    "interrupted inside a call but by what the patcher sends."
)


def labelled(scheme: str) -> str:
    """A scheme in words, behind its ISA.

    >>> labelled("riscv64-call-ops")
    'riscv64: CALL_OPS'
    """
    return f"{isa_name(scheme.partition('-')[0])}: {LABELS[scheme]}"


@once
def rows() -> pd.DataFrame:
    """One row per scheme (races/schemes/schemes.py) and model of fetches, for three threads.

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


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """As the chart names them, in words, with the mark of what no kernel has; on each ISA those come last."""
    out = frame.sort_values("hypothetical", kind="stable").assign(scheme=lambda part: part["scheme"].map(LABELS))
    return named(out.sort_values("isa", key=lambda isas: isas.map(list(ISAS).index), kind="stable"), "scheme")


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


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: schemes in all and those that are safe, "schemes-total", "schemes-safe"; states and transitions
    that were visited, under the worst model, for the safe ones together, "states-total", "transitions-total"; of each scheme
    the steps of its worst schedule, "riscv64-pair-preempt-steps", and how it ends by model of fetches, "riscv64-pair-torn"."""
    some = frame[frame["worst"]]
    safe = some[some["outcome"] == SAFE]
    out: dict[str, object] = {"schemes-total": len(some), "schemes-safe": len(safe)}
    out |= {"states-total": f"{int(safe['states'].sum()):,}", "transitions-total": f"{int(safe['transitions'].sum()):,}"}
    out |= {f"{r.scheme}-steps": r.steps for r in some.itertuples() if r.steps}
    return out | {f"{r.scheme}-{r.fetch}": r.outcome for r in frame.itertuples()}


# -- claims


def _said(frame: pd.DataFrame, schemes: tuple[str, ...]) -> str:
    some = frame[frame["worst"] & frame["scheme"].isin(schemes)]
    ends = {r.scheme: f"ends in '{r.outcome}' after {r.steps} steps" if r.steps else "is safe" for r in some.itertuples()}
    return listed(f"{name} {how}" for name, how in ends.items())


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
        chart=lambda frame: heat_map("outcome", rows="scheme", columns="fetch", meanings=MEANINGS, letters=LETTERS)(drawn(frame)),
        table=table,
        alt="A panel per ISA: for each scheme, and for each model of what a CPU may fetch, a letter: s where every interleaving of "
        "three threads with the patcher's steps is safe, else the property that the shortest bad one violates.",
        limits=LIMITS,
        kind="search",
        hypothetical=True,
    ),
)
