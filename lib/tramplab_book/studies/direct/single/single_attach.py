"""What does attaching to many functions take? Writes and waits of the plans, for an ops per trampoline and for one of all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.ftrace.ops import Registered
from tramplab.ftrace.steps import FENCES, Step, Sync, Wait, Write
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.single import SingleSlowPath

from ....publish import published
from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import MARK
from ...memo import once
from .setups import IN_OPS, Setup, setups, shown

NAME = "single_attach"
TITLE = "One ops for all direct calls: what attaching and detaching take"
#: How many functions are computed besides those that the guest has; one by one, or all in one update.
COMPUTED, EACH, AT_ONCE = (100,), "each", "at once"
#: What is counted of a plan: stores, those to text, waits for all CPUs, waits for all tasks, and frees for which nobody waits.
COUNTED = ("writes", "text", "cpus", "tasks", "later")
UNITS = dict.fromkeys(COUNTED, "n")
#: What a bar is made of: waits that take longest first. Writes to text are among the writes, and nobody waits for what is later.
DRAWN = {"tasks": "waits for all tasks", "cpus": "waits for CPUs", "writes": "writes"}
#: "each ~100ms", the mail says of the waits that are saved, of its machine.
WAIT_SECONDS = 0.1
_BEFORE, _AFTER = "single-direct-ops-before", "single-direct-ops-after"


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way, how (EACH, AT_ONCE), change ("attach", "detach") and number of functions with a far direct call each.

    Columns: isa, release, way, hypothetical, how, change, functions, computed (more than the guest has: for each as much more as
    for the last ones), then COUNTED: writes (all stores of the plan), text (those to executable memory, ops pointers among them),
    cpus (waits for every CPU or for this one's own fetches), tasks (synchronize_rcu_tasks), later (call_rcu_tasks).
    """
    records = []
    for setup in setups():
        for how in (EACH,) if setup.way == IN_OPS else (EACH, AT_ONCE):
            counted = {n: _counted(setup, how, n) for n in _sizes(setup)}
            for change in ("attach", "detach"):
                of = {n: both[change] for n, both in counted.items()}
                head = {**setup.head, "how": how, "change": change}
                guest = max(of)
                records += [{**head, "functions": n, "computed": False, **of[n]} for n in (1, 10, guest)]
                records += [{**head, "functions": n, "computed": True, **_beyond(of, n)} for n in COMPUTED]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _sizes(setup: Setup) -> tuple[int, ...]:
    """The numbers of functions that are counted: one, ten, and as many as the guest has, with two fewer, from which the step
    follows."""
    most = len(setup.kernel("count").functions)
    return 1, 10, most - 2, most - 1, most


def _beyond(of: dict[int, dict[str, int]], functions: int) -> dict[str, int]:
    """The counts for more functions than there are; raises TramplabError if the last functions did not take the same each."""
    *_, before, last, most = sorted(of)
    by_name = {}
    for what, n in of[most].items():
        step = n - of[last][what]
        if step != of[last][what] - of[before][what]:
            raise TramplabError(f"{what} does not grow evenly with the number of functions: it cannot be computed for {functions}.")
        by_name[what] = n + step * (functions - most)
    return by_name


def _counted(setup: Setup, how: str, functions: int) -> dict[str, dict[str, int]]:
    """The counts of attaching far direct calls to so many functions, and of detaching them."""
    kernel = setup.kernel("count")
    wanted = [Direct(far=True, filter=(f,)) for f in kernel.functions[:functions]]
    attaching, attached = _attach(kernel, wanted, how)
    detaching = _detach(kernel, attached, how)
    return {"attach": _count(kernel, attaching), "detach": _count(kernel, detaching)}


def _attach(kernel: Kernel, wanted: Sequence[Direct], how: str) -> tuple[list[Step], list[Registered]]:
    """Attach, and what was done."""
    path = kernel.slowpath
    if how == AT_ONCE and isinstance(path, SingleSlowPath):
        attached, steps = path.add(wanted)
        kernel.apply(steps)
        return steps, attached
    done: list[Step] = []
    attached = []
    for request in wanted:
        ops, steps = path.register(request)
        kernel.apply(steps)
        attached.append(ops)
        done += steps
    return done, attached


def _detach(kernel: Kernel, attached: list[Registered], how: str) -> list[Step]:
    """Detach, last one first, and what was done."""
    path = kernel.slowpath
    if how == AT_ONCE and isinstance(path, SingleSlowPath):
        steps = path.remove(attached)
        kernel.apply(steps)
        return steps
    done: list[Step] = []
    for ops in reversed(attached):
        steps = path.unregister(ops)
        kernel.apply(steps)
        done += steps
    return done


