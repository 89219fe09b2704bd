"""Where does a kprobe stand among the ways to a BPF program: in instructions, and as published?"""

from __future__ import annotations

import pandas as pd

from ....isa import ISAS
from ....lab.run import Run
from ....publish.claims.verdict import BY_ISA, Verdict, across, judges
from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.phrases import isa_name, listed, marked, on_each
from ....vmlinux.results import beside
from ....vmlinux.saved import saved
from ...memo import once
from ...shared.order import largest_first
from ..fprobe.stages import DIRECT
from .kprobe_ways import (
    BREAKPOINT,
    CLAIMED,
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


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


# --- d4


def _sorted(frame: pd.DataFrame, isa: str, column: str, ways: list[str]) -> list[str]:
    """These ways in the order of a column, on an ISA; those that have no number in it are left out."""
    chosen = frame[(frame["isa"] == isa) & frame["way"].isin(ways)].dropna(subset=[column])
    return list(chosen.sort_values(column, kind="stable")["way"])


@judges("d4")
def order(frame: pd.DataFrame | None = None) -> Verdict:
    """True where direct call, optimised fprobe, fprobe and kprobe come in that order: by instructions on each ISA, and by time in
    each published round but the claim's own that has an fprobe and a kprobe. A round has not every way."""
    frame = rows() if frame is None else frame
    cases, orders = [], []
    values: dict[str, int | float | str] = {}
    isas = list(dict.fromkeys(frame["isa"]))
    for isa in isas:
        by, wanted = frame[frame["isa"] == isa].set_index("way"), [*CLAIMED, usual(isa)]
        cases.append({"isa": isa, "measure": "instructions", "truth": _sorted(frame, isa, "instructions", wanted) == wanted})
        kprobe, fprobe = (by.loc[way, "instructions"] for way in (usual(isa), UNOPTIMISED_WAY))
        orders.append(f"{kprobe:.2f} and {fprobe:.2f} on {isa_name(isa)}")
        values |= {f"{isa}, {way}": f"{by.loc[way, 'instructions']:.2f}" for way in wanted[len(CLAIMED) - 1 :]}
    timed = {r: set(frame.dropna(subset=[r])["way"]) for r in ROUNDS[1:]}
    others = [r for r, ways in timed.items() if BREAKPOINT in ways and ways & {OPTIMISED_WAY, UNOPTIMISED_WAY}]
    wanted = [*CLAIMED, BREAKPOINT]
    for name in others:
        found = _sorted(frame, MEASURED_ON, name, wanted)
        cases.append({"isa": MEASURED_ON, "measure": "time", "truth": found == [way for way in wanted if way in found]})
    kind, on = across(pd.DataFrame(cases), {"measure": "what is counted", **BY_ISA})
    three = all(_sorted(frame, isa, "instructions", [*CLAIMED]) == [*CLAIMED] for isa in isas)
    published = frame[(frame["isa"] == MEASURED_ON) & (frame["way"] == BREAKPOINT)].iloc[0]
    last = all(case["truth"] for case in cases if case["measure"] == "time")
    because = (
        "By instructions direct call, optimised fprobe and fprobe come in the published order "
        f"{'' if three else 'not '}everywhere. Kprobe and fprobe add, as multiples of the direct call's instructions, "
        f"{listed(orders)}. In the other published rounds that have both, the kprobe {'takes' if last else 'does not always take'} "
        f"more time than the fprobe: {listed(f'{published[r]:.2f} ({r})' for r in others)} times the direct call's. "
        "No count sees what an exception takes. In Debian's 6.12 a breakpoint kprobe without any program executes "
        f"{on_each(real_breakpoints(), 'instructions')}. Hypothetical: BPF's fentry on an fprobe."
    )
    values |= {f"{name}, kprobe, published": f"{published[name]:.2f}" for name in others}
    values |= {f"{isa}, Debian's 6.12": total for isa, total in real_breakpoints().items()}
    return Verdict(kind, because, values, on)


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


def answer(frame: pd.DataFrame) -> str:
    """The usual kprobe beside fprobe and direct call, by instructions, and its exceptions, per ISA."""
    usually = {isa: part.set_index("way").loc[usual(str(isa))] for isa, part in frame.groupby("isa", sort=False)}
    fprobes = frame[frame["way"] == UNOPTIMISED_WAY].set_index("isa")
    cheaper = all(kprobe["added"] < fprobes.loc[isa, "added"] for isa, kprobe in usually.items())
    than = "fewer instructions than" if cheaper else "not fewer instructions everywhere than"
    ratios = {str(isa): f"{k['instructions']:.2f} against {fprobes.loc[isa, 'instructions']:.2f}" for isa, k in usually.items()}
    taken = {str(isa): int(kprobe["exceptions"]) for isa, kprobe in usually.items()}
    return (
        f"BPF on a kprobe adds {than} on an unoptimised fprobe: as multiples of a direct call {on_each(ratios)}. "
        f"No count sees what the CPU does at an exception, of which a kprobe takes {on_each(taken)}."
    )


def rounds_answer(frame: pd.DataFrame) -> str:
    """What each round says of the kprobe, beside the instructions."""
    kprobe = frame[(frame["isa"] == MEASURED_ON) & (frame["way"] == BREAKPOINT)].iloc[0]
    first = "In every published round a kprobe takes the most time"
    if not all(_most(frame, r) == BREAKPOINT for r in ROUNDS):
        first = "In some published rounds a kprobe is not the costliest way"
    times = listed(f"{kprobe[r]:.2f} ({r})" for r in ROUNDS)
    return f"{first}: {times} times what a direct call adds, with {kprobe['instructions']:.2f} times the instructions."


def real_answer(frame: pd.DataFrame) -> str:
    """How far the lab is from Debian's kernels."""
    return _how_far(beside_real(frame))


def _how_far(found: pd.DataFrame) -> str:
    off = 100 * (found["lab"] / found["kernel"] - 1)
    less, more = (abs(round(float(v))) for v in (min(off.min(), 0), max(off.max(), 0)))
    how = [f"up to {less} % fewer"] * bool(less) + [f"up to {more} % more"] * bool(more)
    text = f"Entry, handlers and return of a breakpoint kprobe are {on_each(real_breakpoints(), 'instructions')} in Debian's 6.12"
    return f"{text}; in its three releases the lab's are {' and '.join(how) or 'as many'}."


_LIMITS = "Emulated counts of one call of a two-argument function with one program, less the unhooked call's. "
FIGURES = (
    Figure(
        "fig-kprobe-ways",
        "How many times as much as a direct call does BPF on a kprobe add?",
        chart=lambda frame: stacked_bars("instructions")(_drawn(frame)),
        table=table,
        answer=answer,
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
        answer=rounds_answer,
        limits=f"{_LIMITS}Published: times of three rounds on a Raspberry Pi 4, and of getpid() on an M1; what a way adds is what "
        f"an event takes more than without it.",
        kind="beside",
        hypothetical=True,
    ),
    Figure(
        "fig-kprobe-real",
        "What does a real kernel execute for a breakpoint kprobe?",
        table=beside_real,
        answer=real_answer,
        limits="Emulated counts of instructions in one call, without the probed function, the handler and the slot; no timing. "
        "Real: the text of Debian's packages, booted without mitigations.",
        source="both",
    ),
)
