"""Which of the three cases of a direct call does CALL_OPS dispatch, and what runs in each?"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pandas as pd

from tramplab.ftrace import releases
from tramplab.isa import ISAS

from ...publish.figures.figure import Figure
from ..direct.reach import reach_ways
from ..direct.reach.reach_ways import DIRECT, FAR, LIST, NEAR, SHARED, SITE, TARGET
from ..memo import once

NAME = "direct_cases"
TITLE = "The three cases of a direct call beside CALL_OPS"
COMMON = "ftrace_caller"
#: What has run before the direct call's own code in each case, as commit 2aa6ac03516d has it.
EXPECTED = {NEAR: (SITE,), FAR: (SITE, COMMON), SHARED: (SITE, COMMON, LIST, DIRECT, COMMON)}
_SHORT = {LIST: "list"}
UNITS = {"instructions": "before", "loads": "before", "stores": "before"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and release whose kernels have both CALL_OPS and direct calls, and case: what runs before the direct call's
    own code. The runs are those of reach_ways.

    Columns: isa, release, case (NEAR, FAR, SHARED), places (what runs, in order, each once in a row), instructions, loads, stores
    (of the trampoline and the site, without callbacks and the list function), right (does the function return what it returns
    unhooked?), reached (does the direct call's code run?), allocated (where the release's allocator puts BPF's code: near, far or
    either).
    """
    records = []
    kernels = reach_ways.rows().groupby(["isa", "release", "case"], sort=False)
    for (isa, release, case), part in kernels:
        if not releases.features(ISAS[str(isa)], str(release), {})["call_ops"]:
            continue
        before = _before(part)
        row: dict[str, Any] = {"isa": isa, "release": release, "case": case, "places": tuple(_places(before))}
        row |= {name: _own(before, name) for name in UNITS}
        row["reached"] = len(before) < len(part)
        records.append(row | {"right": bool(part["right"].all()), "allocated": releases.reach(str(isa), str(release), "bpf").value})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def instructions(isa: str, release: str, case: str) -> int:
    """Instructions of site and trampoline before the direct call's own code, in any kernel with direct calls."""
    known = reach_ways.rows()
    return _own(_before(known[(known["isa"] == isa) & (known["release"] == release) & (known["case"] == case)]), "instructions")


def _before(part: pd.DataFrame) -> list[Any]:
    """The stretches of a call before the direct call's own code."""
    return list(takewhile(lambda r: r.place != TARGET, part.sort_values("step").itertuples()))


def _own(stretches: list[Any], name: str) -> int:
    """A count of the site and the trampoline."""
    return sum(int(getattr(r, name)) for r in stretches if r.place in (SITE, COMMON))


def _places(stretches: list[Any]) -> list[str]:
    """The places that a call goes through, as the commit tells them apart: callbacks of the list are the list's, and returns to
    what called count once."""
    found: list[str] = []
    for r in stretches:
        place = LIST if r.place == "callback" else str(r.place)
        if not found or found[-1] != place:
            found.append(place)
    return [place for n, place in enumerate(found) if not (place == LIST and DIRECT in found[:n])]


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the newest release."""
    return frame[frame["release"] == frame["release"].iloc[-1]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and case of the newest release: what runs before the direct call's code behind the site (the list function
    with all it calls), and what site and trampoline take."""
    part = newest(frame)
    printed = part[["isa", "case", "instructions", "loads", "stores"]].copy()
    printed["case"] = [reach_ways.starred(r.case, r.isa, r.release) for r in part.itertuples()]
    runs = [[_SHORT.get(p, p) for p in places if p not in (SITE, DIRECT)] for places in part["places"]]
    printed.insert(2, "before", [", ".join(dict.fromkeys(places)) or "-" for places in runs])
    printed.attrs["units"] = {}
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "riscv64-far-instructions" before the direct call's code in the newest release, "-loads" and
    "-stores"; "arm64-allocated", near, far or either; and of all releases "cases-total", and in how many of these runs what the
    commit describes and the function returns what it does unhooked, "cases-described"."""
    part = newest(frame)
    values: dict[str, object] = {f"{r.isa}-{r.case}-{n}": getattr(r, n) for r in part.itertuples() for n in UNITS}
    values |= {f"{r.isa}-allocated": r.allocated for r in part.itertuples()}
    described = [
        r.places == EXPECTED[str(r.case)] and r.reached and r.right and (r.case == SHARED or not r.stores)
        for r in frame.itertuples()
    ]
    return values | {"cases-described": sum(map(bool, described)), "cases-total": len(frame)}


FIGURES = (
    Figure(
        "fig-direct-cases",
        "Which instructions run before a direct call's own code?",
        table=table,
        limits="Emulated: one call of a one-argument function in the newest release, no timing. Instructions, loads and stores: "
        "those of the site and of ftrace_caller, before and behind the list function.",
        hypothetical=True,
    ),
)
