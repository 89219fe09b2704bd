"""arm64: BRK at EL1, taken to EL1 with SP_EL1 (ARM DDI 0487, D1.3: exception entry and return)."""

from __future__ import annotations

from ..engine import Engine

#: How the engine reports it: as an interrupt of this number, with the pc at the instruction.
INTERRUPT, BEHIND = 7, 0
#: ESR_EL1.EC of a BRK in AArch64, with the bit for a 32-bit instruction.
_SYNDROME = 0x3C << 26 | 1 << 25
_COMMENT = 0xFFFF
_MASKED = 0xF << 6  # D, A, I and F
#: SPSR_EL1 as the engine's system registers go: crn, crm, op0, op1, op2.
_SPSR = (4, 0, 3, 0, 0)


def enter(engine: Engine, pc: int) -> None:
    """Take the exception: return address and state go to system registers, and debug exceptions and interrupts are masked."""
    state = engine.register("pstate")
    brk = int.from_bytes(engine.read(pc, 4), "little")
    engine.set_register("elr_el1", pc)
    engine.set_system(_SPSR, state)
    engine.set_register("esr_el1", _SYNDROME | brk >> 5 & _COMMENT)
    engine.set_register("pstate", state | _MASKED)


def leave(engine: Engine) -> int:
    """Do what ERET does: restore the state; gives the address in ELR_EL1."""
    engine.set_register("pstate", engine.system(_SPSR))
    return engine.register("elr_el1")
