"""Do a kretprobe's users break under what is to replace it? The claim, on what they read, and what Debian's kernels show of it."""

from __future__ import annotations

import pandas as pd

from ....publish.claims.verdict import BY_RELEASE, Seen, Verdict, across, in_kernels, judges
from ....publish.phrases import isa_name, listed, on_each
from . import migrated
from .migrated import LATEST, LOST, OLDER, PROGRAM, SAME, SHIMMED, STAP


@judges("k5")
def users_break(frame: pd.DataFrame | None = None, before: pd.DataFrame | None = None) -> Verdict:
    """True of a field on an ISA in a release if programs of BPF or systemtap read it correctly under a kretprobe, and not the same
    under the replacement; what a shim brings back is broken without it."""
    data = migrated.rows() if frame is None else frame
    earlier = migrated.older() if before is None else before
    asked = pd.concat([data.assign(release=LATEST), earlier], ignore_index=True)
    every = asked[asked["use"].isin((PROGRAM, STAP)) & asked["outcome"].isin((SAME, SHIMMED, LOST))]
    dimensions = {"field": "what is read", **BY_RELEASE}
    kind, on = across(every.assign(truth=every["outcome"] != SAME), dimensions)
    some = every[every["release"] == LATEST]
    isas = list(dict.fromkeys(some["isa"]))
    values: dict[str, int | float | str] = {}
    parts = []
    for use, called in ((PROGRAM, "a BPF program"), (STAP, "a systemtap script")):
        by = {isa: some[(some["use"] == use) & (some["isa"] == isa)]["outcome"].value_counts() for isa in isas}
        broken = {isa: f"{int(n.sum() - n.get(SAME, 0))} of {int(n.sum())}" for isa, n in by.items()}
        gone = {isa: int(n.get(LOST, 0)) for isa, n in by.items()}
        values |= {f"{use}, {isa_name(isa)}": f"{broken[isa]}, {gone[isa]} with a shim" for isa in isas}
        parts.append(f"{called} {on_each(broken)} (with a shim {listed(str(n) for n in gone.values())})")
    value = " Nothing breaks for who reads the value alone." if (some[some["field"] == "value"]["outcome"] == SAME).all() else ""
    because = (
        f"Of the fields that are read correctly under a kretprobe, these are not the same afterwards in {LATEST}: for {parts[0]}, "
        f"and for {parts[1]}.{value}{_more_before(every)}"
    )
    return Verdict(kind, because, values, on)


def _more_before(every: pd.DataFrame) -> str:
    """How many fields of a BPF program were not the same in the oldest of the releases, on ISAs where that is not as now."""
    programs = every[every["use"] == PROGRAM].assign(broken=every["outcome"] != SAME)
    broken = programs.groupby(["isa", "release"], sort=False)["broken"].sum()
    first = OLDER[0]
    then = {isa: int(broken[isa, first]) for isa in dict.fromkeys(every["isa"]) if broken[isa, first] != broken[isa, LATEST]}
    return f" In {first} they were {on_each(then)} for a BPF program." if then else ""


@in_kernels("k5")
def on_debian() -> Seen:
    """Do Debian's trampolines leave out the stack pointer where the lab's do?"""
    frame, data = migrated.rows(), migrated.stack_pointers()
    same = frame[(frame["use"] == PROGRAM) & (frame["field"] == "sp")].set_index("isa")["outcome"] == SAME
    without, having = (listed(data["kernel"][data["told"] == given]) or "none" for given in (False, True))
    text = f"return_to_handler of Debian's {without} does not pass the stack pointer, that of {having} does."
    return Seen(text, bool((data["told"] == data["isa"].map(same)).all()))
