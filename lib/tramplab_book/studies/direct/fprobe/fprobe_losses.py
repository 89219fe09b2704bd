"""How many times as much as a direct call does BPF through an fprobe add: in instructions, and as published?"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tramplab.isa import ISAS

from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ...time.published_pairs import PAIRS
from .stages import DIRECT, SEQUENCE, UNOPTIMISED, WITHOUT_NODE, Stage, run

NAME = "fprobe_losses"
TITLE = "BPF through an fprobe and called directly, beside what was published"
#: The ISA of the published rounds.
PUBLISHED_ON = "arm64"
#: Way -> its stage: the four reasons taken away one after the other, and two of them with the list still there.
WAYS: dict[str, Stage] = dict(
    zip(
        ("unoptimised", "args saved", "+ no list", "+ declined", "+ no freelist", "+ no node", "declined, with list"),
        (*SEQUENCE, WITHOUT_NODE, replace(UNOPTIMISED, regs=False, hook=False)),
        strict=True,
    )
)
#: The ways that were measured -> what their ratios are called in the prose.
_NAMED = {"unoptimised": "unoptimised", "declined, with list": "with-list", "+ declined": "declined", "+ no freelist": "optimised"}
#: Published round -> the way that is nearest to it, and what it is called in the pairs of studies/time/published_pairs. All are of
#: a Raspberry Pi 4. Xu's and Florent's fprobe declined the return (20221005113019.18aeda76@gandalf.local.home shows the code,
#: CABRcYmJ7bg+HKWG4cbXH=T6iiWXWKGZZy8rXRhAFNPNz507yHg@mail.gmail.com says so).
ROUNDS = {
    "RFC, unoptimised": ("unoptimised", "fprobe, slow / direct"),
    "Xu": ("declined, with list", "fprobe / direct"),
    "Florent": ("+ declined", "fprobe+CALL_OPS/direct"),
    "RFC, optimised": ("+ declined", "fprobe, fast / direct"),
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, way and published round that is nearest to it: what BPF through an fprobe adds to a call, as a multiple of
    what the direct call adds.

    Columns: isa, way (a name of WAYS), hypothetical (all are), instructions (the ratio of counts), preemptible (the same where the
    kernel is preemptible), round and published (the nearest published comparison and its ratio; "" and missing where none is).
    """
    records = []
    for isa in sorted(ISAS, key=lambda name: name != PUBLISHED_ON):
        bases = [_added(isa, DIRECT, preemptible) for preemptible in (False, True)]
        for way, stage in WAYS.items():
            plain, preemptible = (round(_added(isa, stage, bool(n)) / base, 2) for n, base in enumerate(bases))
            head = {"isa": isa, "way": way, "hypothetical": True, "instructions": plain, "preemptible": preemptible}
            near = {name: pair for name, (nearest, pair) in ROUNDS.items() if nearest == way and isa == PUBLISHED_ON}
            for name, pair in (near or {"": ""}).items():
                published = next((round(p.ratio, 2) for p in PAIRS if p.what == pair), None)
                records.append({**head, "round": name, "published": published})
    return pd.DataFrame(records)


def _added(isa: str, stage: Stage | str, preemptible: bool) -> int:
    hooked, idle = run(isa, stage, preemptible=preemptible)
    return (hooked.counts.total - idle.counts.total).instructions


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way: the ratios."""
    printed = pd.DataFrame({"isa": frame["isa"], "way": [marked(way) for way in frame["way"]]})
    printed["insns"] = [f"{r.instructions:.2f}" for r in frame.itertuples()]
    printed["preemptible"] = [f"{r.preemptible:.2f}" for r in frame.itertuples()]
    printed["published"] = [f"{r.published:.2f} {r.round.split(',')[0]}" if r.round else "-" for r in frame.itertuples()]
    printed.attrs["right"] = ["insns", "preemptible"]
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: per ISA "arm64-unoptimised-ratio", "-with-list-ratio" (arguments saved and the return declined),
    "-declined-ratio" (no list, either) and "-optimised-ratio" (all four gone) of instructions; of a
    preemptible kernel "-unoptimised-preemptible-ratio" and so on; per round "rfc-unoptimised-published", and so on."""
    values: dict[str, object] = {}
    for r in frame.itertuples():
        if r.way in _NAMED:
            values[f"{r.isa}-{_NAMED[r.way]}-ratio"] = f"{r.instructions:.2f}"
            values[f"{r.isa}-{_NAMED[r.way]}-preemptible-ratio"] = f"{r.preemptible:.2f}"
        if r.round:
            values[f"{r.round.lower().replace(', ', '-')}-published"] = f"{r.published:.2f}"
    return values


FIGURES = (
    Figure(
        "fig-fprobe-losses",
        "How many times as much as a direct call does BPF through an fprobe add?",
        table=table,
        limits="Emulated counts of one call of a two-argument function. insns: as Debian's kernels, arm64 and riscv64 without "
        "preemption; preemptible: with it, and with PREEMPT_RCU. Published: times on a Raspberry Pi 4; what a hook adds is "
        "what an event takes more than without it. The rounds are of kernels that differ.",
        kind="beside",
        hypothetical=True,
    ),
)
