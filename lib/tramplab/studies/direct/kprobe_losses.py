"""Where does a kprobe stand among the ways to a BPF program: in instructions, in estimated cycles, and as published?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ...analyse import cycles
from ...analyse.cores import get as core
from ...isa import ISAS
from ...lab.run import Run
from ...publish.cite.cite import BESIDE
from ...publish.claims.verdict import BY_ISA, Verdict, across, judges
from ...publish.figures.chart import stacked_bars
from ...publish.figures.figure import Figure
from ...publish.said import HYPOTHETICAL, estimated, isa_name, listed, marked, on_each
from ...vmlinux import beside, saved
from ..once import once
from .kprobe_ways import (
    BREAKPOINT,
    CLAIMED,
    MEASURED_ON,
    OPTIMISED_WAY,
    UNOPTIMISED_WAY,
    apart,
    calls,
    copies,
    ratios,
    real_breakpoints,
    usual,
)
from .stages import DIRECT

NAME = "kprobe_losses"
TITLE = "BPF on a kprobe, on an fprobe and called directly"
CORES = ("cortex-a72", "apple-m1", "skylake", "sifive-u74")
# --- The rows


@once
def rows() -> pd.DataFrame:
    """One row per core and way: what it adds to a call, and as a multiple of what the direct call adds.

    Columns: isa, core, way, hypothetical (the fprobes are), usual (what a kprobe is at an entry of that ISA; False for the others),
    added (instructions), instructions (their ratio), cycles, low, high (the ratio of estimates, with the band), exceptions (taken),
    and the ratio in each published round, missing where it has none or was measured on another core.
    """
    out = []
    for name in CORES:
        model = core(name)
        made = calls(model.isa)
        base = _instructions(made[DIRECT])
        for way, pair in made.items():
            e = cycles.relative(pair, made[DIRECT], model)
            hooked = pair[0]
            there = {r: ratios(r).get(way) if where == name else None for r, where in MEASURED_ON.items()}
            out.append(
                {
                    "isa": model.isa,
                    "core": name,
                    "way": way,
                    "hypothetical": way in (OPTIMISED_WAY, UNOPTIMISED_WAY),
                    "usual": way == usual(model.isa),
                    "added": _instructions(pair),
                    "instructions": round(_instructions(pair) / base, 2),
                    "cycles": round(float(e.mid), 2),
                    "low": round(float(e.low), 2),
                    "high": round(float(e.high), 2),
                    "exceptions": _entered(hooked),
                    **{r: None if ratio is None else round(ratio, 2) for r, ratio in there.items()},
                }
            )
    return pd.DataFrame(out)


def _entered(run: Run) -> int:
    """How many exceptions a call takes."""
    return int(run.recording.each(lambda pc: run.name_of(pc) == "lab_trap_entry").sum())


def _instructions(pair: tuple[Run, Run]) -> int:
    hooked, idle = pair
    return int((hooked.counts.total - idle.counts.total).instructions)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per core and way: instructions, their ratio to the direct call's, that of the estimates, and exceptions."""
    out = pd.DataFrame({"isa": frame["isa"] + ", " + frame["core"]})
    out["way"] = [marked(r.way, bool(r.hypothetical)) for r in frame.itertuples()]
    out["added"] = frame["added"]
    out["ratio"] = [f"{v:.2f}" for v in frame["instructions"]]
    out["cycles (band)"] = [_band(r) for r in frame.itertuples()]
    out["traps"] = frame["exceptions"]
    out.attrs["right"] = ["added", "ratio", "cycles (band)", "traps"]
    return out


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions added, one bar per way; of one core per ISA, as cores make no difference."""
    cores = frame.groupby("isa")["core"].transform("first")
    part = frame[frame["core"] == cores].sort_values("isa", key=lambda names: names.map(list(ISAS).index), kind="stable")
    hooks = [marked(r.way, bool(r.hypothetical)) for r in part.itertuples()]
    out = pd.DataFrame({"isa": part["isa"], "hook": hooks, "component": "all of it", "instructions": part["added"]})
    out.attrs["units"] = {"instructions": "added"}
    return out


def _band(r: Any) -> str:
    return estimated(r.cycles, r.low, r.high, digits=2)


def rounds(frame: pd.DataFrame) -> pd.DataFrame:
    """The published rounds beside the estimates of the cores that they are of."""
    shown = frame[frame["core"].isin(MEASURED_ON.values())]
    out = pd.DataFrame({"isa": shown["core"], "way": [marked(r.way, bool(r.hypothetical)) for r in shown.itertuples()]})
    out["estimated"] = [_band(r) for r in shown.itertuples()]
    for name in MEASURED_ON:
        out[name] = ["-" if pd.isna(v) else f"{v:.2f}" for v in shown[name]]
    out.attrs["right"] = ["estimated", *MEASURED_ON]
    return out.reset_index(drop=True)


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps."""
    return table(frame)