def _count(kernel: Kernel, steps: list[Step]) -> dict[str, int]:
    writes = [s for s in steps if isinstance(s, Write)]
    waits = [s.sync for s in steps if isinstance(s, Wait) and s.sync not in FENCES]
    tasks, later = (waits.count(sync) for sync in (Sync.RCU_TASKS, Sync.CALL_RCU_TASKS))
    text = sum(kernel.machine.is_text(w.address) for w in writes)
    return {"writes": len(writes), "text": text, "cpus": len(waits) - tasks - later, "tasks": tasks, "later": later}


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per ISA, a line per change, way and how: what it takes for a hundred functions. Ways that take as much share one."""
    printed = shown(frame[frame["functions"] == COMPUTED[0]]).drop(columns=["functions", "computed"])
    keys = ["isa", "change", "how", *COUNTED]
    printed["way"] = printed.groupby(keys, sort=False)["way"].transform(_together)
    printed = printed[["isa", "change", "way", "how", *COUNTED]].drop_duplicates(ignore_index=True)
    as_met = {"key": lambda s: s.map(list(dict.fromkeys(s)).index), "kind": "stable"}
    return printed.sort_values(["isa", "change"], ignore_index=True, **as_met)


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """What attaching and detaching take together, a row per ISA, way and part of DRAWN; of ways that take the same the first."""
    chosen = shown(frame[frame["functions"] == COMPUTED[0]])
    lines = chosen.groupby(["isa", "way", "how"], sort=False)[list(DRAWN)].sum().reset_index()
    lines = lines.drop_duplicates(["isa", "how", *DRAWN]).assign(way=lines["way"] + ", " + lines["how"])
    return lines.rename(columns=DRAWN).melt(["isa", "way"], list(DRAWN.values()), "step", "steps")


def _together(ways: pd.Series) -> str:
    """Ways that take as much, with one mark, and of a name that goes on only the rest: "lookup/-c/literal *"."""
    plain = list(dict.fromkeys(way.removesuffix(MARK) for way in ways))
    mark = MARK if any(way.endswith(MARK) for way in ways) else ""
    rests = [name.removeprefix(before) for before, name in itertools.pairwise(plain)]
    return "/".join([*plain[:1], *rests]) + mark


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: all numbers of functions, those that are computed in brackets."""
    printed = shown(frame)
    printed["isa"] = printed["isa"] + ", " + printed["change"]
    sizes = zip(printed["functions"], printed["computed"], strict=True)
    printed["functions"] = [f"({n})" if computed else f"{n}" for n, computed in sizes]
    keys = ["isa", "how", "functions", *COUNTED]
    printed["way"] = printed.groupby(keys, sort=False)["way"].transform(_together)
    printed = printed[["isa", "way", "how", "functions", *COUNTED]].drop_duplicates(ignore_index=True)
    printed.attrs["right"] = ("functions",)
    return printed


def saved_waits() -> int:
    """How many waits of the length that the mail says the time it saves would be, to the next one."""
    return round((published.get(_BEFORE).value - published.get(_AFTER).value) / WAIT_SECONDS)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, for a hundred functions: "arm64-in-ops-each-detach-tasks", "arm64-literal-at-once-attach-text"; how
    many functions the guest has; and what was published, "published-before" and "published-after" in seconds, with
    "published-waits", how many waits their difference is."""
    values: dict[str, object] = {
        f"{r.isa}-{r.way}-{r.how.replace(' ', '-')}-{r.change}-{what}": getattr(r, what)
        for r in frame[frame["functions"] == COMPUTED[0]].itertuples()
        for what in COUNTED
    }
    before, after = published.get(_BEFORE), published.get(_AFTER)
    values |= {"published-before": f"{before.value:.3f}", "published-after": f"{after.value:.3f}", "published-waits": saved_waits()}
    return values | {"guest": int(frame[~frame["computed"]]["functions"].max()), "computed": COMPUTED[0]}


FIGURES = (
    Figure(
        "fig-single-attach",
        f"What do attaching to {COMPUTED[0]} functions and detaching from them take?",
        chart=lambda frame: stacked_bars("steps", bars="way", stack="step", columns=1)(drawn(frame)),
        table=table,
        alt="A panel per ISA with a bar for each way, one by one and at once: steps of attaching and detaching together, "
        "split into waits for all tasks, waits for CPUs and writes. Only with an ops for each trampoline are there waits "
        "for all tasks; in one update the bars are shortest. The table has attaching and detaching apart, writes to text "
        "and deferred frees.",
        limits="Steps of the lab's plans, no times; as many functions as the guest has are counted, more are computed from what "
        "each takes. lookup/-c: both of them. text: writes to executable memory, ops pointers among them. cpus: waits for every "
        "CPU, on arm64 for this one's own fetches. tasks: synchronize_rcu_tasks(); a kernel waits for its rude variant as well. "
        "later: freed by call_rcu_tasks(), for which nobody waits.",
        hypothetical=True,
    ),
)
