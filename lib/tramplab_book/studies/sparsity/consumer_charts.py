"""What the charts of consumers show: the structures at a function's entry, and the fields that a conclusion rests on."""

from __future__ import annotations

import pandas as pd

from tramplab.sparsity.structures.views import ACCESSORS, PARTIAL, PERF

from ...publish.figures.chart import theme
from ..shared.consumers import NAMES
from ..variants.one_callback.register_map import as_ranges

#: The structures that the chart shows, as its columns are called: those at a function's entry in the newest release.
ENTRIES = {
    f"ftrace_caller, {ACCESSORS}": "ftrace_ regs",
    f"ftrace_caller, {PARTIAL}": "partial",
    f"ftrace_caller, {PERF}": "perf",
    "breakpoint": "trap",
}
#: Consumers that it leaves out: what is only asked of a return or of the structure itself, and kprobes that emulate another
#: instruction than a site has.
_NOT_DRAWN = ("return-value", "full", "emulate-branch", "emulate-call", "emulate-step")
#: The chart of what is read has one word for a cell.
READS, NOT_READ = "reads", "does not"
READING = {READS: theme.ONE, NOT_READ: theme.NOTHING}
#: Fields by what they are for, as columns of that chart; arguments are the rest.
ROLES = {
    "mode": {"cs", "flags", "pstate", "status"},
    "ip": {"ip", "pc", "epc"},
    "sp": {"sp"},
    "fp": {"bp", "x29", "s0"},
    "kept": {"bx", "x19", "s1"},
}
_REST = "args"


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that the chart has, of structures of ENTRIES and its consumers, with the ids of their runs; columns isa, consumer,
    view, outcome, run."""
    some = frame[frame["view"].isin(ENTRIES) & ~frame["consumer"].isin(_NOT_DRAWN)]
    some = some.assign(view=some["view"].map(ENTRIES), at=some["consumer"].map(list(NAMES).index))
    some = some.assign(consumer=some["consumer"].map(NAMES)).sort_values("at", kind="stable")
    return some[["isa", "consumer", "view", "outcome", "run"]]


def roles(frame: pd.DataFrame) -> pd.DataFrame:
    """Whether each consumer reads a field of each role, from rows of one pt_regs: columns isa, consumer, role (of ROLES, or the
    rest), read."""
    items = []
    for r in frame.itertuples():
        fields = set(str(r.fields).split())
        found = {role: bool(fields & names) for role, names in ROLES.items()}
        found[_REST] = bool(fields - set().union(*ROLES.values()))
        head = {"isa": r.isa, "consumer": NAMES[str(r.consumer)]}
        items += [{**head, "role": role, "read": READS if yes else NOT_READ} for role, yes in found.items()]
    return pd.DataFrame(items).sort_values(
        "consumer", key=lambda names: names.map(list(NAMES.values()).index), kind="stable", ignore_index=True
    )


def reads(frame: pd.DataFrame) -> pd.DataFrame:
    """The fields that each consumer reads, from rows of one pt_regs, fields that are read alike as one: columns isa, fields,
    consumer."""
    items = []
    for isa, part in frame.groupby("isa", sort=False):
        of = {str(r.consumer): str(r.fields).split() for r in part.itertuples()}
        alike: dict[tuple[bool, ...], list[str]] = {}
        for field in dict.fromkeys(f for fields in of.values() for f in fields):
            alike.setdefault(tuple(field in fields for fields in of.values()), []).append(field)
        for who, fields in alike.items():
            head = {"isa": isa, "fields": as_ranges(fields)}
            items += [{**head, "consumer": c} for c, yes in zip(of, who, strict=True) if yes]
    return pd.DataFrame(items)