# --- d4


def _sorted(frame: pd.DataFrame, name: str, column: str, ways: Sequence[str]) -> list[str]:
    """These ways in the order of a column, on a core."""
    here = frame[(frame["core"] == name) & frame["way"].isin(ways)]
    return list(here.sort_values(column, kind="stable")["way"])


@judges("d4")
def order(frame: pd.DataFrame | None = None) -> Verdict:
    """True on an ISA if direct call, optimised fprobe, fprobe and kprobe come in that order: by instructions, and by the
    middles of estimated cycles on a core."""
    frame = rows() if frame is None else frame
    cases, told = [], []
    values: dict[str, int | float | str] = {}
    for name in CORES:
        here = frame[frame["core"] == name]
        if here.empty:
            continue
        isa = str(here["isa"].iloc[0])
        wanted = [*CLAIMED, usual(isa)]
        for column in ("instructions", "cycles"):
            found = _sorted(frame, name, column, wanted)
            cases.append({"isa": isa, "measure": column, "core": name, "truth": found == wanted})
        by = here.set_index("way")
        told.append(f"{usual(isa)} {by.loc[usual(isa), 'instructions']:.2f} and {_row_band(by, usual(isa))} on {name}")
        for way in wanted[len(CLAIMED) - 1 :]:
            values[f"{name}, {way}"] = f"{by.loc[way, 'instructions']:.2f}, {_row_band(by, way)}"
    kind, on = across(pd.DataFrame(cases), {"measure": "what is counted", **BY_ISA})
    there = [name for name in CORES if (frame["core"] == name).any()]
    three = all(_sorted(frame, name, column, CLAIMED) == [*CLAIMED] for name in there for column in ("instructions", "cycles"))
    order_of_three = "everywhere" if three else "not everywhere"
    fprobes = listed(f"{_of(frame, name, UNOPTIMISED_WAY)} on {name}" for name in there)
    measured = listed(f"{ratios(r)[BREAKPOINT]:.2f} ({r})" for r in MEASURED_ON)
    because = (
        f"Direct call, optimised fprobe and fprobe come in the published order {order_of_three}. The kprobe adds, as multiples of "
        f"the direct call, in instructions and in estimated cycles with their band: {'; '.join(told)}; an fprobe {fprobes}. "
        f"Published for a kprobe: {measured}. No count sees what an exception takes; the estimates assume it, with a wide band. "
        "In Debian's 6.12 a breakpoint kprobe without any program executes "
        f"{on_each(real_breakpoints(), 'instructions')}. Hypothetical: BPF's fentry on an fprobe."
    )
    values |= {f"{name}, kprobe, published": f"{ratios(name)[BREAKPOINT]:.2f}" for name in MEASURED_ON}
    values |= {f"{isa}, Debian's 6.12": total for isa, total in real_breakpoints().items()}
    return Verdict(kind, because, values, on)


def _row_band(by: pd.DataFrame, way: str) -> str:
    r = by.loc[way]
    return estimated(float(r["cycles"]), float(r["low"]), float(r["high"]), digits=2)


def _of(frame: pd.DataFrame, name: str, way: str) -> str:
    r = frame[(frame["core"] == name) & (frame["way"] == way)].iloc[0]
    return f"{r['instructions']:.2f} and {estimated(float(r['cycles']), float(r['low']), float(r['high']), digits=2)}"


def beside_real(frame: pd.DataFrame) -> pd.DataFrame:
    """Entry, handlers and return of a breakpoint kprobe without a program: in Debian's plain kernels and in the lab. Columns: isa,
    release, traps, kernel, lab, off (percent)."""
    out = []
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
        out.append({"isa": isa, "release": release, "traps": 1 + slot, "kernel": real, "lab": lab, "off": off})
    return pd.DataFrame(out)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the prose quotes: per core and way "cortex-a72-kprobe-breakpoint-ratio" (of instructions) and "-cycles" (of estimates,
    with the band); per round "rfc-kprobe-published", and so on, and "dd-fprobe-published" of copying; "bases-apart", the rates
    without a probe; "arm64-real-total", what Debian's 6.12 executes."""
    out: dict[str, object] = {}
    for r in frame.itertuples():
        name = f"{r.core}-{r.way.replace(', ', '-').replace(' ', '-')}"
        out |= {f"{name}-ratio": f"{r.instructions:.2f}", f"{name}-cycles": _band(r), f"{name}-added": r.added}
    out |= {f"{name.lower()}-kprobe-published": f"{ratios(name)[BREAKPOINT]:.2f}" for name in MEASURED_ON}
    copied = copies()
    out |= {"dd-fprobe-published": f"{copied[UNOPTIMISED_WAY]:.2f}", "dd-kprobe-published": f"{copied[BREAKPOINT]:.2f}"}
    out["bases-apart"] = f"{max(apart(), 1 / apart()):.1f}"
    out |= {f"{isa}-real-total": n for isa, n in real_breakpoints().items()}
    return out


