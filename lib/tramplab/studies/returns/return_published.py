"""How many times as much as a kretprobe does another way to see a return take: as published, and in the lab?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...publish import published
from ...publish.figures.chart import dumbbell
from ...publish.figures.figure import Figure
from ...publish.said import estimated, slug
from ..once import once
from .mechanisms import FEXIT, KRETPROBE_BPF, LATEST, MULTI, Build, builds, programs
from .return_costs import added, calls

NAME = "return_published"
TITLE = "Ways to see a return over a kretprobe, published and in the lab"
ISA, CORE = "x86_64", "skylake"
UNITS: dict[str, str] = {}
PUBLISHED, INSTRUCTIONS, CYCLES = "published", "lab, instructions", "lab, estimated cycles"


@dataclass(frozen=True)
class Round:
    """One published table. name: in short, of the series that moved fprobes to the graph tracer by its version. ids: how those of
    its measurements begin. other: the bench that is compared with the one on a kretprobe, and mechanism: what that is. entry: the
    bench of the same kind that sees the entry alone. release: the lab's nearest kernel."""

    name: str
    ids: str
    other: str
    entry: str
    mechanism: str
    release: str


_MULTI = "kretprobe-multi", "kprobe-multi"
ROUNDS = (
    Round("v15, before", "x86-fgraph-v15-before-", *_MULTI, MULTI, "v6.12"),
    Round("v15, after", "x86-fgraph-v15-after-", *_MULTI, MULTI, LATEST),
    Round("v22, before", "x86-fgraph-v22-base-", *_MULTI, MULTI, "v6.12"),
    Round("v22, after", "x86-fgraph-v22-fprobe_on_fgraph-", *_MULTI, MULTI, LATEST),
    Round("v22, no clock", "x86-fgraph-v22-sched_clock-call-removed-", *_MULTI, MULTI, LATEST),
    Round("Nov 2025", "x86-jmp-before-", *_MULTI, MULTI, LATEST),
    Round("2025, fexit", "x86-jmp-before-", "fexit", "fentry", FEXIT, LATEST),
)


@once
def rows() -> pd.DataFrame:
    """One row per published round. Columns: isa, round, what (the mechanism over a kretprobe), release (the lab's), published (how
    many times the time per event), returns (the same of what is left of each time without that of a program at the entry alone,
    which the round has as well), instructions (the lab's ratio of what both add), core, cycles, low, high (the same of estimated
    cycles, with its band), message (where it was published)."""
    out = []
    for r in ROUNDS:
        pairs = ("kretprobe", "kprobe"), (r.other, r.entry)
        kretprobes, others = ([published.get(r.ids + bench) for bench in pair] for pair in pairs)
        other, kretprobe = (calls(_build(mechanism, r.release)) for mechanism in (r.mechanism, KRETPROBE_BPF))
        counted = [added(*runs).instructions for runs in (other, kretprobe)]
        estimate = cycles.relative(other, kretprobe, core(CORE))
        out.append(
            {
                "isa": ISA,
                "round": r.name,
                "what": r.mechanism,
                "release": r.release,
                "published": round(others[0].ns / kretprobes[0].ns, 2),
                "returns": round(_apart(others) / _apart(kretprobes), 2),
                "instructions": round(counted[0] / counted[1], 2),
                "core": CORE,
                "cycles": round(estimate.mid, 2),
                "low": round(estimate.low, 2),
                "high": round(estimate.high, 2),
                "message": others[0].message,
            }
        )
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _apart(pair: list[published.Measurement]) -> float:
    """Nanoseconds that an event takes which sees the return, less those of one that sees the entry alone."""
    returns, entry = pair
    return returns.ns - entry.ns


def _build(mechanism: str, release: str) -> Build:
    """The kernel of a mechanism in a release, or of the nearest that has it; a BPF program runs in each."""
    found = [build for build in (*programs(ISA), *builds(ISA)) if build.mechanism == mechanism]
    return next((build for build in found if build.release == release), found[-1])


