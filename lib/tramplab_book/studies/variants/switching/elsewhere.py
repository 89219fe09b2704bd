"""What do ops on other functions cost a call of this one? With a list function every registered ops is tested."""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.plain import Ops

from ....publish.figures.chart import lines
from ....publish.figures.figure import Figure
from ...memo import once
from ...shared.growth import step

NAME = "elsewhere"
TITLE = "What ops on other functions add to a call"
COUNTS = (0, 1, 2, 4, 8, 16, 32, 64)
#: The chart ends here; the table goes on.
DRAWN = 8
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
OTHERS = ("no_args", "one_arg", "two_args", "four_args", "five_args")
UNITS = {"instructions": "added"}
#: Line -> (ops on this function, is the kernel built without CALL_OPS?).
LINES = {"one here": (1, False), "two here": (2, False), "one here, without CALL_OPS": (1, True)}
ONE, TWO, WITHOUT = LINES


@once
def rows() -> pd.DataFrame:
    """One row per ISA, line and number of ops on other functions: what one hooked call adds to the unhooked one.

    Columns: isa, release (the newest), line (a key of LINES), here (ops on the function), others (ops on other functions),
    instructions. The line without CALL_OPS is left out where no
    kernel has it.
    """
    records = []
    for isa in ISAS:
        for line, (on_it, without) in LINES.items():
            if without and not releases.features(ISAS[isa], releases.LATEST, {})["call_ops"]:
                continue
            kernel = Kernel(isa, meter=COUNT, call_ops=False) if without else Kernel(isa, meter=COUNT)
            function = kernel.function(FUNCTION)
            base = kernel.call(function, *ARGUMENTS).counts.total.instructions
            kernel.attach(function, *(Ops() for _ in range(on_it)))
            attached = 0
            for others in COUNTS:
                for n in range(attached, others):
                    kernel.attach(kernel.function(OTHERS[n % len(OTHERS)]), Ops())
                attached = others
                added = kernel.call(function, *ARGUMENTS).counts.total.instructions - base
                head = {"isa": isa, "release": releases.LATEST, "line": line, "here": on_it}
                records.append({**head, "others": others, "instructions": added})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Instructions added: one line per ISA and line, one column per number of ops on other functions."""
    keys = frame[["isa", "line"]].drop_duplicates()
    wide = frame.pivot(index=["isa", "line"], columns="others", values="instructions")
    wide = wide.reindex(pd.MultiIndex.from_frame(keys)).reset_index()
    wide.columns = [str(name) for name in wide.columns]
    return wide


def each(frame: pd.DataFrame, isa: str, line: str) -> int | str:
    """Instructions that each ops on another function adds; "-" if they do not all add the same, or there is no such line."""
    part = frame[(frame["isa"] == isa) & (frame["line"] == line)]
    return step(dict(zip(part["others"], part["instructions"], strict=True)))


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: "arm64-two-step", what each ops on another function adds to a call of a function with two ops, and
    "arm64-without-step", what it adds with one in a kernel without CALL_OPS."""
    names = {"one": ONE, "two": TWO, "without": WITHOUT}
    return {f"{isa}-{name}-step": each(frame, isa, line) for isa in ISAS for name, line in names.items()}


FIGURES = (
    Figure(
        "fig-elsewhere",
        "What do ops on other functions add to a call of this one?",
        chart=lambda frame: lines("instructions", over="others", series="line")(_drawn(frame)),
        table=table,
        alt="A panel per ISA: instructions added to one call against the number of ops on other functions, both axes linear. "
        "With one ops on the function the line is level; with two, and with one without CALL_OPS, it rises. The table has all "
        "numbers.",
        limits="Emulated counts of instructions in one call of a three-argument function; no timing. The ops are plain and "
        "dynamic; here: on this function.",
    ),
)


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    part = frame[frame["others"] <= DRAWN]
    part.attrs["units"] = UNITS
    return part
