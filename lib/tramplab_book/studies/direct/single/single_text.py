"""What does a word beside each function take? Bytes of text, counted in the lab's images and for the functions of real kernels."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from tramplab.base.errors import TramplabError
from tramplab.vmlinux.saved import saved

from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from .setups import IN_OPS, setups

NAME = "single_text"
TITLE = "One ops for all direct calls: what it takes of the text"
#: The ways that differ in what lies before a function; lookups are as in-ops.
WAYS = (IN_OPS, "literal", "beside")
UNITS = {"per_function": "B", "kernel_bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per Debian kernel with ops beside its functions, and way to keep the target.

    Columns: isa, release, kernel (its package's version), way, hypothetical, per_function (bytes before each function, from the
    lab's image), functions (traced ones of that kernel), kernel_bytes (of both).
    """
    made = {(s.isa, s.way): (s, _before(s.kernel("count"))) for s in setups() if s.isa != "x86_64" and s.way in WAYS}
    records = []
    for found in saved.plain():
        kernel = found["kernel"]
        if not kernel["config"]["DYNAMIC_FTRACE_WITH_CALL_OPS"]:
            continue
        functions = traced(found)
        for way in WAYS:
            setup, size = made[kernel["isa"], way]
            head = {"isa": kernel["isa"], "release": kernel["release"], "kernel": found["package"]["version"]}
            columns = {"way": way, "hypothetical": setup.hypothetical, "per_function": size, "functions": functions}
            records.append({**head, **columns, "kernel_bytes": size * functions})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def _before(kernel: Any) -> int:
    """Bytes that the compiler leaves before each traced function of the lab; raises TramplabError if they are not all alike."""
    found = {r.site.entry - r.site.compiled for r in kernel.slowpath.records.values()}
    if len(found) != 1:
        raise TramplabError(f"the functions of {kernel} have {sorted(found)} bytes before them, not all as many.")
    return found.pop()


def traced(found: dict[str, Any]) -> int:
    """How many traced functions a real kernel has, by what was found when it was booted."""
    counts = [int(n) for line in found["kernel"]["booted"] for n in re.findall(r"^(\d+) patch sites", line)]
    if len(counts) != 1:
        raise TramplabError(f"data/kernels/{found['package']['name']}.json does not say how many patch sites there are.")
    return counts[0]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel: its functions, and the bytes in each way."""
    keys = ["isa", "release", "kernel", "functions"]
    named = frame.assign(way=[marked(way, bool(is_so)) for way, is_so in zip(frame["way"], frame["hypothetical"], strict=True)])
    wide = named.pivot(index=keys, columns="way", values="kernel_bytes")
    wide = wide.reindex(pd.MultiIndex.from_frame(named[keys].drop_duplicates()))[list(dict.fromkeys(named["way"]))]
    wide = wide.reset_index()
    wide.columns.name = None
    wide.attrs["units"] = dict.fromkeys(dict.fromkeys(named["way"]), "B")
    return wide


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """The last kernel of each ISA."""
    return frame[frame["release"] == frame.groupby("isa")["release"].transform("last")]


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose of the newest kernels: "arm64-beside-more", KiB of text that the way takes more than the kernel as it
    is."""
    last = newest(frame)
    base = last[last["way"] == IN_OPS].set_index("isa")["kernel_bytes"]
    return {f"{r.isa}-{r.way}-more": round((r.kernel_bytes - base[r.isa]) / 1024) for r in last.itertuples()}


FIGURES = (
    Figure(
        "fig-single-text",
        "What does it take of the text?",
        table=table,
        limits="Bytes before a function from images of the lab, times the traced functions that Debian's kernels have. "
        "lookup and lookup-c are as in-ops. Functions keep their alignment of 8; what a compiler pads otherwise is not counted.",
        source="both",
        hypothetical=True,
    ),
)
