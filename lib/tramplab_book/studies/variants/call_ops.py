"""What CALL_OPS buys: the calls of the two series that brought it, before and after, counted and as they were timed."""

from __future__ import annotations

import pandas as pd

from ...publish.figures.figure import Figure
from ..memo import once
from ..time import published_call_ops

NAME = "call_ops"
TITLE = "What CALL_OPS buys"
UNITS = {
    "instructions_before": "added",
    "instructions_after": "added",
    "ns_before": "published",
    "ns_after": "published",
}
#: A case of the published tables, ops on the function and on another one -> how it is called.
CASES = {
    "1/0": "one ops",
    "1/1": "one ops, 1 elsewhere",
    "1/10": "one ops, 10 elsewhere",
    "2/0": "two ops",
    "10/0": "ten ops",
}
#: Static ops, in the kernel's own data, which were not timed: ops on the function and on another one -> the name of the case.
STATIC = {(1, 0): "one static ops", (1, 1): "one static ops, 1 elsewhere"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and case; the releases and machines are those of published_call_ops.TABLES.

    Columns: isa, before, after (the lab's releases), machine (that was timed), case, then what the ops add to a call without
    CALL_OPS and with it: instructions_before, instructions_after (the lab's, of the book's call), ns_before, ns_after (published,
    of the series' call; None of STATIC). Ops are dynamic, as the module's that was timed, but for those of STATIC.
    """
    found = published_call_ops.rows().set_index(["machine", "case"])["published"]
    records = []
    for table in published_call_ops.TABLES:
        if table.core is None:  # an emulator's times
            continue
        head = {"isa": table.isa, "before": table.before, "after": table.after, "machine": table.machine}
        loads = [(*map(int, case.split("/")), True, name) for case, name in CASES.items()]
        for here, elsewhere, dynamic, name in [*loads, *((*load, False, name) for load, name in STATIC.items())]:
            row: dict[str, object] = {**head, "case": name, **dict.fromkeys(UNITS)}
            for side, release in (("before", table.before), ("after", table.after)):
                both = published_call_ops.run(table.isa, release, here, elsewhere, dynamic, published_call_ops.STANDARD)
                row[f"instructions_{side}"] = published_call_ops.instructions(*both)
                row[f"ns_{side}"] = found[table.machine, f"{side} {here}/{elsewhere}"] if dynamic else None
            records.append(row)
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A part per ISA, a line per case."""
    printed = frame.drop(columns=["isa", "before", "after", "machine"])
    parts = frame["isa"] + " " + frame["before"] + " to " + frame["after"] + ", timed on " + frame["machine"]
    printed.insert(0, "isa", parts)
    printed = printed.rename(columns={"instructions_before": "before", "instructions_after": "after"})
    printed.attrs["units"] = {"before": "added", "after": "added", "ns_before": "published", "ns_after": "published"}
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by names like "riscv64-one-ops-10-elsewhere-instructions-before"."""
    values: dict[str, object] = {}
    for row in frame.itertuples():
        name = f"{row.isa}-{str(row.case).replace(',', '').replace(' ', '-')}"
        for column in (c for c in UNITS if not pd.isna(getattr(row, c))):
            values[f"{name}-{column.replace('_', '-')}"] = f"{getattr(row, column):g}"
    return values


FIGURES = (
    Figure(
        "fig-call-ops",
        "What does CALL_OPS buy?",
        table=table,
        limits="Ops are dynamic, as those of the module that was timed. Instructions are counts of the lab; nanoseconds are "
        "published, of kernels, a function without arguments and an empty callback (M1: a virtual machine, message "
        "20230123134603.1064407-9-mark.rutland@arm.com; K1: "
        f"20250407180838.42877-10-andybnac@gmail.com). {published_call_ops.LIKE_SERIES}",
    ),
)
