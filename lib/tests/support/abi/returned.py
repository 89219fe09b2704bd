"""A call whose return is hooked, halted where it comes back: what the return trampoline finds, and what it leaves.

Condition flags are drawn there. No caller expects any, but a handler may look at them, and a trampoline that saves them brings them
back.
"""

from __future__ import annotations

import random
import re

from support.abi import abi
from support.abi.members import Struct
from tramplab.isa import Isa

#: What the state of the CPU is called among registers.
CPU_STATE = "state"
#: ISA -> the register of the engine's that has it, its condition flags, what else of it is looked at, and its place in a struct
#: pt_regs; riscv64 has no flags.
_STATES = {"x86_64": ("eflags", 0x8D5, 1 << 9, "flags"), "arm64": ("pstate", 0xF << 28, 0xF << 6 | 0xF, "pstate")}


def state(h: abi.Hooked) -> dict[str, int]:
    """The state as it is now, where the ISA has one."""
    if h.isa.name not in _STATES:
        return {}
    register, flags, others, _ = _STATES[h.isa.name]
    return {CPU_STATE: h.machine.register(register) & (flags | others)}


def state_told(h: abi.Hooked, regs: int) -> dict[str, int]:
    """The same as a struct pt_regs has it."""
    if h.isa.name not in _STATES:
        return {}
    _, flags, others, member = _STATES[h.isa.name]
    return {CPU_STATE: Struct(h.kernel, "pt_regs", regs)[member] & (flags | others)}


def returned(h: abi.Hooked, trampoline: int, seed: int) -> tuple[dict[str, int], dict[str, int]]:
    """Play a state as far as the return trampoline, then to its end: the registers there, and at the end, and the CPU_STATE among
    them. Nothing of what the caller has on the stack may have changed in between."""
    drawn, m, isa = h.draw(seed, "three_args"), h.machine, h.isa
    m.set_registers({**drawn.registers, isa.sp: drawn.sp})
    m.poke(trampoline, m.read(trampoline, 4))  # what was translated for one end of a run must not serve another
    first = dict(m.run(h.lab.functions["three_args"].address, trampoline, abi.BUDGET).registers)
    rng = random.Random(seed)
    m.write(first[isa.sp] - abi.BELOW, rng.randbytes(abi.BELOW))  # no slot is right by luck
    if isa.name in _STATES:
        register, flags, _, _ = _STATES[isa.name]
        m.set_register(register, m.register(register) & ~flags | rng.getrandbits(64) & flags)
    first |= state(h)
    above = first[isa.sp], m.stack_top - first[isa.sp]
    callers = m.read(*above)
    last = dict(m.run(trampoline, m.return_to, abi.BUDGET).registers) | state(h)
    assert m.read(*above) == callers, "what the caller has on the stack has changed"
    return first, last


def reloads_what_nobody_misses(isa: Isa, text: str) -> bool:
    """Is a return trampoline's instruction a load of registers alone that calls keep anyway, or that no caller expects back?"""
    name, _, operands = text.partition(" ")
    loaded = {r for r in re.findall(r"[a-z]+[0-9]*", operands.partition("[")[0].partition("(")[0]) if r in isa.registers}
    return name in ("ldp", "c.ldsp") and loaded <= {*isa.callee_saved, *isa.scratch, *isa.fixed}
