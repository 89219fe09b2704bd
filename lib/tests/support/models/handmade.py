"""Calls written by hand: a few lines of assembler, run once in a lab kernel's machine, for the analyses to look at."""

from __future__ import annotations

import functools

from tramplab import Kernel
from tramplab.build.assemble import assemble
from tramplab.emulate.counting.trace import Recording
from tramplab.lab.call import RecordedCall

OFFSET = 0xC000  # in the module area, where nothing else lies


@functools.cache
def kernel(isa: str) -> Kernel:
    return Kernel(isa)


def call(isa: str, text: str) -> RecordedCall:
    """Run the text as a function (entered by a call, with its own return in it) and take down what it did."""
    k = kernel(isa)
    start = k.isa.module_base + OFFSET
    code = assemble(k.isa, text, start)
    k.machine.poke(start, code)
    zeros = {r: 0 for r in k.isa.registers if r not in k.isa.fixed and r != k.isa.link}
    raw = k.machine.call(start, zeros)
    instructions = {pc: k.machine.instruction_at(pc) for pc in raw.tally.issued}
    return RecordedCall(
        k.isa,
        Recording(raw.events, instructions),
        instructions,
        raw.registers[k.isa.pc],
        lambda a: f"text+{a - start:#x}" if 0 <= a - start < len(code) else None,
    )
