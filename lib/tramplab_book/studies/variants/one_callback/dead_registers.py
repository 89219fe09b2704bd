"""Which registers does a function need at its first instruction? Each one poisoned in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tramplab.base.errors import GuestFault, StepLimit
from tramplab.emulate.machine import COUNT
from tramplab.isa import ISAS, Isa
from tramplab.lab.kernel import Kernel
from tramplab.lab.measure import STUDIED

from ....publish.figures.figure import Figure
from ...memo import once

NAME = "dead_registers"
TITLE = "Registers poisoned at a function's first instruction"
UNITS: dict[str, str] = {}
#: What goes into a register: no result depends on it by accident, and it is no address.
POISON = 0x5BAD_0000_0000_0BAD
#: Roles of which the claim says that they are dead.
CLAIMED = ("other argument", "return")
STRUCT = "big_struct_return"


@dataclass(frozen=True)
class Prepared:
    """A function and how it is called: its arguments, registers besides, and the registers its arguments are in."""

    function: str
    arguments: tuple[int, ...]
    registers: dict[str, int]
    carries: tuple[str, ...]


@once
def rows() -> pd.DataFrame:
    """One row per ISA, function and register.

    Columns: isa, function, register, role at the function's first instruction ("argument": carries one; "other argument":
    could carry one; "return"; "scratch": others a callee may change; "preserved": those it may not; "frame pointer"),
    effect of a poison in it on what the call returns and writes ("none", "other result", "fault").
    """
    out = []
    for isa in ISAS.values():
        kernel = Kernel(isa.name, meter=COUNT)
        where = kernel.memory(0, 0, 0)
        for subject in _subjects(isa, where):
            right = _call(kernel, subject, where, {})
            for register in isa.registers:
                if register not in (*isa.fixed, isa.sp, isa.link):
                    effect = _effect(kernel, subject, where, register, right)
                    role = _role(isa, subject, register)
                    head = {"isa": isa.name, "function": subject.function, "register": register}
                    out.append({**head, "role": role, "effect": effect})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def _subjects(isa: Isa, where: int) -> Iterator[Prepared]:
    """Functions of no to eight integers, and one that returns a struct through memory: its address is passed, too."""
    for n, name in enumerate(STUDIED):
        yield Prepared(name, tuple(range(11, 11 + n)), {}, isa.args[:n])
    if isa.struct_return in isa.args:
        yield Prepared(STRUCT, (where, 11, 12), {}, isa.args[:3])
    else:
        yield Prepared(STRUCT, (11, 12), {isa.struct_return: where}, (*isa.args[:2], isa.struct_return))


def _effect(kernel: Kernel, subject: Prepared, where: int, register: str, right: tuple[int, ...]) -> str:
    try:
        return "none" if _call(kernel, subject, where, {register: POISON}) == right else "other result"
    except (GuestFault, StepLimit):
        return "fault"


def _call(kernel: Kernel, subject: Prepared, where: int, poison: dict[str, int]) -> tuple[int, ...]:
    """What the call gives back: its value (but of a struct, whose address is its own business) and the struct's words."""
    for n in range(3):
        kernel.machine.write_u64(where + 8 * n, 0)
    isa = kernel.isa
    start, stack = kernel.passed(subject.arguments, subject.registers)
    raw = kernel.machine.call(kernel.function(subject.function).address, {**start, **poison}, stack, budget=10_000)
    value = 0 if subject.function == STRUCT else raw.registers[isa.returns[0]]
    return value, *(kernel.machine.read_u64(where + 8 * n) for n in range(3))


def _role(isa: Isa, subject: Prepared, register: str) -> str:
    if register in subject.carries:
        return "argument"
    if register == isa.fp:
        return "frame pointer"
    for name, group in (("other argument", isa.args), ("return", isa.returns), ("preserved", isa.callee_saved)):
        if register in group:
            return name
    return "scratch"


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Per ISA and role: how many registers of how many functions were poisoned, and how often that showed."""
    groups = frame.assign(shows=frame["effect"] != "none").groupby(["isa", "role"], sort=False)
    out = groups.agg(poisoned=("shows", "size"), shows=("shows", "sum")).reset_index()
    return out.sort_values(["isa", "role"], key=lambda c: c.map(_ORDER.index), kind="stable").reset_index(drop=True)


_ORDER = [*ISAS, "argument", "other argument", "return", "scratch", "preserved", "frame pointer"]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """What the prose quotes: poisoned registers that were claimed dead, those of them that were not, and the ones that carry
    an argument without a change of the result (none may); and of which no one claimed anything "others", and those of them that
    are not dead, "others-alive"."""
    claimed, others = frame[frame["role"].isin(CLAIMED)], frame[~frame["role"].isin((*CLAIMED, "argument"))]
    return {
        "claimed": len(claimed),
        "alive": int((claimed["effect"] != "none").sum()),
        "arguments": int((frame["role"] == "argument").sum()),
        "unnoticed": int(((frame["role"] == "argument") & (frame["effect"] == "none")).sum()),
        "others": len(others),
        "others-alive": int((others["effect"] != "none").sum()),
    }


FIGURES = (
    Figure(
        "fig-dead-registers",
        "Which registers does a function need at its first instruction?",
        table=table,
        limits="Functions of no to eight integers and one that returns a struct through memory, compiled by clang at -O2; one "
        "register poisoned per call. What was compiled to need nothing else may need it elsewhere.",
    ),
)
