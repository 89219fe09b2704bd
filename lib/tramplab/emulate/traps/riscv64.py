"""riscv64: EBREAK in S-mode, delegated to S-mode (privileged architecture, 12.1: sstatus, sepc, scause)."""

from __future__ import annotations

from ..engine import Engine

#: The engine reports it as an instruction that it does not know, with the pc at the instruction.
INTERRUPT, BEHIND = None, 0
_BREAKPOINT = 3
_SIE, _SPIE, _SPP = 1 << 1, 1 << 5, 1 << 8


def enter(engine: Engine, pc: int) -> None:
    """Take the exception: set sepc, scause and stval; interrupts go off, and sstatus keeps that they were on, and S-mode."""
    status = engine.register("sstatus")
    on = _SPIE if status & _SIE else 0
    engine.set_register("sepc", pc)
    engine.set_register("scause", _BREAKPOINT)
    engine.set_register("stval", pc)
    engine.set_register("sstatus", status & ~(_SIE | _SPIE) | on | _SPP)


def leave(engine: Engine) -> int:
    """Do what SRET does: restore sstatus; gives the address in sepc."""
    status = engine.register("sstatus")
    on = _SIE if status & _SPIE else 0
    engine.set_register("sstatus", status & ~(_SIE | _SPP) | on | _SPIE)
    return engine.register("sepc")
