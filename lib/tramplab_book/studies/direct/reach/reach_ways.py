"""By which way does a call get to the code of a direct call: in the site's reach, out of it, and beside an ops?"""

from __future__ import annotations

import functools
import itertools

import pandas as pd

from tramplab.emulate.counting.trace import Issued
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run

from ....publish import phrases
from ....publish.figures.chart import state_strip, theme
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.every_release import every_release
from .reach_kernels import kernels

NAME = "reach_ways"
TITLE = "By which way a direct call is made"
FUNCTION, ARGUMENTS = "one_arg", (1,)
#: The cases of commit 2aa6ac03516d: alone and near, alone and as far away as the lab's layout has it, beside an ops.
NEAR, FAR, SHARED = "near", "far", "shared"
#: Case -> the hook that drives it.
CASES = {NEAR: "direct", FAR: "direct-far", SHARED: "direct+ops"}
SITE, TARGET, LIST, DIRECT, FUNCTION_BODY = "site", "direct call", "list function", "call_direct_funcs", "function"
#: What a chart says of where an instruction is: the direct call, what leads there, and ftrace's C code and its callbacks.
MEANINGS = {
    **dict.fromkeys((SITE, FUNCTION_BODY), theme.PLAIN),
    **dict.fromkeys(("ftrace_caller", "ftrace_regs_caller"), theme.RIGHT),
    **dict.fromkeys((LIST, DIRECT, "callback"), theme.ONE),
    TARGET: theme.TWO,
}
UNITS: dict[str, str] = {}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release with direct calls, case, and stretch of one call of a one-argument function.

    Columns: isa, release, case, step (the number of the stretch, from 1), place (the site, a trampoline by its symbol, LIST with
    what it calls to test, DIRECT, callback, TARGET with its own callback, or the function's body), instructions, loads, stores,
    text (these instructions, a line each), right (does the function return what it returns unhooked?).
    """
    frame = pd.DataFrame(every_release(_ways))
    frame.attrs["units"] = UNITS
    return frame


def _ways(isa: str, release: str) -> list[dict[str, object]]:
    """The rows of one kernel; none without direct calls."""
    kernel, items = Kernel(isa, release), []
    if not kernel.features["direct"]:
        return []
    function = kernel.function(FUNCTION)
    idle = kernel.call(function, *ARGUMENTS)
    for case, hook in CASES.items():
        with kernel.attached(function, *hooks.requests(hooks.get(hook), 1)):
            run = kernel.call(function, *ARGUMENTS)
        stretches = itertools.groupby(run.steps, functools.partial(_place, run))
        for step, (place, part) in enumerate(stretches, 1):
            steps = list(part)
            stores = [is_store for s in steps for *_, is_store in s.accesses]
            head = {"case": case, "step": step, "place": place, "instructions": len(steps)}
            head |= {"loads": stores.count(False), "stores": stores.count(True)}
            items.append({**head, "text": "\n".join(run.instructions[s.pc].text for s in steps), "right": run.value == idle.value})
    return items


def _place(run: Run, issued: Issued) -> str:
    """What an instruction belongs to, as a reader calls it."""
    component, symbol = run.component_of(issued.pc), run.symbol_of(issued.pc)
    if symbol.startswith("lab_direct_"):
        return TARGET
    if component == "trampoline" or symbol == "call_direct_funcs":
        return symbol
    return {"core": LIST, "function": FUNCTION_BODY}.get(component, component)


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the kernels that the page shows, named by both ISA and release in the column isa."""
    keys = frame[["isa", "release"]].apply(tuple, axis=1)
    plotted = pd.concat([frame[keys == kernel] for kernel in kernels()], ignore_index=True)
    plotted["case"] = [starred(r.case, r.isa, r.release) for r in plotted.itertuples()]
    plotted["isa"] = [f"{phrases.isa_name(r.isa)} {r.release}" for r in plotted.itertuples()]
    return plotted


def starred(case: str, isa: str, release: str) -> str:
    """A case, with the mark where no kernel of an ISA and release has it."""
    return phrases.marked(case, hooks.hypothetical(CASES[case], isa, release))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per kernel and a column per case: the stretches in order, each with its number of instructions."""
    stars = frame["case"].str.endswith(phrases.MARK)
    cells = frame.assign(case=frame["case"].str.removesuffix(phrases.MARK))
    cells["cell"] = [phrases.marked(f"{r.place} {r.instructions}", star) for r, star in zip(frame.itertuples(), stars, strict=True)]
    wide = cells.pivot(index=["isa", "step"], columns="case", values="cell")
    wide = wide.reindex(pd.MultiIndex.from_frame(frame[["isa", "step"]].drop_duplicates()).sort_values())
    order = pd.unique(frame["isa"])
    wide = wide[list(CASES)].reset_index().sort_values("isa", key=lambda c: c.map(list(order).index), kind="stable")
    return wide.astype(object).where(wide.notna(), "").rename_axis(columns=None).reset_index(drop=True)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(shown(frame))


def detours(frame: pd.DataFrame) -> pd.DataFrame:
    """What the site and the trampoline of ftrace execute before a direct call that is out of reach, one row per instruction; of
    kernels in which the layout allows such a one. Columns: isa, of (the site or the trampoline), instruction."""
    items = []
    for isa, part in frame[frame["case"] == FAR].groupby("isa", sort=False):
        before = part[part["step"] < part.loc[part["place"] == TARGET, "step"].min()]
        if len(before) > 1:
            items += [{"isa": isa, "of": r.place, "instruction": text} for r in before.itertuples() for text in r.text.split("\n")]
    return pd.DataFrame(items, columns=["isa", "of", "instruction"])


def way(frame: pd.DataFrame, isa: str, release: str, case: str) -> list[str]:
    """The places of one case of one kernel, in order."""
    chosen = (frame["isa"] == isa) & (frame["release"] == release) & (frame["case"] == case)
    return frame.loc[chosen, "place"].to_list()


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: of arm64 in the newest release the instructions and stores of ftrace_caller before it leaves to a
    direct call out of reach ("far-instructions", "far-stores")."""
    _, release = kernels()[0]
    of = frame[(frame["isa"] == "arm64") & (frame["release"] == release) & (frame["place"] == "ftrace_caller")]
    far = of[of["case"] == FAR]
    return {f"far-{what}": int(far[what].sum()) for what in ("instructions", "stores")}


LIMITS = (
    "Emulated: one call of a one-argument function in the lab; no timing. The direct call's code is a stub that saves the "
    "arguments and calls a counter."
)

FIGURES = (
    Figure(
        "fig-reach-ways",
        "By which way is a direct call made?",
        rows=shown,
        chart=state_strip("step", "case", "place", meanings=MEANINGS),
        table=table,
        tabs="isa",
        alt="For each kernel three lanes, one per case: near, far and shared. The blocks are what runs, from the site to "
        "the function. The table has the instructions of each block.",
        limits=LIMITS,
        hypothetical=True,
    ),
    Figure(
        "fig-reach-detour",
        "What runs before a direct call that is out of reach?",
        rows=lambda frame: detours(shown(frame)),
        table=lambda frame: frame,
        limits=LIMITS,
    ),
)
