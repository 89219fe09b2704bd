"""What kernels still contain: how much of their text is kretprobe's, and how much is that of what could replace it."""

from __future__ import annotations

import pandas as pd

from ...ftrace.releases import features, nearest, parse
from ...isa import ISAS
from ...publish.claims.verdict import Seen, in_kernels
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, listed, on_each, slug
from ...publish.table import pivot
from ...vmlinux.debian.list import plain
from ...vmlinux.saved import probes_saved
from ..memo import once
from . import return_releases

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


def ends(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """By ISA, the shares of its oldest kernel, kernels being listed oldest first; and of that of the newest release that every ISA
    has."""
    found = shares(frame)
    by = found.groupby("isa", sort=False)
    newest = max(set.intersection(*by["release"].agg(set)), key=parse)
    return by.first(), found[found["release"] == newest].set_index("isa")


def answer(frame: pd.DataFrame) -> str:
    """How much of kprobes' code is kretprobe's in the newest kernels; how much fprobe has; and what it was in the oldest."""
    old, new = ends(frame)
    release = listed(dict.fromkeys(new["release"]))
    sizes = on_each({str(isa): f"{r['functions']} functions of {r['bytes']} bytes" for isa, r in new.iterrows()})
    percent = listed(f"{n} %" for n in new["percent"])
    times = on_each({str(isa): f"{n:.1f}" for isa, n in new["times"].items()}, "times as many bytes as kretprobes")
    before = listed(f"{r['bytes']} on {isa_name(str(isa))} in {r['release']}" for isa, r in old.iterrows())
    return (
        f"In Debian's {release} kretprobes and the return hooks that they are on are {sizes}: {percent} of the code of kprobes. "
        f"In Debian's {release} fprobes have {times}. In the oldest kernels looked at kretprobes had been {before}."
    )


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "x86_64-v7-2-percent", "-bytes", "-functions", "-times"; "x86_64-v7-2-fprobe-bytes" of each part."""
    values: dict[str, object] = {}
    for r in shares(frame).itertuples():
        key = f"{r.isa}-{slug(str(r.release))}"
        values |= {f"{key}-percent": int(r.percent), f"{key}-bytes": int(r.bytes), f"{key}-functions": int(r.functions)}
        values |= {f"{key}-times": f"{r.times:.1f}"}
    for r in frame.itertuples():
        values[f"{r.isa}-{slug(str(r.release))}-{slug(str(r.part))}-bytes"] = int(r.bytes)
    return values


@in_kernels("k6")
def still_there() -> Seen:
    """Agrees if all images have kretprobes, and fprobes none that is older than the time line says; a build may leave them out."""
    line, packages = return_releases.rows(), {p.name: p for p in plain()}
    known = [(packages[kernel["name"]], kernel["parts"]) for kernel in probes_saved.read()["kernels"]]
    with_kretprobe = [p for p, parts in known if "register_kretprobe" in parts[KRETPROBE]]
    with_fprobe = [p for p, parts in known if "register_fprobe" in parts[FPROBE]]
    present = {isa: return_releases.has(line, isa, return_releases.FPROBE) for isa in {p.isa for p, _ in known}}
    agrees = len(with_kretprobe) == len(known) and all(nearest(p.release) in present[p.isa] for p in with_fprobe)
    named = listed(f"{isa_name(p.isa)} {p.release}" for p in with_fprobe)
    text = f"Of {len(known)} Debian kernels looked at {len(with_kretprobe)} have kretprobes; those with fprobes: {named or 'none'}."
    return Seen(text, agrees)


@in_kernels("k4")
def what_stays() -> Seen:
    """Agrees if what stays of kprobes and is no breakpoint, the entry through ftrace, is there on the ISAs where the lab's is."""
    packages, kernels = {p.name: p for p in plain()}, probes_saved.read()["kernels"]
    known = [(packages[kernel["name"]], "kprobe_ftrace_handler" in kernel["parts"][KPROBE]) for kernel in kernels]
    agrees = all(present == bool(features(ISAS[p.isa], nearest(p.release), {})["kprobes_on_ftrace"]) for p, present in known)
    named = listed(f"{isa_name(p.isa)} {p.release}" for p, present in known if present)
    _, new = ends(rows())
    share = on_each({str(isa): f"{n} %" for isa, n in new["percent"].items()})
    text = (
        f"Of {len(known)} Debian kernels those with an entry through ftrace are: {named or 'none'}. With registering, events and "
        f"optimization counted, kretprobes and return hooks are {share} of their newest ones' code for kprobes."
    )
    return Seen(text, agrees)


FIGURES = (
    Figure(
        "fig-return-left",
        "How much code is kretprobe's in a kernel, and how much fprobe's?",
        chart=stacked_bars("text", bars=("release",), stack="part"),
        table=table,
        answer=answer,
        alt="A panel per ISA with a bar per Debian kernel, stacked by whose the code is: kretprobe's and that of return hooks are "
        "the thin first parts and stay so, kprobe's is the largest; fprobe's has grown to the second in the newest.",
        limits="Debian's plain kernels. Functions are told by their names, and reach to the next symbol.",
        source="sources",
        kind="fact",
    ),
)
