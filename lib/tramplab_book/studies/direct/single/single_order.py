"""Which writes must be ordered, and what does a CPU do between two of them? A call after every step, in every order, and halted."""

from __future__ import annotations

import pandas as pd

from ....publish.figures.chart import state_strip, theme
from ....publish.figures.figure import Figure
from ...memo import once
from . import during_plan
from .during_plan import CHANGES, Seen
from .setups import Setup, setups, shown

NAME = "single_order"
TITLE = "One ops for all direct calls: what a call meets while it changes"
NEAR, FAR = "near", "far"
#: The writes of a plan that are to the lists of ops, their filters, and what is passed on.
LIST = "list"
#: The steps that are drawn, in the order in which all changes have them: the table comes first, and goes last.
_TABLE = ("table out", "table in")
STEPS = ("before", "table in", "word", "own word", "site", "table out")
#: The changes that are drawn, the one in which the table goes as the last, and what a call may run.
DRAWN = ("attach", "share", "detach")
RAN = {"nothing": theme.PLAIN, "direct": theme.TWO, "direct + ops": theme.ONE, "ops": theme.RIGHT}
#: What a table says for what a call ran.
SHORT = {"direct + ops": "both", "nothing": "-"}
UNITS = dict.fromkeys(("calls", "sets", "halted", "third", "overwritten"), "calls")


