"""x86-64: INT3 in the kernel, through an interrupt gate (SDM volume 3, 7.14: interrupts and exceptions in 64-bit mode)."""

from __future__ import annotations

import struct

from ..engine import Engine

#: How the engine reports it: as an interrupt of this number, with the pc behind the instruction.
INTERRUPT, BEHIND = 3, 1
_CS, _SS, _IF, _TF, _FIXED = 0x10, 0x18, 1 << 9, 1 << 8, 1 << 1
_FRAME = struct.Struct("<5Q")  # rip, cs, rflags, rsp, ss


def enter(engine: Engine, pc: int) -> None:
    """Align the stack, push ss, rsp, rflags, cs and the address behind the INT3; an interrupt gate clears IF and TF."""
    sp, flags = engine.register("rsp"), engine.register("eflags") | _FIXED
    low = (sp & ~15) - _FRAME.size
    engine.write(low, _FRAME.pack(pc + BEHIND, _CS, flags, sp, _SS))
    engine.set_register("rsp", low)
    engine.set_register("eflags", flags & ~(_IF | _TF))


def leave(engine: Engine) -> int:
    """Do what IRETQ does: pop flags and stack pointer; gives the popped rip."""
    ip, _, flags, sp, _ = _FRAME.unpack(engine.read(engine.register("rsp"), _FRAME.size))
    engine.set_register("eflags", flags)
    engine.set_register("rsp", sp)
    return ip