def answer(frame: pd.DataFrame) -> str:
    """The usual kprobe beside fprobe and direct call, by instructions and by estimates, per ISA."""
    told, cheaper = [], []
    for name in ("cortex-a72", "skylake", "sifive-u74"):
        here = frame[frame["core"] == name].set_index("way")
        kprobe, fprobe = here.loc[usual(str(here["isa"].iloc[0]))], here.loc[UNOPTIMISED_WAY]
        cheaper.append(bool(kprobe["added"] < fprobe["added"]))
        told.append(f"{kprobe['instructions']:.2f} and {fprobe['instructions']:.2f} on {isa_name(str(kprobe['isa']))}")
    a72 = frame[frame["core"] == "cortex-a72"].set_index("way")
    than = "fewer instructions than" if all(cheaper) else "not fewer instructions everywhere than"
    said = f"BPF on a kprobe adds {than} on an unoptimised fprobe: as multiples of a direct call {listed(told)}. "
    kprobe, fprobe = (_row_band(a72, way) for way in (BREAKPOINT, UNOPTIMISED_WAY))
    said += "In cycles two exceptions come on top, which no count sees: estimated on a Cortex-A72, with bands, "
    return said + f"{kprobe} for the kprobe and {fprobe} for the fprobe."


def rounds_answer(frame: pd.DataFrame) -> str:
    """What each round says of the kprobe, and whether it is in the band of the estimate."""
    told = []
    for name, where in MEASURED_ON.items():
        row = frame[(frame["core"] == where) & (frame["way"] == BREAKPOINT)].iloc[0]
        inside = row["low"] <= ratios(name)[BREAKPOINT] <= row["high"]
        told.append(f"{ratios(name)[BREAKPOINT]:.2f} ({name}{'' if inside else ', outside the band'})")
    first = "In every published round a kprobe is the dearest way"
    if not all(ratios(r)[BREAKPOINT] == max(ratios(r).values()) for r in MEASURED_ON):
        first = "Not in every published round a kprobe is the dearest way"
    return f"{first}: {listed(told)} times what a direct call adds."


def real_answer(frame: pd.DataFrame) -> str:
    """How far the lab is from Debian's kernels."""
    return _how_far(beside_real(frame))


def _how_far(found: pd.DataFrame) -> str:
    off = 100 * (found["lab"] / found["kernel"] - 1)
    less, more = (abs(round(float(v))) for v in (min(off.min(), 0), max(off.max(), 0)))
    how = [f"up to {less} % fewer"] * bool(less) + [f"up to {more} % more"] * bool(more)
    said = f"Entry, handlers and return of a breakpoint kprobe are {on_each(real_breakpoints(), 'instructions')} in Debian's 6.12"
    return f"{said}; in its three releases the lab's are {' and '.join(how) or 'as many'}."


_LIMITS = "Emulated counts of one call of a two-argument function with one program, less the unhooked call's. "
_ESTIMATES = f"{_LIMITS}Estimates with models of the cores; what an exception takes there is an assumption. "
FIGURES = (
    Figure(
        "fig-kprobe-ways",
        "How many times as much as a direct call does BPF on a kprobe add?",
        chart=lambda frame: stacked_bars("instructions")(_drawn(frame)),
        table=table,
        answer=answer,
        alt="A panel per ISA, a bar per way to a BPF program: instructions that it adds to a call, by a direct call, by an "
        "optimised fprobe, by an fprobe as it was, and by a kprobe, through ftrace and through a breakpoint. The table has ratios, "
        "estimated cycles and exceptions, too.",
        limits=_ESTIMATES + HYPOTHETICAL,
    ),
    Figure(
        "fig-kprobe-rounds",
        "What was measured?",
        table=rounds,
        answer=rounds_answer,
        limits=f"{_ESTIMATES}Published: three rounds on a Raspberry Pi 4, and getpid() on an M1; what a way adds is what an event "
        f"takes more than without it. {HYPOTHETICAL}",
    ),
    Figure(
        "fig-kprobe-real",
        "What does a real kernel execute for a breakpoint kprobe?",
        table=beside_real,
        answer=real_answer,
        limits="Emulated counts of instructions in one call, without the probed function, the handler and the slot; no timing. "
        "Real: the text of Debian's packages, booted without mitigations.",
        in_short=BESIDE,
    ),
)
