"""What does it cost to keep a kretprobe's handler on an fprobe: beside the kretprobe, and beside a handler of the fprobe's own?"""

from __future__ import annotations

import functools

import pandas as pd

from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.returns import migration
from tramplab.returns.migration import BEFORE, FIELDS, FPROBE, SHIMS

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from ...shared.hypothetical import named
from ..costs.return_costs import with_and_without
from .migrated import LATEST, tells

NAME = "return_shims"
TITLE = "A kretprobe's handler on an fprobe, by a shim"
#: The handlers that run: at the return, or at the entry and the return.
RETURN, BOTH = PROBES = ("return", "entry and return")
HOOK, SHIM = PARTS = ("kretprobe, fprobe", "shim")
_SHIMMED, _HANDLERS = ("lab_shim_", "memcpy"), ("lab_kretprobe_", "lab_fprobe_")
UNITS = {"instructions": "insns"}


def name(how: str) -> str:
    """The name of a way in charts and tables: a shim is named by how much it fills.

    >>> name("fprobe"), name("where")
    ('fprobe', 'shim where')
    """
    return f"shim {how}" if how in SHIMS else how


@once
def rows() -> pd.DataFrame:
    """One row per ISA, probe (PROBES), way and part of what a call executes more than the unhooked one, without the handlers.

    Columns: isa, probe, how (a kretprobe, an fprobe with handlers of its own, or a shim), name (as shown), hypothetical, part (of
    PARTS), instructions, loads, stores; and of the whole call with a handler at the return alone, in each of its rows: right, asked
    (fields that are right in the handler, of those that are in a kretprobe's).
    """
    records = []
    for isa in ISAS:
        for probe in PROBES:
            for how in (BEFORE, FPROBE, *SHIMS):
                head = {"isa": isa, "probe": probe, "how": how, "name": name(how), "hypothetical": how in SHIMS}
                calls = _calls(isa, how, probe == BOTH)
                whole = _whole(isa, how) if probe == RETURN else {}
                records += [{**head, **part, **whole} for part in _parts(*calls)]
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


@functools.cache
def kernel(isa: str) -> Kernel:
    """The kernel for counting. Others leave flags in the kernels that they use, and the ways of interrupts depend on these."""
    return Kernel(isa, LATEST)


def _calls(isa: str, how: str, entry: bool) -> tuple[Run, Run]:
    made = kernel(isa)
    return with_and_without(made, migration.request(made, how, entry=entry))


def _parts(hooked: Run, idle: Run) -> list[dict[str, object]]:
    found = dict.fromkeys(PARTS, idle.counts.total - idle.counts.total)
    for symbol, counts in hooked.counts.by_symbol.items():
        if not symbol.startswith(_HANDLERS):
            found[SHIM if symbol.startswith(_SHIMMED) else HOOK] += counts
    found[HOOK] -= idle.counts.total
    return [{"part": p, "instructions": c.instructions, "loads": c.loads, "stores": c.stores} for p, c in found.items()]


def _whole(isa: str, how: str) -> dict[str, object]:
    right, before = tells(isa, how).right, tells(isa, BEFORE).right
    asked = [field for field in FIELDS if before[field]]
    return {"right": sum(bool(right[field]) for field in asked), "asked": len(asked)}


# --- What is shown


def totals(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per ISA, probe and way: instructions, loads and stores of all parts, and what is known of the whole call."""
    sums = dict.fromkeys(("instructions", "loads", "stores"), "sum") | dict.fromkeys(("right", "asked"), "first")
    out = frame.groupby(["isa", "probe", "how", "name", "hypothetical"], sort=False).agg(sums).reset_index()
    return out.astype(dict.fromkeys(("right", "asked"), "Int64"))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way: what it adds to a call with a handler at the return, the shim's share, what it adds with one at the
    entry too, and how many fields are right."""
    data = named(totals(frame), "name")
    some = data[data["probe"] == RETURN].reset_index(drop=True)
    both = data[data["probe"] == BOTH].set_index(["isa", "how"])["instructions"]
    part = frame[(frame["part"] == SHIM) & (frame["probe"] == RETURN)].set_index(["isa", "how"])["instructions"]
    printed = some[["isa", "name", "instructions"]].rename(columns={"instructions": "insns"})
    printed["shim"] = [part[r.isa, r.how] for r in some.itertuples()]
    printed["both"] = [both[r.isa, r.how] for r in some.itertuples()]
    printed["right"] = [f"{r.right}/{r.asked}" for r in some.itertuples()]
    printed.attrs["right"] = ["insns", "shim", "both", "right"]
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, as in "arm64-where-added": instructions with a handler at the return; "-shim" the shim's part,
    "-right" and "-asked"."""
    values: dict[str, object] = {}
    shim = frame[(frame["part"] == SHIM) & (frame["probe"] == RETURN)].set_index(["isa", "how"])["instructions"]
    data = totals(frame)
    for r in data[data["probe"] == RETURN].itertuples():
        key = f"{r.isa}-{slug(r.how)}"
        values |= {f"{key}-added": int(r.instructions), f"{key}-shim": int(shim[r.isa, r.how])}
        values |= {f"{key}-right": int(r.right), f"{key}-asked": int(r.asked)}
    return values


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """What the chart has: handlers at the return."""
    some = frame[(frame["probe"] == RETURN) & (frame["instructions"] > 0)]
    out = named(some, "name")
    out.attrs["units"] = UNITS
    return out


FIGURES = (
    Figure(
        "fig-return-shims",
        "What does it cost to keep an old handler?",
        chart=lambda frame: stacked_bars("instructions", bars=("name",), stack="part")(drawn(frame)),
        table=table,
        alt="A panel per ISA with a bar per way to run a handler at a return: a kretprobe, an fprobe with a handler of its own, "
        "and shims that fill more and more, the shim's part in a colour of its own.",
        limits=f"Emulated counts of one call in {LATEST}, without the handlers.",
        legend="right: fields told as at the return / those that a kretprobe tells so.",
        hypothetical=True,
    ),
)
