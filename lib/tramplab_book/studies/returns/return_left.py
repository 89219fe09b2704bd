"""What kernels still contain: how much of their text is kretprobe's, and how much is that of what could replace it."""

from __future__ import annotations

import pandas as pd

from tramplab.vmlinux.debian.list import plain
from tramplab.vmlinux.saved import probes_saved

from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.phrases import slug
from ...publish.table import pivot
from ..memo import once

NAME = "return_left"
TITLE = "The code of kretprobes, and of what could replace them, in kernels"
KRETPROBE, HOOK, KPROBE, FPROBE, GRAPH = "kretprobe", "return hook", "kprobe", "fprobe", "graph tracer"
#: In the order of the chart: what would go, what it is part of, what would stay in its place.
PARTS = (KRETPROBE, HOOK, KPROBE, FPROBE, GRAPH)
UNITS = {"text": "KiB"}


@once
def rows() -> pd.DataFrame:
    """One row per plain Debian kernel whose image has been looked at, and part: a name of vmlinux.run.probes.PARTS.

    Columns: isa, release, part, functions, bytes (of their text, padding included), text (the same in KiB).
    """
    packages, records = {p.name: p for p in plain()}, []
    for kernel in probes_saved.read()["kernels"]:
        package = packages[kernel["name"]]
        for part in PARTS:
            found = kernel["parts"][part]
            size = sum(found.values())
            head = {"isa": package.isa, "release": package.release, "part": part}
            records.append({**head, "functions": len(found), "bytes": size, "text": round(size / 1024, 1)})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per kernel: what part of the code of kprobes is kretprobe's. Columns: isa, release, functions and bytes (kretprobe's,
    with the return hooks that it is on), kprobe (bytes of the rest), percent (of both), times (how often fprobe's bytes are
    kretprobe's). Return hooks are kretprobe's alone since fprobes are on the graph tracer, and fprobes' too before."""
    bytes_, functions = (_wide(frame, what) for what in ("bytes", "functions"))
    kretprobe = bytes_[KRETPROBE] + bytes_[HOOK]
    printed = pd.DataFrame({"functions": functions[KRETPROBE] + functions[HOOK], "bytes": kretprobe, "kprobe": bytes_[KPROBE]})
    printed["percent"] = (100 * kretprobe / (kretprobe + bytes_[KPROBE])).round().astype(int)
    printed["times"] = (bytes_[FPROBE] / kretprobe).round(1)
    return printed.reset_index()


def _wide(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    kernel = "isa", "release"
    return pivot(what, "part", index=kernel, total=False)(frame).set_index([*kernel])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per kernel and part: its functions and their bytes."""
    return frame[["isa", "release", "part", "functions", "bytes"]]


golden = table


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "x86_64-v7-2-bytes", "-times"; "x86_64-v7-2-fprobe-bytes" of each part."""
    values: dict[str, object] = {}
    for r in shares(frame).itertuples():
        key = f"{r.isa}-{slug(str(r.release))}"
        values |= {f"{key}-bytes": int(r.bytes), f"{key}-times": f"{r.times:.1f}"}
    for r in frame.itertuples():
        values[f"{r.isa}-{slug(str(r.release))}-{slug(str(r.part))}-bytes"] = int(r.bytes)
    return values


FIGURES = (
    Figure(
        "fig-return-left",
        "How much code is kretprobe's in a kernel, and how much fprobe's?",
        chart=stacked_bars("text", bars=("release",), stack="part"),
        table=table,
        alt="A panel per ISA with a bar per Debian kernel, stacked by whose the code is: kretprobe's and that of return hooks are "
        "the thin first parts and stay so, kprobe's is the largest; fprobe's has grown to the second in the newest.",
        limits="Debian's plain kernels. Functions are told by their names, and reach to the next symbol.",
        source="sources",
        kind="fact",
    ),
)
