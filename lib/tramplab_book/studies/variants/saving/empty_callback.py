"""What does a call take that does nothing? Asked for in October 2019, in a loop; counted here, and timed in user mode."""

from __future__ import annotations

import pandas as pd

from tramplab.emulate.machine import COUNT
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import FUNCTIONS
from tramplab.native import states
from tramplab.native.cached import EMPTY, saved

from ....publish.figures.chart import stacked_bars
from ....publish.figures.figure import Figure
from ....publish.figures.fitted import digits
from ...memo import once
from ...shared.hypothetical import flagged, named
from ...time import native_machine
from ...time.saved_times import MACHINES
from .save_set_cycles import bars

NAME = "empty_callback"
TITLE = "Trampolines that call what does nothing, timed"
#: No hook of the lab's, and no kernel's.
SKETCHED = ("ten instructions",)
UNITS = {"instructions": "added", "cycles": "added"}


@once
def rows() -> pd.DataFrame:
    """One row per machine of data/native/ and trampoline, of those on which its windows agree.

    Columns: isa, machine, hook, hypothetical, args, instructions (that the lab's kernel executes more in a call, with the empty
    callback's own), cycles (that a call takes more natively).
    """
    items = []
    for machine, result in saved(EMPTY).items():
        isa, args = str(result.provenance["isa"]), int(str(result.provenance["arguments"]))
        head = {"isa": isa, "machine": native_machine.called(result, machine)}
        for row in result.rows:
            name = str(row["hook"])
            if row["agreed"] and name in states.EMPTY:
                counted = added(isa, name, args)
                timed = {"args": args, "instructions": counted, "cycles": round(float(str(row["cycles_over"])), 2)}
                items.append({**head, "hook": states.EMPTY[name] or SKETCHED[0], **timed})
    frame = flagged(pd.DataFrame(items), also=SKETCHED)
    frame.attrs["units"] = UNITS
    return frame


def added(isa: str, name: str, args: int) -> int:
    """Instructions that one of them adds to a call of a function of so many arguments."""
    kernel = Kernel(isa, meter=COUNT)
    function, arguments = kernel.function(FUNCTIONS[args]), range(1, args + 1)
    idle = kernel.call(function, *arguments).counts.total.instructions
    with states.hook(name)(kernel, function):
        return kernel.call(function, *arguments).counts.total.instructions - idle


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per trampoline."""
    printed = named(frame)[["isa", "machine", "hook", "instructions", "cycles"]]
    printed = printed.assign(cycles=printed["cycles"].map(digits))
    printed.attrs = {"units": UNITS, "right": ["instructions", "cycles"]}
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose, by machine: "zen4-ops-cycles" and "zen4-ops-added" (instructions), "ten" of the mail's; and
    "machines", how many there are."""
    values: dict[str, object] = {"machines": frame["machine"].nunique()}
    for r in frame.itertuples():
        name = f"{r.machine}-{'ten' if r.hook in SKETCHED else r.hook}"
        values |= {f"{name}-cycles": round(r.cycles), f"{name}-added": int(r.instructions)}
    return values


FIGURES = (
    Figure(
        "fig-empty-hook",
        "What does a callback cost that does nothing?",
        chart=lambda frame: stacked_bars("cycles", facet="machine")(bars(frame)),
        table=table,
        alt="A bar per trampoline: cycles that it adds to a call when what it calls returns at once, least for the mail's ten "
        "instructions, most for all registers. The table has the instructions, too.",
        limits="Cycles that one trampoline with an empty callback adds to a call of a function of two arguments, measured "
        "natively, warm, in user mode, in a loop. Machines are called by their cores. Instructions are those of the lab's kernel.",
        kind="measured",
        machine=MACHINES,
        hypothetical=True,
    ),
)
