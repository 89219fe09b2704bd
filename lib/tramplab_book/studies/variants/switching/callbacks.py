"""What does each further callback on one function cost, and does it matter whether one of them wants all registers?"""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.growing import growing
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.growth import step

NAME = "callbacks"
TITLE = "What each further callback adds"
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: Which of the ops want all registers: series -> number of callbacks -> what each of them saves.
REGISTERS = {
    "none": lambda k: ["args"] * k,
    "one": lambda k: ["regs"] + ["args"] * (k - 1),
    "all": lambda k: ["regs"] * k,
}
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
UNITS = {"load_bytes": "B", "store_bytes": "B"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, who wants all registers, and number of callbacks: what one hooked call adds to the unhooked one.

    Columns: isa, release, regs (none, one, all), callbacks, instructions, loads, stores, load_bytes, store_bytes,
    branches_taken. Releases: the newest shown that can save all registers on request, and the newest of all; where these
    differ, the newest has only the series without.
    """
    records = []
    for isa in ISAS.values():
        for release in shown(isa.name):
            kernel = Kernel(isa.name, release, meter=COUNT)
            function = kernel.function(FUNCTION)
            base = kernel.call(function, *ARGUMENTS).counts.total
            for regs, saves in REGISTERS.items():
                if regs != "none" and not kernel.features["regs"]:
                    continue
                with growing(kernel, function) as attach:
                    for k in COUNTS:
                        attach([Ops(save=save) for save in saves(k)])
                        added = (kernel.call(function, *ARGUMENTS).counts.total - base).as_dict()
                        records.append({"isa": isa.name, "release": release, "regs": regs, "callbacks": k, **added})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def shown(isa: str) -> list[str]:
    """The releases of this study on an ISA, oldest first: last with a regs trampoline, and newest."""
    with_regs = [r for r in releases.shown() if releases.features(ISAS[isa], r, {})["regs"]]
    return list(dict.fromkeys((with_regs[-1], releases.LATEST)))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions added: one line per ISA, release and series, one column per number of callbacks."""
    keys = ["isa", "release", "regs"]
    lines = pd.MultiIndex.from_frame(frame[keys].drop_duplicates())
    wide = frame.pivot(index=keys, columns="callbacks", values="instructions").reindex(lines).reset_index()
    wide.columns = [str(name) for name in wide.columns]
    return wide


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-further-step", what each callback from the second to the third on adds in the newest
    release, "arm64-second-step", what the second one adds there, and "x86_64-one-added", "x86_64-all-added": what it adds to a
    call with two callbacks that one of them, or both, want all registers; "x86_64-one-step": what each further one adds then, and
    "x86_64-none-step", what it adds where none does."""
    values: dict[str, object] = {}
    newest = releases.LATEST
    wide = table(frame).set_index(["isa", "release", "regs"])
    two = str(COUNTS[1])
    for isa in ISAS:
        line = wide.loc[(isa, newest, "none")]
        values[f"{isa}-further-step"] = slope(frame, isa, newest)
        values[f"{isa}-second-step"] = int(line["2"] - line["1"])
        release = shown(isa)[0]
        none, one, every = (int(wide.loc[(isa, release, regs), two]) for regs in REGISTERS)
        values[f"{isa}-one-added"], values[f"{isa}-all-added"] = one - none, every - none
        values |= {f"{isa}-{regs}-step": slope(frame, isa, release, regs) for regs in ("none", "one")}
    return values


def slope(frame: pd.DataFrame, isa: str, release: str, regs: str = "none") -> int | str:
    """Instructions that each callback adds, from the second to the third on; "-" if they do not all add the same."""
    line = table(frame).set_index(["isa", "release", "regs"]).loc[(isa, release, regs)]
    return step({n: line[str(n)] for n in COUNTS[1:]})


def drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """What the chart shows of each ISA: instructions that the first callback of the newest release adds, the second, and each
    further one; and what it adds to two of them, in the last release with a trampoline for that, to be handed all registers."""
    n, records = numbers(frame), []
    for isa in ISAS:
        first = frame[(frame["isa"] == isa) & (frame["release"] == releases.LATEST) & (frame["callbacks"] == COUNTS[0])]
        bars = {"the first": int(first["instructions"].iloc[0]), "the second": n[f"{isa}-second-step"]}
        bars |= {"each further one": n[f"{isa}-further-step"], "all registers": n[f"{isa}-one-added"]}
        head = {"isa": isa, "part": "added"}
        records += [{**head, "what": what, "instructions": number} for what, number in bars.items() if number != "-"]
    out = pd.DataFrame(records).astype({"instructions": int})
    out.attrs["units"] = {"instructions": "added"}
    return out


FIGURES = (
    Figure(
        "fig-callbacks",
        "What does each further callback add, and one that wants all registers?",
        chart=lambda frame: stacked_bars("instructions", bars="what", stack="part")(drawn(frame)),
        table=table,
        alt="A panel per ISA with four bars: instructions that the first callback on a function adds to a call, the second, "
        "and each further one; and, of the last release that has a trampoline for all registers, what it adds to two "
        "callbacks that one or both want them. The second adds most.",
        limits="Emulated counts of instructions in one call of a three-argument function; no timing. none, one, all: how "
        "many of the ops want all registers.",
    ),
)
