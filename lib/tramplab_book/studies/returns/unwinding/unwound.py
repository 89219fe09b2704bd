"""Is a stack trace right while a function's return is hooked?"""

from __future__ import annotations

import pandas as pd

from tramplab.isa import ISAS
from tramplab.returns.mechanisms import RETHOOK, newest
from tramplab.unwind.stacks import DOUBLED, MISSING, RIGHT, WRONG

from ....publish.figures.chart import heat_map
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ....publish.table import pivot
from ...direct.stacks.stack_traces import MEANINGS, SAID, fewest_first
from ...memo import once
from . import predicted, unwound_calls
from .unwound_calls import ENTRY, EXIT, PLACES, SLEEPING

NAME = "return_unwound"
TITLE = "Stack traces while a function's return is hooked"
#: Worst state of a trace -> the column in which it counts.
COUNTS = {RIGHT: "right", DOUBLED: "doubled", MISSING: "lost", WRONG: "wrong"}
#: Places of a trace in the chart: in both handlers, and of a task that sleeps in the function.
DRAWN = (ENTRY, SLEEPING, EXIT)
_WORST = (WRONG, MISSING, DOUBLED, RIGHT)


@once
def rows() -> pd.DataFrame:
    """One row per ISA, case, whether hooked returns are looked up, and place of the trace.

    Columns: isa, name, release, recovered, real (so does the kernel's unwinder), pair (two on one function), hooks (a return is
    hooked), place, boundaries (instructions), right, doubled, lost, wrong (at how many that is the worst of a frame), refused (at
    how many the chain ended early or in a guess, so that a reliable walk gives up), worst (of all of them).
    """
    return counted(unwound_calls.rows())


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows from those of unwound_calls."""
    keys, records = ["isa", "name", "release", "recovered", "real", "pair", "hooks", "place"], []
    for key, part in frame.groupby(keys, sort=False):
        sums = {name: int(part.loc[part["worst"] == state, "boundaries"].sum()) for state, name in COUNTS.items()}
        refused = int(part.loc[(part["error"] != "") | part["guessed"], "boundaries"].sum())
        worst = next(state for state in _WORST if state in set(part["worst"]))
        total = int(part["boundaries"].sum())
        records.append({**dict(zip(keys, key, strict=True)), "boundaries": total, **sums, "refused": refused, "worst": worst})
    found = pd.DataFrame(records)
    found["at"] = found["place"].map(PLACES.index)
    order = {name: n for n, name in enumerate(dict.fromkeys(zip(frame["isa"], frame["name"], frame["recovered"], strict=True)))}
    found["case"] = [order[key] for key in zip(found["isa"], found["name"], found["recovered"], strict=True)]
    found = found.sort_values(["case", "at"], ignore_index=True).drop(columns=["case", "at"])
    found.attrs["units"] = {}
    return found


# --- What is shown


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA, mechanism or two on one function, and place of DRAWN, with the worst that happens there as the newest kernel
    unwinds; those with which the fewest lose a frame come first."""
    pairs = frame[frame["pair"] & frame["real"]]
    part = pd.concat([_newest(frame), pairs.assign(mechanism=pairs["name"])])
    part = part[part["place"].isin(DRAWN) & (part["mechanism"] != RETHOOK)]
    part = part.assign(hook=part["mechanism"].str.partition(",")[0], worst=part["worst"].map(SAID))
    by_isa = part.sort_values("isa", key=lambda isas: isas.map(list(ISAS).index), kind="stable")
    return fewest_first(by_isa, "hook")[["isa", "hook", "place", "worst"]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and case: at how many of how many instructions the whole trace is right, by place; asked: are hooked returns
    looked up, as the kernel's unwinder does or, with the mark, does not."""
    labelled = frame.assign(
        said=[f"{r.right}/{r.boundaries}" for r in frame.itertuples()],
        asked=[_asked(r) for r in frame.itertuples()],
    )
    wide = pivot("said", "place", index=("isa", "name", "asked"), total=False)(labelled)
    printed = wide[["isa", "name", "asked", *PLACES]].fillna("-").rename(columns=_SHORT)
    printed.attrs["right"] = list(_SHORT.values())
    return printed


_SHORT = dict(zip(PLACES, ("entry", "body", "asleep", "tramp", "exit", "rest"), strict=True))


def _asked(r: object) -> str:
    hooks, recovered, real = (getattr(r, name) for name in ("hooks", "recovered", "real"))
    return (("yes" if recovered else "no") + ("" if real else " *")) if hooks else "-"


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions, like "arm64-fgraph-at-return-lost" (or under a wrong name), "-all", "-refused"; where
    hooked returns are not looked up "riscv64-kretprobe-not-asked-asleep-lost"; and those of mispredicted returns."""
    values = predicted.numbers(predicted.rows())
    for r in frame.itertuples():
        key = slug("-".join((r.isa, r.name, *(() if r.recovered else ("not asked",)), r.place)))
        values |= {f"{key}-lost": r.lost + r.wrong, f"{key}-all": r.boundaries, f"{key}-refused": r.refused}
    return values


def _newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of each mechanism alone in its newest kernel."""
    names = {(isa, build.name): mechanism for isa in ISAS for mechanism, build in newest(isa).items()}
    keys = list(zip(frame["isa"], frame["name"], strict=True))
    part = frame.assign(mechanism=[names.get(key, "") for key in keys])
    return part[part["real"] & (part["mechanism"] != "")]


FIGURES = (
    Figure(
        "fig-return-unwound",
        "Is a stack trace right while a return is hooked?",
        chart=lambda frame: heat_map("worst", "hook", "place", meanings=MEANINGS)(cells(frame)),
        table=table,
        alt="A panel per ISA: for each mechanism, and for two on one function, a colour for the worst that happens to a frame in a "
        "trace taken in the handler at the entry, asleep in the function, and in the handler at the return. The table has the "
        "other places, older releases, and what is found where hooked returns are not looked up.",
        limits="Emulated calls of lab kernels, one task; counts of instructions; x86-64 by ORC's rules, arm64 and riscv64 by frame "
        "pointers. * hypothetical: the kernel's unwinder does it the other way.",
        legend="In the table: instructions at which the whole trace is right / all of the place.",
        hypothetical=True,
    ),
)
