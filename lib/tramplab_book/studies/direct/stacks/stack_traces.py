"""Is a stack trace right that is taken in a hook, anywhere in it, or of a task that sleeps in the hooked function?"""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace import releases
from tramplab.unwind.stacks import DOUBLED, MISSING, RIGHT, WRONG

from ....publish.figures.chart import heat_map, stacked_bars, theme
from ....publish.figures.figure import Figure
from ....publish.phrases import marked, slug
from ...memo import once
from . import stack_calls
from .stack_calls import ASLEEP, BPF_CALLS, CODE, DIRECT, FRAMES, HOOK, PROGRAM

NAME = "stack_traces"
TITLE = "Stack traces around direct calls and fprobes"
#: Where a trace is taken, as figures name it: in the callback or program, of a sleeping task, at any instruction of the hook.
INSIDE, SLEEPING, ANYWHERE = TAKEN = ("in the program", "asleep", "in the hook")
_PLACES = {INSIDE: (PROGRAM,), SLEEPING: (ASLEEP,), ANYWHERE: (PROGRAM, HOOK)}
#: What is worst of a trace -> what charts call it, and what that means.
_LOST = "lost or misnamed"
SAID = {RIGHT: "right", DOUBLED: "doubled", MISSING: _LOST, WRONG: _LOST}
MEANINGS = {"right": theme.RIGHT, "doubled": theme.NOTICED, _LOST: theme.WRONG}
_WORST = (WRONG, MISSING, DOUBLED)
#: Those places as columns of the chart are called, and the hooks that all kernels have.
COLUMNS = {INSIDE: "inside", SLEEPING: "asleep", ANYWHERE: "any insn"}
EVERYWHERE = ("ops", *BPF_CALLS, "fprobe", "fprobe exit")
#: Hooks that charts show, and kernels in their order; the table has all.
SHOWN = ("ops", *DIRECT, "fexit, called", "fprobe", "fprobe exit")
KERNELS = ("arm64", "riscv64", "x86-64, ORC", "x86-64, frame pointers")
COUNTS = ("right", "doubled", "lost", "refused")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way of unwinding, hook, whether hooked returns are looked up, and where the trace is taken.

    Columns: isa, unwound, variant, release, hypothetical, recovered, taken (one of TAKEN), boundaries (instructions), right (at how
    many every frame is), doubled (one stands there twice, none is lost), lost (one is missing or has a wrong name), refused (the
    chain ended early or in a guess, so that a reliable walk gives up), worst (a key of SAID).
    """
    return counted(stack_calls.rows())


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows from those of stack_calls."""
    keys, records = ["isa", "unwound", "variant", "release", "hypothetical", "recovered"], []
    states = frame.assign(**_told(frame))
    for key, group in states.groupby(keys, sort=False):
        for taken, places in _PLACES.items():
            part = group[group["where"].isin(places)]
            if len(part):
                counts = {name: int(part.loc[part[name], "boundaries"].sum()) for name in COUNTS}
                worst = next((w for w in _WORST if (part[list(FRAMES)] == w).any(axis=None)), RIGHT)
                head = dict(zip(keys, key, strict=True))
                records.append({**head, "taken": taken, "boundaries": int(part["boundaries"].sum()), **counts, "worst": worst})
    found = pd.DataFrame(records)
    found.attrs["units"] = {}
    return found


