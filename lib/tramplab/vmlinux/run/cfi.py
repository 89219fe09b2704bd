"""The types of indirect calls (CONFIG_CFI_CLANG): a call site compares a number with the one that lies before the function.

Own code has no type of its own. A compiler would give it the one that its caller asks for, so that number lies there when a site
looks. How sites look is as clang has it (KCFI_CHECK in llvm/lib/Target).
"""

from __future__ import annotations

from collections.abc import Callable

from ...emulate.machine import Machine
from ...emulate.memory.memory import Area

#: Bytes to leave before own code, for the number.
ROOM = 16
_BITS = (1 << 32) - 1


def give_types(machine: Machine, area: Area, is_code: Callable[[int], bool]) -> None:
    """From now on, give own code in an area the type that a call site asks for when it looks. is_code: does an address lie in own
    code, and not in front of it?"""
    isa, asked = machine.isa, _ASKED[machine.isa.name]

    def looks(address: int) -> None:
        if not is_code(address):
            machine.engine.write(address, asked(machine, machine.register(isa.pc)).to_bytes(4, "little"))

    machine.engine.hook_reads(area.address, area.end - 1, looks)
    machine.engine.forget_all()  # translations made before a hook was added do not call it


def _x86_64(machine: Machine, pc: int) -> int:
    """The number that a site asks for: in MOV r32, imm32 in front of the ADD that looks, whose sum is to be zero."""
    return -int.from_bytes(machine.read(pc - 4, 4), "little") & _BITS


def _arm64(machine: Machine, pc: int) -> int:
    """The number that a site asks for: in two MOVK behind the load, the lower half first."""
    low, high = (int.from_bytes(machine.read(at, 4), "little") >> 5 & 0xFFFF for at in (pc + 4, pc + 8))
    return high << 16 | low


def _riscv64(machine: Machine, pc: int) -> int:
    """The number that a site asks for: in LUI and ADDIW behind the load, or the one of them that is enough."""
    value, at = 0, pc + machine.instruction_at(pc).size
    for name, shift in (("lui", 12), ("addiw", 0)):
        i = machine.instruction_at(at)
        if i.mnemonic.removeprefix("c.") == name:
            value += int(i.operands.rpartition(",")[2], 0) << shift
            at += i.size
    return value & _BITS


_ASKED: dict[str, Callable[[Machine, int], int]] = {"x86_64": _x86_64, "arm64": _arm64, "riscv64": _riscv64}
