"""What becomes of a call whose hook calls the hooked function: does a guard end it, who is missed, and what fills the stack?"""

from __future__ import annotations

import functools

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.places import STACK_SIZE

from ....publish.figures.chart import heat_map, stacked_bars, theme
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ....publish.table import pivot
from ...memo import once
from ...shared.every_release import every_release
from ...shared.growth import step
from .reentrant import ANOTHER, ITSELF, SUBJECTS, play

NAME = "recursion"
TITLE = "A hook that calls the function it hooks"
ENDLESS, ONCE, TWICE, NONE = "endless: the stack ends it", "runs once", "runs twice", "no such hook"
#: Outcome -> its letter in the chart.
MEANINGS = {ONCE: theme.RIGHT, ENDLESS: theme.NOTICED, TWICE: theme.ONE, NONE: theme.NOTHING}
OUTCOMES = {1: ONCE, 2: TWICE}
UNITS = {"size": "B"}
#: How many points a line of the second figure has.
POINTS = 12


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, hook (reentrant.SUBJECTS) and what its consumer calls: the function itself, or another traced one
    that calls it, which is hooked in the same way.

    Columns: isa, release, hook, hypothetical, calls ("itself" or "another"), outcome, way (what called the consumer: "straight",
    "list", "assist", "BPF"), ran (times the consumer ran), entered (times the function was called), missed (their difference),
    counted (of those missed, as programs count them), other_ran and other_entered (the same of the other function and what hooks
    it), rounds and size (of the recursion, as the error says them; bytes of stack each), right (is the result that of the unhooked
    call?).
    """
    frame = pd.DataFrame(every_release(_tried))
    frame.attrs["units"] = UNITS
    return frame


def _tried(isa: str, release: str) -> list[dict[str, object]]:
    kernel, items = Kernel(isa, release), []
    for name, subject in SUBJECTS.items():
        for calls in (ITSELF, ANOTHER):
            row: dict[str, object] = {"hook": name, "hypothetical": subject.hypothetical, "calls": calls}
            items.append(row | (_row(kernel, name, calls) if kernel.features[subject.needs] else _never()))
    return items


def _row(kernel: Kernel, name: str, calls: str) -> dict[str, object]:
    p = play(kernel, name, calls)
    if p.recursion is None and p.ran not in OUTCOMES:
        raise TramplabError(f"{name} ran {p.ran} times: give that a word in OUTCOMES.")
    return {
        "outcome": ENDLESS if p.recursion else OUTCOMES[p.ran],
        "way": p.way,
        "ran": p.ran,
        "entered": p.entered,
        "missed": 0 if p.recursion else p.entered - p.ran,
        "counted": p.counted,
        "other_ran": p.other_ran,
        "other_entered": p.other_entered,
        "rounds": p.recursion.rounds if p.recursion else 0,
        "size": p.recursion.size if p.recursion else 0,
        "right": p.right,
    }


def _never() -> dict[str, object]:
    """The columns of a hook that the release does not have."""
    numbers = ("ran", "entered", "missed", "counted", "other_ran", "other_entered", "rounds", "size")
    return {"outcome": NONE, "way": "", **dict.fromkeys(numbers, 0), "right": True}


@once
def depths() -> pd.DataFrame:
    """The stack in use at some of the calls of the function, in the newest release, of every hook that has no end: columns isa,
    hook, hypothetical, call (which one), stack (bytes)."""
    items = []
    for isa in ISAS:
        kernel = Kernel(isa, releases.LATEST)
        for name, subject in SUBJECTS.items():
            stack = play(kernel, name, ITSELF)
            if stack.recursion:
                last = len(stack.stack) - 1
                chosen = sorted({round(last * n / (POINTS - 1)) for n in range(POINTS)})
                head = {"isa": isa, "hook": name, "hypothetical": subject.hypothetical}
                items += [{**head, "call": n + 1, "stack": stack.stack[n]} for n in chosen]
    frame = pd.DataFrame(items)
    frame.attrs["units"] = {"stack": "B"}
    return frame


@functools.cache
def preemptible() -> dict[str, int]:
    """ISA -> how often a callback runs behind ftrace's guard in the newest release, where sections without preemption are not
    counted, which is where the guard does not turn preemption off; 0 if the recursion had no end."""
    played = {isa: play(Kernel(isa, preemption=False), "ops trylock", ITSELF) for isa in ISAS}
    return {isa: 0 if p.recursion else p.ran for isa, p in played.items()}


# -- what is shown


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with hooks as readers see them: what no kernel has is marked."""
    out = frame.assign(hook=[marked(h, bool(x)) for h, x in zip(frame["hook"], frame["hypothetical"], strict=True)])
    out.attrs = dict(frame.attrs)
    return out