def _told(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Name of COUNTS -> is it true of each stretch?"""
    states = frame[list(FRAMES)]
    lost, doubled = states.isin([MISSING, WRONG]).any(axis=1), (states == DOUBLED).any(axis=1)
    return {
        "right": ~lost & ~doubled,
        "doubled": doubled & ~lost,
        "lost": lost,
        "refused": (frame["error"] != "") | frame["guessed"],
    }


# -- what is shown


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of hooks of SHOWN in their order, kernels in that of KERNELS; `isa` names the kernel, and `hook` the hook."""
    part = frame[frame["variant"].isin(SHOWN)]
    part = part.assign(isa=stack_calls.kernels_named(part), hook=stack_calls.named(part))
    for column, order in (("variant", SHOWN), ("isa", KERNELS)):
        part = part.sort_values(column, key=lambda names, order=order: names.map(order.index), kind="stable")
    return part


def cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per kernel, hook of EVERYWHERE and place of the trace, with the worst that happens there, as the kernel unwinds; hooks
    with which the fewest lose a frame come first."""
    part = _shown(frame[frame["variant"].isin(EVERYWHERE) & stack_calls.asked(frame)])
    part = part.assign(hook=[marked(r.variant, r.hypothetical) for r in part.itertuples()], worst=part["worst"].map(SAID))
    return fewest_first(part.assign(taken=part["taken"].map(COLUMNS)), "variant")[["isa", "hook", "taken", "worst"]]


def fewest_first(cells: pd.DataFrame, column: str) -> pd.DataFrame:
    """Cells of a chart, ordered by which share of those with the same value of a column have a frame lost."""
    lost = (cells["worst"] == _LOST).groupby(cells[column], sort=False).mean()
    order = list(lost.sort_values(kind="stable").index)
    out = cells.sort_values(column, key=lambda names: names.map(order.index), kind="stable")
    kernels = list(dict.fromkeys(cells["isa"]))
    return out.sort_values("isa", key=lambda names: names.map(kernels.index), kind="stable", ignore_index=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per kernel and hook: at how many of how many instructions the whole trace is right, in the program, asleep and in the
    hook; of the latter at how many a frame is lost, and how many of these lead to a chain that a reliable walk gives up."""
    named = frame.assign(isa=stack_calls.kernels_named(frame), hook=stack_calls.named(frame))
    items = []
    for (kernel, hook), rows in named.groupby(["isa", "hook"], sort=False):
        if ANYWHERE not in set(rows["taken"]):
            continue
        by = rows.set_index("taken")
        texts = {taken: f"{by.loc[taken, 'right']}/{by.loc[taken, 'boundaries']}" if taken in by.index else "-" for taken in TAKEN}
        lost = {"lost": by.loc[ANYWHERE, "lost"], "given up": by.loc[ANYWHERE, "refused"]}
        items.append(
            {"isa": kernel, "hook": hook, "program": texts[INSIDE], SLEEPING: texts[SLEEPING], "hook's": texts[ANYWHERE], **lost}
        )
    shown = pd.DataFrame(items)
    shown.attrs["right"] = ("program", SLEEPING, "hook's")
    return shown


def whose(frame: pd.DataFrame) -> pd.DataFrame:
    """From stack_calls' rows: a row per kernel, hook of SHOWN that is looked up, and part of CODE: at how many instructions of it a
    frame is lost, and the share of all of the hook's, in percent."""
    part = _shown(frame[frame["recovered"] & frame["where"].isin([PROGRAM, HOOK])])
    part["instructions"] = part["boundaries"].where(_told(part)["lost"], 0)
    sums = part.groupby(["isa", "hook", "code"], sort=False)[["instructions", "boundaries"]].sum().reset_index()
    whole = sums.groupby(["isa", "hook"], sort=False)["boundaries"].transform("sum")
    sums["share"] = (100 * sums["instructions"] / whole).round()
    order = list(dict.fromkeys(zip(part["isa"], part["hook"], strict=True)))
    keys = [(order.index((r.isa, r.hook)), CODE.index(r.code)) for r in sums.itertuples()]
    out = sums.drop(columns="boundaries").rename(columns={"code": "part"}).assign(key=keys).sort_values("key", ignore_index=True)
    out = out.drop(columns="key")
    out.attrs["units"] = {"share": "% of the hook's instructions"}
    return out


def whose_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of whose() with a column per part."""
    data = whose(frame)
    index = pd.MultiIndex.from_frame(data[["isa", "hook"]].drop_duplicates())
    wide = data.pivot(index=["isa", "hook"], columns="part", values="instructions").reindex(index=index, columns=list(CODE))
    wide = wide.astype("Int64").astype("string").fillna("-")
    wide.columns = ["ftrace", "direct", "return", "C"]
    out = wide.reset_index()
    out.attrs["right"] = list(wide.columns)
    return out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions, like "arm64-fp-fentry-in-the-hook-lost", "-all", "-right", "-refused"; of hooks that are
    not looked up "arm64-fp-fprobe-exit-not-looked-up-asleep-lost"; of all of BPF's direct calls together
    "arm64-fp-bpf-calls-in-the-hook-lost" and "-all"."""
    values: dict[str, object] = {}
    for r in frame.itertuples():
        words = (r.isa, r.unwound, r.variant, *(() if r.recovered else ("not looked up",)), r.taken)
        name = slug("-".join(words))
        values |= {f"{name}-lost": r.lost, f"{name}-all": r.boundaries, f"{name}-right": r.right, f"{name}-refused": r.refused}
    calls = frame[frame["variant"].isin(BPF_CALLS)].groupby(["isa", "unwound", "taken"])[["lost", "boundaries"]].sum()
    for (isa, unwound, taken), r in calls.iterrows():
        name = slug(f"{isa}-{unwound}-bpf-calls-{taken}")
        values |= {f"{name}-lost": int(r["lost"]), f"{name}-all": int(r["boundaries"])}
    return values


_CHART = heat_map("worst", rows="hook", columns="taken", meanings=MEANINGS, abreast=len(KERNELS))
_LIMITS = (
    "Emulated calls of lab kernels, one task; counts of instructions. fprobes on return hooks are of v6.12 on x86-64 and v6.9 on "
    "riscv64. riscv64's kernels look up no return hooks of this kind."
)
FIGURES = (
    Figure(
        "fig-stacks",
        f"Is a stack trace right? ({releases.LATEST})",
        chart=lambda frame: _CHART(cells(frame)),
        table=table,
        legend="In the table: instructions at which the whole trace is right / all of the place.",
        alt="A panel per kernel: for each hook, and for traces taken in its program, asleep in the function, and at any "
        "instruction of the hook, a colour for the worst that happens to a frame. The table has the counts and every hook.",
        limits=_LIMITS,
        hypothetical=True,
    ),
    Figure(
        "fig-stacks-lost",
        "In whose code does an interrupt find a frame lost?",
        rows=lambda frame: stack_calls.rows(),
        chart=lambda frame: stacked_bars("share", bars=("hook",), stack="part")(whose(frame)),
        table=whose_table,
        alt="A panel per kernel with a bar per hook: the share of its instructions at which a trace lacks the function, its caller "
        "or that one's, by whose code it is: ftrace's trampoline, that of a direct call, the return trampoline, C.",
        limits=_LIMITS,
        hypothetical=True,
    ),
)
