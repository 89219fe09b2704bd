"""Whose handlers run when an fprobe declines a call? In the lab and on booted kernels, from before and after the list of those that
want the return was ended."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.boot import saved
from tramplab.boot.readings import Module, those
from tramplab.ftrace.ops import Request
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.fprobe import Fprobe
from tramplab.trampolines.plain import Ops

from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, slug
from ..memo import once

NAME = "list_ended"
TITLE = "Handlers of another function's fprobes"
#: A kernel of the lab -> its release, and what is set by hand.
_LAB: dict[str, tuple[str, dict[str, Any]]] = {
    "lab v7.0": ("v7.0", {}),
    "lab v7.2": ("v7.2", {}),
    "lab v7.2 with the fix": ("v7.2", {"fprobe_list_end": "word"}),
}
#: Functions of the lab: what all fprobes want, what one of three wants, and one more.
_WANTED, _DECLINED, _OTHER = "two_args", "one_arg", "no_args"
_TRIAL = "list-not-ended"


def _wanting(n: int) -> list[Request]:
    return [Fprobe(entry=False, exit=True) for _ in range(n)]


def foreign(kernel: Kernel) -> int:
    """How many handlers of three fprobes on one function run in a call of another one, of whose three fprobes two decline, after a
    call of the first, and in the same task.

    Another ops comes first: the low bytes of the heap's first address are zero, and an fprobe there would be found by what zeroing
    leaves of another one's address.
    """
    declining = [Fprobe(exit=True, declines=True) for _ in range(2)]
    with (
        kernel.attached(_OTHER, Ops()),
        kernel.attached(_WANTED, *_wanting(3)),
        kernel.attached(_DECLINED, *_wanting(1), *declining),
    ):
        kernel.call(_WANTED, 5, 7)
        return sum(kernel.call(_DECLINED, 1).hits[3:6])  # newest first, so behind those of the function itself


@once
def rows() -> pd.DataFrame:
    """One row per kernel and ISA. Columns: kernel, isa, foreign (handlers of the first function's fprobes that run in the call of
    the other one)."""
    records = []
    for name, (release, overrides) in _LAB.items():
        records += [
            {"kernel": name, "isa": isa, "foreign": foreign(Kernel(isa, release, meter="count", **overrides))} for isa in ISAS
        ]
    booted = [(one["source"].split()[1], one["isa"], one) for one in saved.list_not_ended()]
    booted += [(one["kernel"]["version"], one["kernel"]["isa"], one) for one in saved.every()]
    for version, isa, one in booted:
        for read in those(Module, saved.tried(one, _TRIAL, "other-called")):
            records.append({"kernel": f"Debian {version.partition('-')[0]}", "isa": isa, "foreign": read.odd})
    return pd.DataFrame(records)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel, a column per ISA; "-" where there is no such kernel, or no fprobes in it."""
    wide = frame.assign(isa=frame["isa"].map(isa_name)).pivot(index="kernel", columns="isa", values="foreign")
    order = sorted(dict.fromkeys(frame["kernel"]), key=lambda name: (not name.startswith("lab"), _numbers(name), name))
    wide = wide.reindex(index=order, columns=[isa_name(isa) for isa in ISAS])
    return wide.map(lambda n: "-" if pd.isna(n) else str(int(n))).reset_index()


def _numbers(name: str) -> list[int]:
    return [int(n) for n in name.split()[1].lstrip("v").partition("~")[0].split(".")]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Of each kernel the most and the fewest over its ISAs, "debian-7-2-6-most", and of each ISA, "debian-7-2-6-arm64"."""
    out: dict[str, object] = {}
    for kernel, part in frame.groupby("kernel", sort=False):
        name = slug(str(kernel))
        out |= {f"{name}-most": int(part["foreign"].max()), f"{name}-least": int(part["foreign"].min())}
        out |= {f"{name}-{row.isa}": int(row.foreign) for row in part.itertuples()}
    return out


FIGURES = (
    Figure(
        "fig-list-ended",
        "Do handlers of another function's fprobes run?",
        table=table,
        limits="Handlers at the return of three fprobes on one function that run in a call of another one, of whose three fprobes "
        "two decline the call; in the lab, and on Debian's kernels, booted under QEMU.",
        source="tried",
        kind="tried",
    ),
)
