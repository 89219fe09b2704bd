"""What does each hook do where RCU is not watching, and where there is no current task?"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager

import pandas as pd

from tramplab.base.errors import GuestFault
from tramplab.ftrace import releases
from tramplab.lab.kernel import Kernel

from ....publish.figures.chart import heat_map, theme
from ....publish.figures.figure import Figure
from ....publish.table import pivot
from ...memo import once
from ...shared.every_release import every_release, newest
from . import surroundings
from .state import field_at, without_rcu, without_task
from .surroundings import ARGUMENTS, FUNCTION, HOOKS, SKETCHED, named

NAME = "without"
TITLE = "Hooks without a task, or without RCU"
#: What is missing -> how it is taken away for the length of a call.
MISSING: dict[str, Callable[[Kernel], AbstractContextManager[None]]] = {"RCU": without_rcu, "task": without_task}
CALLED, LEFT_OUT, FAULT, NONE = "callback is called", "callback is left out", "faults", "no such hook"
LETTERS = {CALLED: "c", FAULT: "F", LEFT_OUT: "s", NONE: "-"}
MEANINGS = {CALLED: theme.RIGHT, FAULT: theme.NOTICED, LEFT_OUT: theme.ONE, NONE: theme.NOTHING}
_COUNTED = {"called": CALLED, "faults": FAULT}
#: Programs as kernels run them.
PROGRAMS = ("fentry", "fexit", "fmod_ret")


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, hook and what is missing (MISSING) while a call of FUNCTION is made with the hook.

    Columns: isa, release, hook, hypothetical, missing, outcome (CALLED, LEFT_OUT, FAULT or NONE), at (of a fault: the field of a
    task at 0 that was wanted, "bpf_ctx", or the address), place (the function that wanted it), right (is the result that of the
    unhooked call?).
    """
    frame = pd.DataFrame(every_release(_tried))
    frame.attrs["units"] = {}
    return frame


def _tried(isa: str, release: str) -> list[dict[str, object]]:
    kernel, items = Kernel(isa, release), []
    had = surroundings.attachable(kernel)
    for missing, taken_away in MISSING.items():
        for hook in HOOKS:
            head = {"hook": hook, "hypothetical": hook in SKETCHED, "missing": missing}
            never = {"outcome": NONE, "at": "", "place": "", "right": True}
            items.append(head | (_outcome(kernel, hook, taken_away) if hook in had else never))
    return items


def _outcome(kernel: Kernel, hook: str, taken_away: Callable[[Kernel], AbstractContextManager[None]]) -> dict[str, object]:
    requests, _, called = HOOKS[hook]
    function = kernel.function(FUNCTION)
    wanted = kernel.call(function, *ARGUMENTS).value
    with kernel.attached(function, *requests()):
        try:
            with taken_away(kernel):
                run = kernel.call(function, *ARGUMENTS)
        except GuestFault as fault:
            return {"outcome": FAULT, **_where(kernel, str(fault)), "right": False}
    outcome = CALLED if run.executed(kernel.image.address(called)) else LEFT_OUT
    return {"outcome": outcome, "at": "", "place": "", "right": run.value == wanted}


def _where(kernel: Kernel, message: str) -> dict[str, object]:
    """What a fault's sentence says: which field of a task that is not there, and in which function."""
    found = re.search(r"(?:read of|write to) (0x[0-9a-f]+) at (\w+)", message)
    if found is None:
        return {"at": message, "place": ""}
    field = field_at(kernel, int(found[1], 16), task=0)
    return {"at": field[1] if field else found[1], "place": found[2]}


# -- what is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and hook in the newest release: what is done without RCU and without a task, and where the latter fails."""
    part = named(newest(frame))
    wide = part.pivot(index=["isa", "hook"], columns="missing", values="outcome")
    lines = pd.MultiIndex.from_frame(part[["isa", "hook"]].drop_duplicates())
    printed = wide.reindex(index=lines, columns=list(MISSING)).reset_index()
    failed = {(r.isa, r.hook): r.at for r in part[part["outcome"] == FAULT].itertuples()}
    printed["wants"] = [failed.get((r.isa, r.hook), "-") for r in printed.itertuples()]
    printed.columns = [str(name) for name in printed.columns]
    short = {CALLED: "called", LEFT_OUT: "left out", FAULT: "faults"}
    return printed.assign(**{missing: printed[missing].replace(short) for missing in MISSING})


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: a letter of LETTERS for each release, and what is wanted in the newest."""
    words = named(frame).assign(said=frame["outcome"].map(LETTERS))
    wide = pivot("said", "release", ("isa", "missing", "hook"), total=False)(words)
    wants = named(newest(frame)).set_index(["isa", "missing", "hook"])["at"].to_dict()
    wide["wants"] = [wants[key] or "-" for key in wide[["isa", "missing", "hook"]].itertuples(index=False, name=None)]
    return wide.assign(isa=wide["isa"] + " without " + wide["missing"]).drop(columns="missing")


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: in how many of the kernels (ISA and release) that have one a program is called without RCU and without
    a task, "programs-rcu-called", "programs-task-called", and in how many it faults, "programs-task-faults", of "programs-total";
    the field that an fentry program wants first where there is no task, "arm64-fentry-wants"."""
    some = frame[frame["hook"].isin(PROGRAMS) & (frame["outcome"] != NONE)]
    values: dict[str, object] = {"programs-total": len(some[some["missing"] == "RCU"])}
    for missing in MISSING:
        outcomes = some["outcome"][some["missing"] == missing]
        values |= {f"programs-{missing.lower()}-{name}": int((outcomes == of).sum()) for name, of in _COUNTED.items()}
    last = newest(frame)
    for r in last[(last["missing"] == "task") & (last["hook"] == "fentry")].itertuples():
        values[f"{r.isa}-fentry-wants"] = r.at
    return values


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with columns that say what is missing."""
    return named(frame).assign(missing="no " + frame["missing"])


FIGURES = (
    Figure(
        "fig-without",
        f"Which hooks work without a task, and without RCU? ({releases.LATEST})",
        rows=newest,
        chart=lambda frame: heat_map("outcome", rows="hook", columns="missing", meanings=MEANINGS)(drawn(frame)),
        table=table,
        alt="A panel per ISA: for each hook, and for RCU and the task, a colour that says whether without it the callback is "
        "called, "
        "left out, or the call faults. The table has the field that is wanted.",
        limits="Emulated: RCU's mark for this CPU is cleared, or what leads to the current task is 0, for one call. That no kernel "
        "should call a traced function in either state is not said by this.",
        hypothetical=True,
    ),
)
