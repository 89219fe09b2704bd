"""How close is the lab to real kernels? The same hooks, called in both by the same machine, part by part."""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace.releases import parse
from tramplab.vmlinux.results.beside import Pair, pairs
from tramplab.vmlinux.saved import saved

from ...publish.figures.chart import scatter
from ...publish.figures.figure import Figure
from ...publish.phrases import isa_name, listed
from ..memo import once

NAME = "real_kernels"
TITLE = "The lab beside Debian's kernels"
#: The goal: trampolines within this many instructions, C code within this fraction.
INSTRUCTIONS, PART = 2, 0.15
TRAMPOLINE, CORE = "trampoline", "C code"
#: Two ops and ten, from which follows what each further one adds.
TWO, TEN, EACH = "ops:2", "ops:10", "each more ops"
PROBES = (
    *("graph", "graph-entry"),
    *("fprobe", "fprobe-exit", "kprobe-multi", "kretprobe-multi", "kprobe", "kprobe-bpf", "kprobe-brk", "kprobe-brk-bpf"),
    *("kretprobe", "kretprobe-bpf", "kretprobe-brk", "kretprobe-brk-bpf"),
)
_SHOWN = (
    *("ops", "ops-static", "ops-regs", "ops-assist", TWO, TEN, EACH, "livepatch"),
    *("direct-far", "direct+ops", "bpf-fentry", "bpf-fexit"),
    *PROBES,
)
UNITS = {"kernel": "insns", "lab": "insns", "off": "%"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, release, hook and part of a call: instructions in Debian's plain kernel and in the lab's.

    Columns: isa, release, version, hook, part ("trampoline" or "C code"), kernel, lab, off (percent of the kernel's), near (within
    what is aimed at), equal (the same loads and stores).
    """
    records = []
    for found in saved.comparable():
        kernel = found["kernel"]
        head = {"isa": kernel["isa"], "release": kernel["release"], "version": kernel["version"]}
        made = [p for p in pairs(found) if p.component in _PARTS and p.real[0] and p.lab[0]]
        for p in _with_step(made):
            if p.hook in _SHOWN:
                records.append({**head, "hook": p.hook, "part": _PARTS[p.component], **_compared(p)})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


_PARTS = {"trampoline": TRAMPOLINE, "core": CORE}


def _with_step(made: list[Pair]) -> list[Pair]:
    """And what each ops behind the second adds to the C code."""
    two, ten = ({p.hook: p for p in made if p.component == "core"}.get(name) for name in (TWO, TEN))
    if not two or not ten:
        return made
    return [*made, Pair(EACH, "core", _step(two.real, ten.real), _step(two.lab, ten.lab))]


def _step(two: tuple[int, int, int], ten: tuple[int, int, int]) -> tuple[int, int, int]:
    instructions, loads, stores = (round((b - a) / 8) for a, b in zip(two, ten, strict=True))
    return instructions, loads, stores


def _compared(p: Pair) -> dict[str, object]:
    off = p.off or 0.0
    near = abs(p.lab[0] - p.real[0]) <= INSTRUCTIONS if p.component == "trampoline" else abs(off) <= PART
    return {"kernel": p.real[0], "lab": p.lab[0], "off": round(100 * off), "near": near, "equal": p.real[1:] == p.lab[1:]}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA with part, and hook; per release, of the three newest, the kernel's instructions, the lab's, and by how much
    those are off."""
    frame = frame[frame["release"].isin(sorted(frame["release"].unique(), key=parse)[-3:])]
    shown = frame.assign(cell=[f"{k} {n} {o:+}%" for k, n, o in zip(frame["kernel"], frame["lab"], frame["off"], strict=True)])
    keys = shown[["isa", "part", "hook"]].drop_duplicates()
    wide = shown.pivot(index=["isa", "part", "hook"], columns="release", values="cell")
    wide = wide.reindex(pd.MultiIndex.from_frame(keys)).sort_index(level="part", sort_remaining=False, ascending=False)
    wide = wide.reindex(columns=list(dict.fromkeys(frame["release"]))).fillna("-").reset_index()
    wide = wide.sort_values("isa", key=lambda s: s.map(list(dict.fromkeys(frame["isa"])).index), kind="stable")
    wide["isa"] = [f"{isa_name(isa)}, {part}" for isa, part in zip(wide["isa"], wide["part"], strict=True)]
    wide.attrs["right"] = list(dict.fromkeys(frame["release"]))
    return wide.drop(columns="part").reset_index(drop=True)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: how many comparisons of each part there are, are near, and have the same loads and stores; and how
    many kernels of which releases."""
    releases = dict.fromkeys(f["kernel"]["release"] for f in sorted(saved.plain(), key=lambda f: parse(f["kernel"]["release"])))
    values: dict[str, object] = {"aim-instructions": INSTRUCTIONS, "aim-percent": round(100 * PART), "kernels": len(saved.every())}
    values["releases"] = listed(releases)
    for name, part in (("trampolines", TRAMPOLINE), ("c", CORE)):
        rows = frame[frame["part"] == part]
        values |= {f"{name}-all": len(rows), f"{name}-near": int(rows["near"].sum()), f"{name}-equal": int(rows["equal"].sum())}
    return values


FIGURES = (
    Figure(
        "fig-real-kernels",
        "Does the lab execute as many instructions as real kernels?",
        chart=scatter("lab", against="kernel", name=("hook", "part"), series="release"),
        table=table,
        alt="A panel per ISA, both axes logarithmic: instructions in the lab against instructions in Debian's kernel, a point for "
        "each hook and part of a call, a colour and shape for each release. On the line both are equal. The table has all numbers.",
        limits="Emulated counts of instructions in one call; no timing. Real: the text of Debian's packages, booted without "
        "mitigations; what is faked is on the page. The lab: the same release and ISA.",
        source="both",
    ),
)