def itself(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of consumers that call the function itself."""
    part = frame[frame["calls"] == ITSELF].reset_index(drop=True)
    part.attrs = dict(frame.attrs)
    return part


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA, hook and release: how often the consumer ran of how many calls of the function, or the rounds and the bytes of stack
    of each where there is no end."""
    words = [
        "-" if r.outcome == NONE else f"{r.rounds}x{r.size}" if r.outcome == ENDLESS else f"{r.ran}/{r.entered}"
        for r in frame.itertuples()
    ]
    return pivot("said", "release", ("isa", "hook"), total=False)(named(frame).assign(said=words))


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: both ways, of releases that behave alike on an ISA only the last."""
    items = []
    for _, part in named(frame).groupby("isa", sort=False):
        kept: dict[str, pd.DataFrame] = {}
        for _, lines_ in part.groupby("release", sort=False):
            kept[lines_.drop(columns="release").to_csv(index=False)] = lines_
        items += list(kept.values())
    shown = pd.concat(items)
    shown = shown[shown["outcome"] != NONE]
    shown = shown.assign(isa=shown["isa"] + " " + shown["release"])
    return shown[["isa", "hook", "calls", "way", "ran", "entered", "counted", "other_ran", "rounds", "size"]]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, of the newest release and consumers that call the function itself: "arm64-ops-rounds" and
    "arm64-ops-size" (bytes each) of what has no end; "arm64-fentry-ran", "arm64-fentry-entered", "arm64-fentry-counted";
    "list-other-ran" and "list-other-total", how often the other function's ops ran of how often that was called, where both are
    called by the list function, and "program-other-ran", "program-other-total" of fentry programs, one number if all ISAs have the
    same; "stack-size", bytes of the lab's stacks; "arm64-preemptible-ran", how often the callback ran behind a guard that does not
    turn preemption off, 0 if the guard did not end it."""
    newest = frame[frame["release"] == releases.LATEST]
    values: dict[str, object] = {"stack-size": f"{STACK_SIZE:,}"}
    for r in itself(newest).itertuples():
        name = f"{r.isa}-{str(r.hook).lower().replace(', ', '-').replace(' ', '-').replace('_', '-')}"
        values |= {f"{name}-{what}": int(getattr(r, what)) for what in ("rounds", "size", "ran", "entered", "counted")}
    for name, hook in (("list", "two ops"), ("program", "fentry")):
        other = newest[(newest["calls"] == ANOTHER) & (newest["hook"] == hook)]
        values |= {f"{name}-other-ran": _span(other["other_ran"]), f"{name}-other-total": _span(other["other_entered"])}
    return values | {f"{isa}-preemptible-ran": ran for isa, ran in preemptible().items()}


def _span(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return str(low) if low == high else f"{low} to {high}"


def _ended(frame: pd.DataFrame) -> pd.DataFrame:
    """The calls of every hook that there is room for, and the bytes of stack that each takes; "-" if they do not take the same."""
    items = []
    for (isa, hook), line in frame.groupby(["isa", "hook"], sort=False):
        stack = line.set_index("call")["stack"]
        items.append({"isa": isa, "hook": hook, "part": "calls", "calls": stack.index.max(), "each": step(stack.to_dict())})
    return pd.DataFrame(items)


def _ended_table(frame: pd.DataFrame) -> pd.DataFrame:
    out = _ended(named(frame))[["isa", "hook", "calls", "each"]]
    out.attrs = {"units": {"each": "B"}, "right": ("each",)}
    return out


FIGURES = (
    Figure(
        "fig-recursion",
        "What becomes of a call whose hook calls the hooked function?",
        rows=itself,
        chart=lambda frame: heat_map("outcome", rows="hook", columns="release", meanings=MEANINGS)(named(frame)),
        table=table,
        alt="A panel per ISA: for each hook and release a colour that says whether the call recurses until the stack ends, or "
        "comes "
        "back with the consumer run once or twice. The table has how often it ran, and the bytes of stack per round.",
        limits="Emulated: each consumer counts, then calls the function it hooks.",
        legend="In the table runs/calls, or rounds x bytes of stack where there is no end.",
        hypothetical=True,
    ),
    Figure(
        "fig-recursion-stack",
        f"How fast does recursion without a guard take the stack? ({releases.LATEST})",
        rows=lambda frame: depths(),
        chart=lambda frame: stacked_bars("calls", stack="part")(_ended(named(frame))),
        table=_ended_table,
        alt="A panel per ISA with a bar per hook that has no guard: calls of the function until the stack ends, fewest with "
        "an ops. The table has the bytes of each round.",
        limits=f"Emulated; the lab's stacks have {STACK_SIZE} bytes, and the whole of one is there for the call.",
        hypothetical=True,
    ),
)