# --- What is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per round: times a kretprobe's, as published, of the part that is the return's, in the lab's instructions and in
    estimated cycles."""
    out = frame[["round", "release"]].rename(columns={"release": "lab"})
    out["published"] = [f"{v:.2f}" for v in frame["published"]]
    out["return"] = [f"{v:.2f}" for v in frame["returns"]]
    out["insns"] = [f"{v:.2f}" for v in frame["instructions"]]
    out["cycles (band)"] = [estimated(r.cycles, r.low, r.high, digits=2) for r in frame.itertuples()]
    out.attrs["units"] = {"published": "ratio", "return": "ratio", "insns": "ratio", "cycles (band)": "ratio"}
    out.attrs["right"] = ["published", "return", "insns", "cycles (band)"]
    return out


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame).assign(isa=frame["isa"] + ", " + frame["core"])


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per round and who says it, bands where there are some."""
    nothing = {"low": float("nan"), "high": float("nan")}
    parts = [
        frame.assign(by=PUBLISHED, ratio=frame["published"], **nothing),
        frame.assign(by=INSTRUCTIONS, ratio=frame["instructions"], **nothing),
        frame.assign(by=CYCLES, ratio=frame["cycles"]),
    ]
    return pd.concat(parts, ignore_index=True).astype({"ratio": float, "low": float, "high": float})


def contradicted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rounds in which instructions rank the two the other way."""
    return frame[(frame["instructions"] > 1) != (frame["published"] > 1)]


def answer(frame: pd.DataFrame) -> str:
    """How the published rounds rank an fprobe's exit handler and a kretprobe, whole and without their entries, and where the lab's
    instructions do not."""
    multi = frame[frame["what"] != FEXIT]
    faster = int((multi["published"] < 1).sum())
    against = contradicted(multi)
    inside = int(((multi["low"] <= multi["published"]) & (multi["published"] <= multi["high"])).sum())
    shares = [f"{multi[ratio].min():.2f} to {multi[ratio].max():.2f} times" for ratio in ("published", "returns")]
    return (
        f"A program on an fprobe's exit takes less time than one on a kretprobe in {faster} of {len(multi)} rounds that "
        f"{multi['message'].nunique()} mails published, {shares[0]} as much; without what each takes at the entry alone, "
        f"{shares[1]}. The lab's instructions say the contrary of {len(against)}, so no time follows from them; the band of its "
        f"estimated cycles has the published ratio in {inside}."
    )


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes, by round as in "v22-after": "-published", "-return", "-insns" and "-cycles" (with its band),
    ratios."""
    out: dict[str, object] = {}
    for r in frame.itertuples():
        key = slug(r.round)
        shown = {"published": r.published, "return": r.returns, "insns": r.instructions}
        out |= {f"{key}-{name}": f"{value:.2f}" for name, value in shown.items()}
        out[f"{key}-cycles"] = estimated(r.cycles, r.low, r.high, digits=2)
    return out


FIGURES = (
    Figure(
        "fig-return-published",
        "How many times a kretprobe's cost, published and counted?",
        chart=lambda frame: dumbbell("ratio", "round", "by", low="low", high="high", facet="core", columns=1)(dumbbells(frame)),
        table=table,
        answer=answer,
        alt="A line per published round: how many times as much as a kretprobe an fprobe's exit handler takes, or fexit in the "
        "last: of time per event as published, of the lab's instructions, and of its estimated cycles with their band.",
        limits="Published are whole events, with the program and what leads to it; the lab's are what the probe adds to one call, "
        "with what runs its BPF program: perf's event on the kretprobe, kprobe_multi's link on the fprobe, fexit's trampoline. In "
        "the table return: what is left of the published times without those of a program at the entry alone, in the same round. "
        "Estimates on skylake.",
    ),
)
