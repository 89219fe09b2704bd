"""How a count comes about, on a function of ten instructions that can be counted by hand."""

from __future__ import annotations

import pandas as pd

from tramplab.build.assemble import assemble
from tramplab.emulate.counting.counts import Counts
from tramplab.emulate.decode import known_accesses
from tramplab.emulate.machine import COUNT
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel

from ...publish.figures.figure import Figure
from ..memo import once

NAME = "counting"
TITLE = "Ten instructions, counted"
#: The array that is summed up, and where in the module area the example lies.
WORDS = (5, 7, 9)
OFFSET = 0x8000
UNITS = {"load_bytes": "B", "store_bytes": "B"}

#: Sum the words of an array (first argument, length second), store the sum (third), and return it.
EXAMPLES = {
    "x86_64": """
        xor eax, eax
    again:
        add rax, qword ptr [rdi]
        add rdi, 8
        dec rsi
        jnz again
        mov qword ptr [rdx], rax
        push rbx
        pop rbx
        nop
        ret
    """,
    "arm64": """
        mov x3, #0
    again:
        ldr x4, [x0], #8
        add x3, x3, x4
        subs x1, x1, #1
        b.ne again
        str x3, [x2]
        stp x3, x4, [sp, #-16]!
        ldp x3, x4, [sp], #16
        mov x0, x3
        ret
    """,
    "riscv64": """
        li a3, 0
    again:
        ld a4, 0(a0)
        add a3, a3, a4
        addi a0, a0, 8
        addi a1, a1, -1
        bnez a1, again
        sd a3, 0(a2)
        mv a0, a3
        nop
        ret
    """,
}


@once
def rows() -> pd.DataFrame:
    """One row per ISA and instruction: how often it was issued and left by a branch, and what it moved in all.

    Columns: isa, instruction, times, loads, stores, load_bytes, store_bytes, branches_taken.
    """
    records = []
    for isa in ISAS.values():
        kernel = Kernel(isa.name, meter=COUNT)
        machine, at = kernel.machine, isa.module_base + OFFSET
        code = assemble(isa, EXAMPLES[isa.name], at)
        machine.poke(at, code)
        array, result = kernel.memory(*WORDS), kernel.memory(0)
        arguments = dict(zip(isa.args, (array, len(WORDS), result), strict=False))
        run = machine.call(at, arguments)
        for pc, (times, taken) in sorted(run.tally.issued.items()):
            a = known_accesses(isa, pc, machine.read(pc, isa.max_insn))
            moved = Counts(
                times, times * a.loads, times * a.stores, times * a.load_bytes, times * a.store_bytes, taken
            ).as_dict()
            text = machine.instruction_at(pc).text
            records.append({"isa": isa.name, "instruction": text, "times": moved.pop("instructions"), **moved})
    frame = pd.DataFrame(records)
    frame.attrs["units"] = UNITS
    return frame


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: all of it."""
    return frame


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """Numbers for the prose: words in the array, and per ISA the instructions of text and the executed ones."""
    values = {"words": len(WORDS)}
    for isa, part in frame.groupby("isa"):
        values |= {f"static-{isa}": len(part), f"dynamic-{isa}": int(part["times"].sum())}
    return values


FIGURES = (Figure("fig-counting", "How often does each instruction run?"),)
