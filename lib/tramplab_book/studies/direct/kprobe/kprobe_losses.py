"""Where does a kprobe stand among the ways to a BPF program: in instructions, and as published?"""

from __future__ import annotations

import pandas as pd

from tramplab.isa import ISAS
from tramplab.lab.run import Run
from tramplab.vmlinux.results import beside
from tramplab.vmlinux.saved import saved

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ...shared.order import largest_first
from ..fprobe.stages import DIRECT
from .kprobe_ways import (
    BREAKPOINT,
    MEASURED_ON,
    OPTIMISED_WAY,
    ROUNDS,
    UNOPTIMISED_WAY,
    apart,
    calls,
    copies,
    ratios,
    real_breakpoints,
    usual,
)

NAME = "kprobe_losses"
TITLE = "BPF on a kprobe, on an fprobe and called directly"
# --- The rows


@once
def rows() -> pd.DataFrame:
    """One row per ISA and way: what it adds to a call, and as a multiple of what the direct call adds.

    Columns: isa, way, hypothetical (the fprobes are), usual (what a kprobe is at an entry of that ISA; False for the others),
    added (instructions), instructions (their ratio), exceptions (taken), and the ratio of times in each published round, missing
    where it has none or was measured on another ISA.
    """
    records = []
    for isa in sorted(ISAS, key=lambda name: name != MEASURED_ON):
        made = calls(isa)
        base = _instructions(made[DIRECT])
        for way, pair in made.items():
            published = {r: ratios(r).get(way) if isa == MEASURED_ON else None for r in ROUNDS}
            records.append(
                {
                    "isa": isa,
                    "way": way,
                    "hypothetical": way in (OPTIMISED_WAY, UNOPTIMISED_WAY),
                    "usual": way == usual(isa),
                    "added": _instructions(pair),
                    "instructions": round(_instructions(pair) / base, 2),
                    "exceptions": _entered(pair[0]),
                    **{r: None if ratio is None else round(ratio, 2) for r, ratio in published.items()},
                }
            )
    return pd.DataFrame(records)


def _entered(run: Run) -> int:
    """How many exceptions a call takes."""
    return int(run.recording.each(lambda pc: run.name_of(pc) == "lab_trap_entry").sum())


