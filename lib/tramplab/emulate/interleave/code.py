"""The code that CPUs run in turns, decoded for scheduler.c: what each instruction touches, and which registers a CPU needs kept."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ..decode import accesses_of
from ..machine import Machine
from . import arm64, layout, riscv64, x86_64
from .touch import ACCESS, CLEAR, LOCAL, SHARED, Touch

_ISAS = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
_NO_REGISTER = 0xFF


class Code:
    """Some functions of a machine, for the scheduler.

    base, length: from the first byte to the last, in bytes.
    registers: those that a CPU's turn may change, and its own special ones.
    number: register -> its index in `registers`.
    flags: the register with the condition flags.
    start: register -> its first value, of those that do not begin with 0.
    """

    def __init__(self, machine: Machine, functions: Sequence[tuple[int, int]], special: Sequence[str]) -> None:
        isa, module = machine.isa, _ISAS[machine.isa.name]
        self.base = min(at for at, _ in functions)
        self.length = max(at + size for at, size in functions) - self.base
        self.flags, self.start = module.FLAGS, {module.FLAGS: module.START}
        touches: dict[int, tuple[int, Touch]] = {}
        named = set()
        for start, size in functions:
            at = start
            while at < start + size:
                instruction = machine.instruction_at(at)
                memory = accesses_of(isa, instruction)
                touch = module.touch(instruction)
                if not (memory.loads or memory.stores or touch.kind == CLEAR) or touch.base == isa.sp:
                    touch = Touch(LOCAL)
                elif touch.kind == ACCESS and touch.base not in isa.registers:
                    touch = Touch(SHARED)
                touches[at - self.base] = instruction.size, touch
                named.update(instruction.operands.replace(",", " ").split())
                at += instruction.size
        kept = [r for r in isa.registers if r not in isa.callee_saved or r in named or r == isa.sp]
        self.registers = list(dict.fromkeys([*kept, isa.pc, self.flags, *special]))
        self.number = {name: n for n, name in enumerate(self.registers)}
        self.places = self._places(touches)

    def _places(self, found: dict[int, tuple[int, Touch]]) -> np.ndarray:
        """An array of layout.Place, one for each byte at which an instruction can begin."""
        places = np.zeros(self.length, np.dtype(layout.Place))
        for offset, (length, touch) in found.items():
            registers = (self.number.get(name, _NO_REGISTER) for name in (touch.base, touch.value, touch.status))
            places[offset] = touch.offset, touch.kind, touch.size, length, *registers
        assert places.itemsize == ctypes.sizeof(layout.Place)
        return places
