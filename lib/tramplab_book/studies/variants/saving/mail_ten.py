"""Do the ten instructions of October 2019 do what their mail says, as they stand there, and with the NOP that it offers?"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pandas as pd

from tramplab.emulate.machine import RECORD
from tramplab.ftrace.records import Record
from tramplab.ftrace.site import Site
from tramplab.isa.x86_64 import NOP5
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.plain import Ops
from tramplab.trampolines.sketch import Sketch

from ....publish.figures.figure import Figure
from ....publish.phrases import marked
from ...memo import once
from ..switching import observer

NAME = "mail_ten"
TITLE = "The ten instructions of the mail, executed"
ISA, FUNCTION, ARGUMENTS = "x86_64", "two_args", (1, 2)
#: The program: it writes down where its arguments are, and overwrites every register that it may.
PROGRAM = "lab_observe_direct_clobber"
REPLACEMENT = f"new_{FUNCTION}"
#: How the trampoline is written, in the words of the table; "": there is none, and ftrace patches the function's own site.
FORMS: dict[str, Sketch | None] = {
    "as mailed": Sketch(program=PROGRAM),
    "pushes swapped": Sketch(swapped=True, program=PROGRAM),
    "NOP in front": Sketch(nop=True, program=PROGRAM),
    "none": None,
}
TEN, SWAPPED, NOP, NONE = FORMS
#: What ftrace is asked for: at the NOP in front where there is one.
ASKED: dict[str, Callable[[str], Ops]] = {
    "callback": lambda where: Ops(callback=observer.CALLBACK, filter=(where,)),
    "live patch": lambda where: Ops(callback="lab_livepatch", go_to=REPLACEMENT, filter=(where,)),
}
#: Symbol -> what it is called here.
_RUNNING = {PROGRAM: "program", REPLACEMENT: "new", FUNCTION: "old"}
#: What a kernel would call the record of the NOP.
_FRONT = "front"


@once
def rows() -> pd.DataFrame:
    """One row per form of the trampoline and, of the NOP and without a trampoline, per use that ftrace makes of it.

    Columns: form, hypothetical, ftrace (a name of ASKED, "" for nothing), trampoline (instructions of the mail's that ran),
    context (the arguments as the program finds them: "1, 2" is the first before the second; "" without a program), parent (the
    caller that ftrace's callback is told, "" without one that writes it down), ran (in order; the function is "old", its
    replacement "new"), result (whose it is).
    """
    items = [_row(form, "") for form in FORMS if form != NONE]
    return pd.DataFrame([*items, *(_row(form, asked) for asked in ASKED for form in (NOP, NONE))])


def _row(form: str, asked: str) -> dict[str, object]:
    kernel, sketch, where = Kernel(ISA, meter=RECORD), FORMS[form], FUNCTION
    whose = {kernel.call(FUNCTION, *ARGUMENTS).value: "old"}
    with kernel.attached(FUNCTION, ASKED["live patch"](FUNCTION)):
        whose[kernel.call(FUNCTION, *ARGUMENTS).value] = "new"
    if sketch:
        (made,) = kernel.attach(FUNCTION, sketch)
        if sketch.nop:
            where = _known(kernel, made.direct)
    if asked:
        kernel.attach(None, ASKED[asked](where))
    run, _, saw = observer.call(kernel, FUNCTION, *ARGUMENTS)
    ran = [_RUNNING[symbol] for symbol in _bodies(run) if symbol in _RUNNING]
    return {
        "form": form,
        "hypothetical": sketch is not None,
        "ftrace": asked,
        "trampoline": sum(run.symbol_of(s.pc).startswith("sketched") for s in run.steps),
        "context": _pair(kernel, saw["arg0"]) if "program" in ran and not asked else "",
        "parent": ("function" if run.symbol_of(saw["parent_ip"]) == FUNCTION else "caller") if asked == "callback" else "",
        "ran": ", ".join(ran),
        "result": whose[run.value],
    }


def _pair(kernel: Kernel, address: int) -> str:
    """Two words of memory, as the table has them."""
    return ", ".join(map(str, struct.unpack("<2Q", kernel.machine.read(address, 16))))


def _known(kernel: Kernel, nop: int) -> str:
    """Make ftrace know the NOP, as a kernel would have to: Steven Rostedt asked at once how that was to be done."""
    site = Site(_FRONT, nop, nop, nop + len(NOP5), None, nop)
    kernel.slowpath.records[_FRONT] = Record(site, kernel.features["counter_bits"], False)
    return _FRONT


def _bodies(run: Run) -> list[str]:
    """The functions that were executed, each once, in order; of the traced one its body and not its patch site."""
    return list(dict.fromkeys(run.symbol_of(s.pc) for s in run.steps if run.component_of(s.pc) != "site"))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line per row, and - for what there is not."""
    data = frame.assign(form=[marked(r.form, r.hypothetical) for r in frame.itertuples()]).drop(columns=["hypothetical", "result"])
    printed = data.rename(columns={"trampoline": "insns"}).astype(str).replace({"": "-", "0": "-"})
    printed.attrs["right"] = ["insns"]
    return printed


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Numbers for the prose: instructions of the trampoline ("ten-total", "swapped-total"), which argument its program
    finds first ("ten-first", "swapped-first"); the caller that a callback is told ("nop-parent", "site-parent"), and what a live
    patch runs and the result of which ("nop-ran", "nop-result", "site-ran"), at the NOP and at the site."""
    at = {(r.form, r.ftrace): r for r in frame.itertuples()}
    values: dict[str, object] = {}
    for name, r in (("ten", at[TEN, ""]), ("swapped", at[SWAPPED, ""])):
        values |= {f"{name}-total": r.trampoline, f"{name}-first": int(r.context.partition(",")[0])}
    for name, form in {"nop": NOP, "site": NONE}.items():
        values |= {f"{name}-parent": at[form, "callback"].parent, f"{name}-ran": at[form, "live patch"].ran}
    return values | {"nop-result": at[NOP, "live patch"].result}


FIGURES = (
    Figure(
        "fig-mail-ten",
        "Do the ten instructions of the mail work?",
        table=table,
        limits="Emulated: the mail's ten instructions as they stand there, as a direct call of an x86-64 v7.2 kernel of the lab, "
        "on a function of two arguments. No kernel has them; a dash: nothing of the kind. The program overwrites all registers "
        "that it may. The record of the NOP is made by hand.",
        hypothetical=True,
    ),
)