@once
def found() -> dict[tuple[Setup, str, str], Seen]:
    """What was seen, by setup, NEAR or FAR, and change; not of x86-64, whose sites are changed under breakpoints."""
    chosen = [s for s in setups() if s.isa != "x86_64"]
    return {(s, t, c): during_plan.seen(s, c, t == NEAR) for s in chosen for t in (FAR, NEAR) for c in CHANGES}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way, target (near, far), change (during_plan.CHANGES) and live write of its plan.

    Columns: isa, release, way, hypothetical, target, change, old and new (what a call ran before and after), write (what it is of),
    ran (by a call after it), and of the whole change: calls (one after each step), sets (calls, one with each set of the live
    writes), halted (calls, one at each instruction of site and trampoline, while the plan was carried out), third (those of all
    that ran neither old nor new), back (ran a call the old again after the new?), fixed (pairs of writes that may not change
    places), overwritten (those of the halted that went wrong where what is freed was overwritten at once).
    """
    records = []
    for (setup, target, change), s in found().items():
        whole = {"old": s.old, "new": s.new}
        tried: dict[str, object] = {"calls": len(s.after), "sets": len(s.sets), "halted": len(s.halted)}
        tried |= {"third": s.wrong((*s.after, *s.sets, *s.halted)), "back": s.back}
        tried |= {"fixed": "; ".join(f"{a} before {b}" for a, b in s.fixed), "overwritten": s.wrong(s.overwritten)}
        for write, ran in s.between:
            head = {**setup.head, "target": target, "change": change}
            records.append({**head, **whole, "write": write, "ran": ran, **tried})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


# -- what is shown


def changes(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per change, without its writes."""
    keys = ["isa", "release", "way", "hypothetical", "target", "change"]
    return frame.drop(columns=["write", "ran"]).drop_duplicates(keys, ignore_index=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per change of a far target and live write: what a call runs after it on arm64, a column per way. Writes to the lists
    are left out where no call runs otherwise behind them."""
    far = shown(frame[frame["target"] == FAR])
    far["ran"] = far["ran"].replace(SHORT)
    far["nth"] = far.groupby(["isa", "way", "change", "write"]).cumcount()
    ways = list(dict.fromkeys(far["way"]))
    lines = []
    for change in CHANGES:
        part = far[(far["change"] == change) & (far["isa"] == far["isa"].iloc[0])]
        for write, nth in _merged(part):
            ran = part[(part["write"] == write) & (part["nth"] == nth)].set_index("way")["ran"]
            lines.append({"change": change, "after": write, **{way: ran.get(way, ".") for way in ways}})
    printed = pd.DataFrame(lines)
    last = printed[ways].where(printed[ways] != ".").groupby(printed["change"], sort=False).ffill()
    before = last.groupby(printed["change"], sort=False).shift()
    old = part_of(far, "old").reindex(list(printed["change"])).set_axis(printed.index)
    changed = (printed[ways] != ".") & (printed[ways] != before.where(before.notna(), old[ways]))
    return printed[(printed["after"] != LIST) | changed.any(axis=1)].reset_index(drop=True)


def part_of(far: pd.DataFrame, column: str) -> pd.DataFrame:
    """What is the same for all of a change, by change and way."""
    return far.drop_duplicates(["way", "change"]).pivot(index="change", columns="way", values=column).replace(SHORT)


def _merged(part: pd.DataFrame) -> list[tuple[str, int]]:
    """The live writes of all ways in one order that agrees with each."""
    orders = [list(zip(p["write"], p["nth"], strict=True)) for _, p in part.groupby("way", sort=False)]
    items: list[tuple[str, int]] = []
    while any(orders):
        heads = [o[0] for o in orders if o]
        chosen = next((h for h in heads if not any(h in o[1:] for o in orders)), heads[0])
        items.append(chosen)
        orders = [[w for w in o if w != chosen] for o in orders]
    return items


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The lines of the table for the changes that are drawn, with what was there before the first write: one row per change, step
    and way. Where a change or a way has no such write, it goes on as it was."""
    lines = table(frame)
    long = {short: what for what, short in SHORT.items()}
    olds = part_of(shown(frame[frame["target"] == FAR]), "old")
    records = []
    for change in DRAWN:
        of = lines[lines["change"] == change].replace({"after": {"table": _TABLE[change != DRAWN[-1]]}}).set_index("after")
        for way in lines.columns.difference(["change", "after"], sort=False):
            state = olds.loc[change, way]
            for step in STEPS:
                ran = of[way].get(step, ".")
                state = state if ran == "." else ran
                records.append({"change": change, "step": step, "way": way, "state": long.get(state, state)})
    return pd.DataFrame(records)


def safety(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA, way and target: calls tried, those that ran neither, writes that may not change places, and halted calls that
    go wrong without the wait."""
    of = shown(changes(frame))
    keys = ["isa", "way", "target"]
    out = of.groupby(keys, sort=False, as_index=False)[["calls", "sets", "halted", "third", "overwritten"]].sum()
    fixed = of.groupby(keys, sort=False)["fixed"].agg(lambda pairs: "; ".join(dict.fromkeys(filter(None, pairs))) or "none")
    return out.assign(ordered=list(fixed))


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return safety(frame)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "calls" and "third" of all; "arm64-lookup-overwritten" and "-halted", of far targets."""
    of = changes(frame)
    values: dict[str, object] = {"calls": _calls(of), "third": int(of["third"].sum())}
    far = of[of["target"] == FAR].groupby(["isa", "way"], sort=False)[["halted", "overwritten"]].sum()
    for (isa, way), n in far.iterrows():
        values |= {f"{isa}-{way}-overwritten": int(n["overwritten"]), f"{isa}-{way}-halted": int(n["halted"])}
    return values


def _calls(of: pd.DataFrame) -> int:
    """All calls that were made of these changes."""
    return int(of[["calls", "sets", "halted"]].sum(axis=None))


FIGURES = (
    Figure(
        "fig-single-order",
        "What does a call run between two writes?",
        chart=lambda frame: state_strip(lane="way", facet="change", meanings=RAN)(drawn(frame)),
        table=table,
        alt="A panel for attaching a far direct call, for an ops that comes to share the function, and for detaching: what a call "
        "runs before the first write to what calls read, and after each, in every way. The table has the other changes.",
        limits="One CPU that calls or was halted, and one that writes; every store is seen at once, so what barriers are for is "
        "not tried. Far targets on arm64; both: direct call and ops; -: nothing; .: no such write. table: direct_functions; list: "
        "of ops; word: the callsite's, ops or target; own word: the target's; join, leave: the direct call beside an ops.",
        hypothetical=True,
    ),
    Figure(
        "fig-single-safety",
        "Which order and which wait does each way need?",
        table=safety,
        limits="calls: after each step; sets: with each set of the live writes; halted: at each instruction of site and "
        "trampoline; third: ran neither old nor new; ordered: writes that may not change places. overwritten: halted calls that go "
        "wrong where what ftrace frees is overwritten at once; the stub itself is not freed here. One CPU at a time, every store "
        "is seen at once.",
        hypothetical=True,
    ),
)
