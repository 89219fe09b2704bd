"""What does a hook cost against the number of the function's arguments: is it made for the function, or for every function?"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import STUDIED

from ....publish.figures.chart import dumbbell
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.hypothetical import flagged, named
from ...shared.order import largest_first

NAME = "arguments"
TITLE = "What each argument of the function costs"
#: A line each, so at most six: what kernels have, and trampolines for one ops that differ in nothing but what they save.
SHOWN = ("bpf-fentry", "ops", "ops-own-regs", "ops-clobbered", "ops-own-args", "ops-live")
#: Those that are made for the function.
MADE = ("bpf-fentry", "ops-live")
UNITS = {"load_bytes": "B", "store_bytes": "B", "bytes_moved": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, hook and number of arguments, in the newest release: what one hooked call adds to the unhooked one.

    Columns: isa, hook, hypothetical, args, instructions, loads, stores, load_bytes, store_bytes, branches_taken, bytes_moved (the
    bytes loaded and stored). A hook that the release does not have on an ISA has no rows there.
    """
    records = []
    for isa in ISAS.values():
        kernel = Kernel(isa.name, releases.LATEST, meter=COUNT)
        for name in SHOWN:
            if not kernel.features[hooks.get(name).needs]:
                continue
            for args, called in enumerate(STUDIED):
                function, values = kernel.function(called), tuple(range(1, args + 1))
                base = kernel.call(function, *values).counts.total
                with kernel.attached(function, *hooks.requests(hooks.get(name), 1)):
                    added = (kernel.call(function, *values).counts.total - base).as_dict()
                moved = added["load_bytes"] + added["store_bytes"]
                records.append({"isa": isa.name, "hook": name, "args": args, **added, "bytes_moved": moved})
    frame = flagged(pd.DataFrame(records))
    frame.attrs["units"] = UNITS
    return frame


def table(value: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function from rows to a table of one value: a line per ISA and hook, a column per number of arguments."""

    def apply(rows: pd.DataFrame) -> pd.DataFrame:
        frame, keys = named(rows), ["isa", "hook"]
        wide = frame.pivot(index=keys, columns="args", values=value)
        wide = wide.reindex(pd.MultiIndex.from_frame(frame[keys].drop_duplicates())).reset_index()
        wide.columns = [str(name) for name in wide.columns]
        unit = UNITS.get(value)
        wide.attrs["units"] = {str(n): unit for n in range(len(STUDIED))} if unit else {}
        return wide

    return apply


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: per ISA the instructions added, then the bytes moved."""
    wide = [table(value)(frame).assign(of=of) for of, value in (("insns", "instructions"), ("bytes", "bytes_moved"))]
    both = pd.concat([part[part["isa"] == isa] for isa in ISAS for part in wide], ignore_index=True)
    return both[["isa", "of", "hook", *map(str, range(len(STUDIED)))]]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by ISA and hook: "arm64-ops-0" and "arm64-ops-8", the bytes moved around a function of no and
    of eight arguments, and "arm64-ops-added", the instructions added with two arguments. Of hooks made for the function, and of the
    others, on all ISAs: "made-lines" and "other-lines", how many there are, "-flat", of how many the instructions are the same for
    every function, and "-flat-bytes", of how many the bytes."""
    values: dict[str, object] = {}
    for (isa, hook), line in frame.groupby(["isa", "hook"], sort=False):
        moved = line.set_index("args")["bytes_moved"]
        for args in (moved.index[0], moved.index[-1]):
            values[f"{isa}-{hook}-{args}"] = int(moved[args])
        values[f"{isa}-{hook}-added"] = int(line.set_index("args")["instructions"][2])
    flat = frame.groupby(["isa", "hook"])[["instructions", "bytes_moved"]].nunique() == 1
    made = flat.index.isin(MADE, level="hook")
    for name, part in (("made", flat[made]), ("other", flat[~made])):
        values[f"{name}-lines"] = len(part)
        values |= {f"{name}-flat": int(part["instructions"].sum()), f"{name}-flat-bytes": int(part["bytes_moved"].sum())}
    return values


_LIMITS = (
    f"{releases.LATEST}; emulated counts of one call, one callback, functions of no to eight integers; no timing. On x86-64 "
    "the seventh and the eighth argument are on the stack. What is hypothetical lies in reach of the site on every ISA; BPF's code "
    f"lies so on x86-64 and arm64."
)


def _ends(frame: pd.DataFrame) -> pd.DataFrame:
    """What each hook adds to a function without arguments and to the one with most, the most expensive first."""
    said = {0: "no argument", frame["args"].max(): f"{frame['args'].max()} arguments"}
    return largest_first(frame[frame["args"].isin(said)].assign(args=lambda ends: ends["args"].map(said)), "hook", "instructions")


def bytes_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Bytes moved: a line per hook, a column per ISA; of a line that is not flat those without arguments and with the most."""
    frame = named(rows).sort_values("args", kind="stable")
    ends = frame.groupby(["hook", "isa"], sort=False)["bytes_moved"].agg(["first", "last"])
    ends["said"] = [str(r.first) if r.first == r.last else f"{r.first} to {r.last}" for r in ends.itertuples()]
    isas = list(dict.fromkeys(frame["isa"]))
    printed = ends["said"].unstack("isa").reindex(index=dict.fromkeys(frame["hook"]), columns=isas).reset_index()
    printed.columns.name = None
    printed.attrs = {"units": dict.fromkeys(isas, "B"), "right": isas}
    return printed


FIGURES = (
    Figure(
        "fig-arguments",
        "What does a hook add, by what it saves and by what the function takes?",
        chart=lambda frame: dumbbell("instructions", "hook", "args", shared=True)(_ends(named(frame))),
        table=table("instructions"),
        alt="A panel per ISA with a line per hook: instructions that it adds to a call of a function without arguments, and "
        "to one of a function with eight. The two are apart for BPF's fentry and for the trampoline that saves the live "
        "arguments, and the same for all others. The table below has every number.",
        limits=_LIMITS,
        hypothetical=True,
    ),
    Figure(
        "fig-arguments-bytes",
        "How many bytes does a hook move, from no argument to eight?",
        table=bytes_table,
        limits=_LIMITS,
        hypothetical=True,
    ),
)