def _instructions(pair: tuple[Run, Run]) -> int:
    hooked, idle = pair
    return int((hooked.counts.total - idle.counts.total).instructions)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per ISA and way: instructions, their ratio to the direct call's, and exceptions."""
    printed = pd.DataFrame({"isa": frame["isa"]})
    printed["way"] = [marked(r.way, bool(r.hypothetical)) for r in frame.itertuples()]
    printed["added"] = frame["added"]
    printed["ratio"] = [f"{v:.2f}" for v in frame["instructions"]]
    printed["traps"] = frame["exceptions"]
    printed.attrs["right"] = ["added", "ratio", "traps"]
    return printed


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions added, one bar per way."""
    part = frame.sort_values("isa", key=lambda names: names.map(list(ISAS).index), kind="stable")
    hooks = [marked(r.way, bool(r.hypothetical)) for r in part.itertuples()]
    plotted = pd.DataFrame({"isa": part["isa"], "hook": hooks, "component": "all of it", "instructions": part["added"]})
    plotted.attrs["units"] = {"instructions": "added"}
    return largest_first(plotted, "hook", "instructions")


def rounds(frame: pd.DataFrame) -> pd.DataFrame:
    """The published rounds beside the instructions of the ISA that they are of."""
    shown = frame[frame["isa"] == MEASURED_ON]
    printed = pd.DataFrame({"way": [marked(r.way, bool(r.hypothetical)) for r in shown.itertuples()]})
    printed["insns"] = [f"{v:.2f}" for v in shown["instructions"]]
    for name in ROUNDS:
        printed[name] = ["-" if pd.isna(v) else f"{v:.2f}" for v in shown[name]]
    printed.attrs["right"] = ["insns", *ROUNDS]
    return printed


def beside_real(frame: pd.DataFrame) -> pd.DataFrame:
    """Entry, handlers and return of a breakpoint kprobe without a program: in Debian's plain kernels and in the lab. Columns: isa,
    release, traps, kernel, lab, off (percent)."""
    items = []
    for found in saved.comparable():
        kernel = found["kernel"]
        row = next(r for r in found["hooks"] if r["hook"] == "kprobe-brk")
        if row["status"] != "measured":
            continue
        isa, release = kernel["isa"], kernel["release"]
        lab = beside.lab(isa, release, "kprobe-brk", *beside.overrides(kernel))["core"][0]
        real = row["components"]["core"]["instructions"]
        slot = row["components"]["trampoline"]["instructions"] > 0
        off = f"{round(100 * (lab - real) / real):+d} %"
        items.append({"isa": isa, "release": release, "traps": 1 + slot, "kernel": real, "lab": lab, "off": off})
    return pd.DataFrame(items)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: per ISA and way "arm64-kprobe-breakpoint-ratio" (of instructions), "-added" and "-exceptions"; per
    round "rfc-kprobe-published", and so on, in how many a kprobe takes the most time, "rounds-kprobe-most" of "rounds-total", and
    "dd-fprobe-published" of copying; "bases-apart", the rates without a probe; "arm64-real-total", what Debian's 6.12 executes,
    and "real-least-ratio" and "real-most-ratio" of the lab's instructions to those of Debian's kernels."""
    values: dict[str, object] = {}
    for r in frame.itertuples():
        name = f"{r.isa}-{r.way.replace(', ', '-').replace(' ', '-')}"
        values |= {f"{name}-ratio": f"{r.instructions:.2f}", f"{name}-added": r.added, f"{name}-exceptions": r.exceptions}
    values |= {f"{name.lower()}-kprobe-published": f"{ratios(name)[BREAKPOINT]:.2f}" for name in ROUNDS}
    copied = copies()
    values |= {"dd-fprobe-published": f"{copied[OPTIMISED_WAY]:.2f}", "dd-kprobe-published": f"{copied[BREAKPOINT]:.2f}"}
    values["bases-apart"] = f"{max(apart(), 1 / apart()):.1f}"
    values |= {f"{isa}-real-total": n for isa, n in real_breakpoints().items()}
    values |= {"rounds-total": len(ROUNDS), "rounds-kprobe-most": sum(_most(frame, r) == BREAKPOINT for r in ROUNDS)}
    found = beside_real(frame)
    real = found["lab"] / found["kernel"]
    return values | {"real-least-ratio": f"{real.min():.3f}", "real-most-ratio": f"{real.max():.3f}"}


def _most(frame: pd.DataFrame, name: str) -> str:
    """The way that takes the most time in a round."""
    return str(frame.loc[frame[name].idxmax(), "way"])


_LIMITS = "Emulated counts of one call of a two-argument function with one program, less the unhooked call's. "
FIGURES = (
    Figure(
        "fig-kprobe-ways",
        "How many times as much as a direct call does BPF on a kprobe add?",
        chart=lambda frame: stacked_bars("instructions")(_drawn(frame)),
        table=table,
        alt="A panel per ISA, a bar per way to a BPF program: instructions that it adds to a call, by a direct call, by an "
        "optimised fprobe, by an fprobe as it was, and by a kprobe, through ftrace and through a breakpoint. The table has ratios "
        "and exceptions, too.",
        limits=_LIMITS.strip(),
        hypothetical=True,
    ),
    Figure(
        "fig-kprobe-rounds",
        "What was measured?",
        table=rounds,
        limits=f"{_LIMITS}Published: times of three rounds on a Raspberry Pi 4, and of getpid() on an M1; what a way adds is what "
        f"an event takes more than without it.",
        kind="beside",
        hypothetical=True,
    ),
    Figure(
        "fig-kprobe-real",
        "What does a real kernel execute for a breakpoint kprobe?",
        table=beside_real,
        limits="Emulated counts of instructions in one call, without the probed function, the handler and the slot; no timing. "
        "Real: the text of Debian's packages, booted without mitigations.",
        source="both",
    ),
)
