"""Which ways to change what a function calls are safe, whatever threads that call it are in the middle of?"""

from __future__ import annotations

import pandas as pd

from tramplab.isa import ISAS
from tramplab.races import explore
from tramplab.races.explore import SAFE, THREADS
from tramplab.races.model.executions import Executions
from tramplab.races.model.fetches import MODELS
from tramplab.races.model.moments import ORDERED, UNORDERED
from tramplab.races.model.verdicts import FREED, LATE, MISSED, PAIR, STATE, TARGET, TORN
from tramplab.races.schemes.schemes import SCHEMES

from ...publish.figures.chart import heat_map, theme
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name
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
    "arm64-common": "shared trampoline",
    "arm64-call-ops": "CALL_OPS",
    "arm64-direct": "near direct call",
    "arm64-direct-far": "far direct call",
    "arm64-fexit": "BPF fexit freed",
    "riscv64-pair16": "16-byte pair",
    "riscv64-pair16-preempt": "preemptible 16-byte pair",
    "riscv64-pair": "AUIPC/JALR pair",
    "riscv64-pair-preempt": "preemptible pair",
    "riscv64-pair-target": "preemptible, new target",
    "riscv64-trap": "pair under C.EBREAK",
    "riscv64-trap-whole": "pair under EBREAK",
    "riscv64-trap-stopped": "C.EBREAK, stopped",
    "riscv64-saved-pc": "every saved pc put back",
    "riscv64-newest-pc": "newest saved pc put back",
    "riscv64-fixed-auipc": "AUIPC at boot",
    "riscv64-common": "shared trampoline",
    "riscv64-call-ops": "CALL_OPS",
    "riscv64-direct": "far direct call",
    "riscv64-fexit": "BPF fexit freed",
    "x86_64-int3": "breakpoint first",
    "x86_64-store": "one store",
    "x86_64-store-crossing": "one store, unaligned",
    "x86_64-common": "shared trampoline",
}
#: What a column stands for beside a model of fetches: the worst of these with stores that are seen in any order.
COLUMNS = (*MODELS, UNORDERED)
LIMITS = (
    "Emulated: the lab's site, trampoline and C core, one instruction at a time; callbacks return at once. One function, one "
    "patcher. Threads are interrupted by what the patcher sends, and where saved registers are put back by one exception more."
)


def labelled(scheme: str) -> str:
    """A scheme in words, behind its ISA.

    >>> labelled("riscv64-call-ops")
    'riscv64: CALL_OPS'
    """
    return f"{isa_name(scheme.partition('-')[0])}: {LABELS[scheme]}"


@once
def rows() -> pd.DataFrame:
    """One row per scheme (races/schemes/schemes.py) and one of COLUMNS, for three threads.

    Columns: scheme, isa, release, hypothetical, fetch (one of COLUMNS), worst (is it what a CPU may fetch there at worst, on a
    riscv64 with Ziccif?), outcome (SAFE, or the property that is violated), steps (of the shortest schedule that ends so, 0 where
    none does), states, transitions (visited; of one thread alone where one is enough).
    """
    out = []
    for scheme in SCHEMES.values():
        subject = scheme.subject()
        executions = Executions(subject)
        for fetch in COLUMNS:
            model, data = (scheme.fetch, UNORDERED) if fetch == UNORDERED else (fetch, ORDERED)
            found = explore(subject, THREADS, model, data=data, executions=executions)
            assert not found.limit, "a scheme that takes longer than its limit decides nothing"
            out.append(
                {
                    "scheme": scheme.name,
                    "isa": scheme.isa,
                    "release": scheme.release,
                    "hypothetical": bool(scheme.hypothetical),
                    "fetch": fetch,
                    "worst": fetch == scheme.fetch,
                    "outcome": found.outcome,
                    "steps": len(found.schedule),
                    "states": found.states,
                    "transitions": found.transitions,
                }
            )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with schemes as the chart names them, in words, with the mark of what no kernel has; on each ISA those come last."""
    out = frame.sort_values("hypothetical", kind="stable").assign(scheme=lambda part: part["scheme"].map(LABELS))
    return named(out.sort_values("isa", key=lambda isas: isas.map(list(ISAS).index), kind="stable"), "scheme")


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per scheme: its outcome under each model, and the steps of the shortest bad schedule under the worst of them."""
    words = named(frame, "scheme")
    wide = words.pivot(index="scheme", columns="fetch", values="outcome")[list(COLUMNS)]
    worst = words[words["worst"]].set_index("scheme")
    out = wide.loc[list(worst.index)].join(worst[["steps"]]).reset_index()
    out.columns = [str(c) for c in out.columns]
    out.attrs["units"] = UNITS
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: of each scheme the steps of its worst schedule, "riscv64-pair-preempt-steps", and how it ends by model
    of fetches, "riscv64-pair-torn"."""
    out: dict[str, object] = {f"{r.scheme}-steps": r.steps for r in frame[frame["worst"]].itertuples() if r.steps}
    return out | {f"{r.scheme}-{r.fetch}": r.outcome for r in frame.itertuples()}


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
