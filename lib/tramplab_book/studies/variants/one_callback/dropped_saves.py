"""Must a trampoline save the argument registers? Each restore taken out in turn, under two callbacks."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.base.errors import GuestFault, StepLimit
from tramplab.emulate.decode import Instruction
from tramplab.emulate.machine import RECORD
from tramplab.estimate.operations import NONE
from tramplab.estimate.program import operation_of
from tramplab.isa import ISAS, Isa
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import STUDIED
from tramplab.lab.run import Run
from tramplab.lab.view import Function
from tramplab.trampolines.plain import Ops

from ....publish.figures.figure import Figure
from ...memo import once

NAME = "dropped_saves"
TITLE = "One restore of the trampoline taken out"
UNITS: dict[str, str] = {}
#: The lab's own, which adds one to a counter; and one that spoils every register that a callee may change.
CALLBACKS = {"counts": "lab_callback", "clobbers": "lab_observe_clobber"}


@once
def rows() -> pd.DataFrame:
    """One row per ISA, callback, restore taken out, and function called.

    Columns: isa, callback ("counts", "clobbers"), restore (the registers that the instruction reloads, with blanks
    between), function, carries (does one of them carry an argument of the function?), right (is the result the unhooked
    call's?).
    """
    out = []
    for isa in ISAS.values():
        for what, callback in CALLBACKS.items():
            kernel = Kernel(isa.name, meter=RECORD)
            for name in STUDIED:
                out += [
                    {"isa": isa.name, "callback": what, **row} for row in _drop(kernel, kernel.function(name), callback)
                ]
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _drop(kernel: Kernel, function: Function, callback: str) -> list[dict[str, object]]:
    """Every restore of the function's trampoline taken out in turn."""
    isa, count = kernel.isa, STUDIED.index(function.name)
    arguments = tuple(range(11, 11 + count))
    right, out = kernel.call(function, *arguments).value, []
    with kernel.attached(function, Ops(callback=callback)):
        run = kernel.call(function, *arguments)
        for i in _way_out(run):
            if reloads := restored(isa, i):
                original = kernel.machine.read(i.address, i.size)
                kernel.machine.poke(i.address, isa.nops[i.size])
                ok = _value(kernel, function, arguments) == right
                kernel.machine.poke(i.address, original)
                carries = any(r in isa.args[:count] for r in reloads)
                row = {"restore": " ".join(reloads), "function": function.name, "carries": carries, "right": ok}
                out.append(row)
    return out


def _way_out(run: Run) -> list[Instruction]:
    """What the trampoline executes after the callback: before it, it also loads what it passes on."""
    parts = [run.component_of(s.pc) for s in run.steps]
    last = max(n for n, part in enumerate(parts) if part == "callback")
    return [
        run.instructions[s.pc] for s, part in list(zip(run.steps, parts, strict=True))[last:] if part == "trampoline"
    ]


def _value(kernel: Kernel, function: Function, arguments: tuple[int, ...]) -> int | None:
    try:
        return kernel.call(function, *arguments, budget=20_000).value
    except (GuestFault, StepLimit):
        return None


def restored(isa: Isa, i: Instruction) -> tuple[str, ...]:
    """The argument registers that an instruction loads from the stack; none if it is no such load."""
    o = operation_of(isa, i)
    if o.unit != NONE or isa.sp not in o.address:
        return ()
    return tuple(r for r in o.writes if r in isa.args)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and restore: of the functions that take one of the registers, how many return a wrong result."""
    taking = frame[frame["carries"]]
    wrong = taking.assign(wrong=~taking["right"]).pivot_table(
        index=["isa", "restore"], columns="callback", values="wrong", aggfunc="sum", sort=False
    )
    functions = taking[taking["callback"] == "counts"].groupby(["isa", "restore"], sort=False).size()
    out = wrong.assign(functions=functions)[["functions", *CALLBACKS]].astype(int).reset_index()
    out.columns.name = None
    out = out.rename(columns={"counts": "counting", "clobbers": "clobbering"})
    out.attrs["units"] = {"functions": "tried", "counting": "wrong", "clobbering": "wrong"}
    return out


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """What the prose quotes: how many restores were taken out under functions that need them, and how many results were wrong
    then, by callback ("counts", "clobbers"); "idle": wrong ones where the function does not need them."""
    out: dict[str, object] = {}
    for name, part in frame[frame["carries"]].groupby("callback", sort=False):
        out["dropped"] = len(part)
        out[str(name)] = int((~part["right"]).sum())
    out["idle"] = int((~frame[~frame["carries"]]["right"]).sum())
    return out


FIGURES = (
    Figure(
        "fig-dropped-saves",
        "Must a trampoline save the arguments?",
        table=table,
        limits="The newest release; functions of no to eight integers. A restore is replaced by a NOP, which is the same for the "
        "function as not having saved the register.",
    ),
)
