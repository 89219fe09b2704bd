"""How many times as much as a kretprobe does another way to see a return take: as published, and in the lab?"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import pandas as pd

from tramplab.estimate.returnstack import settled
from tramplab.lab.run import Run
from tramplab.returns.mechanisms import FEXIT, HOOKS, KRETPROBE_BPF, LATEST, MULTI, Build, builds, programs

from ....publish import published
from ....publish.figures.chart import dumbbell
from ....publish.figures.figure import Figure
from ....publish.phrases import slug
from ...memo import once
from ...time import saved_times
from .return_costs import added, calls

NAME = "return_published"
TITLE = "Ways to see a return over a kretprobe, published and in the lab"
ISA = "x86_64"
UNITS: dict[str, str] = {}
#: How such an x86-64 instruction begins.
_SLOW = ("lock", "pushf", "popf", "cli", "sti")
PUBLISHED, INSTRUCTIONS, MEASURED = "published", "lab, instructions", "lab, measured cycles"


@dataclass(frozen=True)
class Round:
    """One published table.

    name: in short, of the series that moved fprobes to the graph tracer by its version.
    ids: the beginning of the ids of its measurements.
    other: the bench that is compared with the one on a kretprobe.
    entry: the bench of the same kind that sees only the entry.
    release: the lab's nearest kernel.
    mechanism: the mechanism of that bench.
    """

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
    which the round has as well), instructions (the lab's ratio of what both add), message (where it was published)."""
    records = []
    for r in ROUNDS:
        pairs = ("kretprobe", "kprobe"), (r.other, r.entry)
        kretprobes, others = ([published.get(r.ids + bench) for bench in pair] for pair in pairs)
        other, kretprobe = (calls(_build(mechanism, r.release)) for mechanism in (r.mechanism, KRETPROBE_BPF))
        counted = [added(*runs).instructions for runs in (other, kretprobe)]
        records.append(
            {
                "isa": ISA,
                "round": r.name,
                "what": r.mechanism,
                "release": r.release,
                "published": round(others[0].ns / kretprobes[0].ns, 2),
                "returns": round(_apart(others) / _apart(kretprobes), 2),
                "instructions": round(counted[0] / counted[1], 2),
                "message": others[0].message,
            }
        )
    frame = pd.DataFrame(records)
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


def measured(mechanism: str, release: str) -> dict[str, float]:
    """How many times a kretprobe's cycles a mechanism took in a release, by saved machine on which both were timed."""
    other, kretprobe = (saved_times.cycles(HOOKS[name], release, ISA) for name in (mechanism, KRETPROBE_BPF))
    return {machine: taken / kretprobe[machine] for machine, taken in other.items() if machine in kretprobe}


# --- What is shown


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The golden table, and the ratio of the cycles that each saved machine took."""
    printed, ratios = golden(frame), [measured(str(r.what), str(r.release)) for r in frame.itertuples()]
    machines = sorted({machine for of in ratios for machine in of})
    made = printed.assign(**{machine: [f"{of[machine]:.2f}" if machine in of else "-" for of in ratios] for machine in machines})
    made.attrs = {"right": [*printed.attrs["right"], *machines], "units": printed.attrs["units"] | dict.fromkeys(machines, "ratio")}
    return made


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps. A line per round: times a kretprobe's, as published, of the part that is the return's,
    and in the lab's instructions."""
    printed = frame[["round", "release"]].rename(columns={"release": "lab"})
    printed["published"] = [f"{v:.2f}" for v in frame["published"]]
    printed["return"] = [f"{v:.2f}" for v in frame["returns"]]
    printed["insns"] = [f"{v:.2f}" for v in frame["instructions"]]
    printed.attrs["right"] = ["published", "return", "insns"]
    printed.attrs["units"] = dict.fromkeys(printed.attrs["right"], "ratio")
    return printed


def dumbbells(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per round and who says it. Of what was measured the median of the machines, from the least to the most of them."""
    nothing = {"low": float("nan"), "high": float("nan")}
    parts = [
        frame.assign(by=PUBLISHED, ratio=frame["published"], **nothing),
        frame.assign(by=INSTRUCTIONS, ratio=frame["instructions"], **nothing),
    ]
    out = pd.concat(parts, ignore_index=True).astype({"ratio": float, "low": float, "high": float})
    timed = [
        {**r, "by": MEASURED, "ratio": statistics.median(of), "low": min(of), "high": max(of)}
        for r in frame.to_dict("records")
        if (of := measured(r["what"], r["release"]).values())
    ]
    return pd.concat([out, pd.DataFrame(timed)], ignore_index=True) if timed else out


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by round as in "v22-after": "-published", "-return" and "-insns", ratios; of "rounds-total" with an
    fprobe "rounds-faster", in which it takes less time than a kretprobe; so "machines" and "machines-faster" of those that were
    timed, and "measured-times", an fprobe's cycles over a kretprobe's there. In the newest kernel with a BPF program
    "kretprobe-added" and "fprobe-added", instructions; "-slow" (see _slow()); "-in-loop", mispredicted returns of a call that a
    loop makes."""
    multi, taken = frame[frame["what"] != FEXIT], measured(MULTI, LATEST).values()
    values: dict[str, object] = {"rounds-total": len(multi), "rounds-faster": int((multi["published"] < 1).sum())}
    for r in frame.itertuples():
        key = slug(r.round)
        shown = {"published": r.published, "return": r.returns, "insns": r.instructions}
        values |= {f"{key}-{name}": f"{value:.2f}" for name, value in shown.items()}
    values["measured-times"] = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (min(taken), max(taken)))) if taken else "none"
    values |= {"machines": len(taken), "machines-faster": sum(ratio < 1 for ratio in taken)}
    for name, mechanism in (("kretprobe", KRETPROBE_BPF), ("fprobe", MULTI)):
        hooked, idle = calls(_build(mechanism, LATEST))
        values |= {f"{name}-added": added(hooked, idle).instructions, f"{name}-slow": _slow(hooked)}
        values[f"{name}-in-loop"] = settled(hooked)
    return values


def _slow(run: Run) -> int:
    """Instructions that a call executes which lock memory, or read or write the flags, that of interrupts among them."""
    slow = {pc for pc, i in run.instructions.items() if i.mnemonic.startswith(_SLOW)}
    return int(run.recording.each(slow.__contains__).sum())


FIGURES = (
    Figure(
        "fig-return-published",
        "How many times a kretprobe's cost, published and counted?",
        chart=lambda frame: dumbbell("ratio", "round", "by", low="low", high="high", columns=1)(dumbbells(frame)),
        table=table,
        alt="A line per published round: how many times as much as a kretprobe an fprobe's exit handler takes, or fexit in the "
        "last: of time per event as published, of the lab's instructions, and of its measured cycles where there are some.",
        limits="Published are whole events, with the program and what leads to it; the lab's are what the probe adds to one call, "
        "with what runs its BPF program: perf's event on the kretprobe, kprobe_multi's link on the fprobe, fexit's trampoline. In "
        "the table return: what is left of the published times without those of a program at the entry alone, in the same round. "
        "Measured cycles are native ones of the lab's code in user mode, as a median of the saved machines, with the least and the "
        "most of them; of v6.12 none were taken.",
        source="published",
        kind="measured",
        machine=saved_times.MACHINES,
        measured=True,
    ),
)
