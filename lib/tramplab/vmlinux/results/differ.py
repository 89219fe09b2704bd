"""Two kernels side by side: before and after a patch, two versions, two configurations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...base.errors import TramplabError
from .beside import plain
from .result import added

#: The compared fields of a hook -> their headings in a table.
FIELDS = {
    "instructions": "insns",
    "loads": "loads",
    "stores": "stores",
    "branches_taken": "taken",
    "frame_bytes": "frame B",
    "stack_bytes": "stack B",
    "mispredicts": "missed returns",
}


@dataclass(frozen=True)
class Change:
    """One hook on two kernels.

    before, after: by the names of FIELDS; None where it was not measured, for the reason in `said`.
    symbols: (name, instructions before, after) of each function whose share changed, the largest change first.
    """

    hook: str
    before: dict[str, int] | None
    after: dict[str, int] | None
    said: str
    symbols: tuple[tuple[str, int, int], ...]

    @property
    def differs(self) -> bool:
        """Is anything different, if only which functions do it?"""
        return self.before != self.after or bool(self.symbols)


def changes(a: dict[str, Any], b: dict[str, Any]) -> list[Change]:
    """What differs between two kernels' results, hook by hook. Raises TramplabError for kernels of two ISAs, for results of
    different functions, and for texts that were brought to different states."""
    require_one_isa(a["kernel"]["isa"], b["kernel"]["isa"])
    states = [state(kernel["kernel"]) for kernel in (a, b)]
    if states[0] != states[1]:
        raise TramplabError(
            f"the two texts are in different states of boot, so their counts do not compare: that of the first kernel is "
            f"{states[0]!r}, that of the second {states[1]!r}: measure both in the same way."
        )
    if a["function"] != b["function"]:
        raise TramplabError(f"one result is of {a['function']} and one of {b['function']}: measure the same function in both.")
    rows = {row["hook"]: row for row in b["hooks"]}
    return [_change(row, rows[row["hook"]]) for row in a["hooks"] if row["hook"] in rows]


def state(kernel: dict[str, Any]) -> str:
    """The state that the text of a kernel was brought to, in words: what was patched, without numbers, and without the patch
    sites, which are as the kernel has them.

    >>> state({"mitigations": "none", "booted": ["12 patch sites became NOPs", "3 of 9 alternatives applied, for a CPU"]})
    'mitigations none; N of N alternatives applied, for a CPU'
    """
    done = [re.sub(r"\d+", "N", line) for line in kernel["booted"] if "patch sites" not in line]
    return "; ".join([f"mitigations {kernel['mitigations']}", *done])


def require_one_isa(first: str, second: str) -> None:
    """Raise TramplabError for kernels of two architectures."""
    if first != second:
        raise TramplabError(f"the first kernel is for {first} and the second for {second}: give two of one architecture.")


def _change(a: dict[str, Any], b: dict[str, Any]) -> Change:
    before, after = (_fields(row) for row in (a, b))
    reasons = "; ".join(
        f"{which}: {row['reason']}" for which, row in (("before", a), ("after", b)) if row["status"] != "measured"
    )
    ours, theirs = (_instructions(row) if before and after else {} for row in (a, b))
    counts = [(name, ours.get(name, 0), theirs.get(name, 0)) for name in sorted({*ours, *theirs})]
    moved = sorted((c for c in counts if c[1] != c[2]), key=lambda c: (-abs(c[2] - c[1]), c[0]))
    return Change(a["hook"], before, after, reasons, tuple(moved))


def _instructions(row: dict[str, Any]) -> dict[str, int]:
    """Instructions by function; copies that GCC makes of one (name.isra.0, name.part.0) are that one."""
    by_function: dict[str, int] = {}
    for name, (instructions, *_) in row["symbols"].items():
        by_function[plain(name)] = by_function.get(plain(name), 0) + instructions
    return by_function


def _fields(row: dict[str, Any]) -> dict[str, int] | None:
    if row["status"] != "measured":
        return None
    counts = added(row)
    return {
        **{name: counts[name] for name in FIELDS if name in counts},
        "frame_bytes": row["frame_bytes"],
        "stack_bytes": row["stack_bytes"],
        "mispredicts": row["return_mispredicts"]["own"],
    }
