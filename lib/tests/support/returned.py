"""A call whose return is hooked, halted where it comes back: what the return trampoline finds, and what it leaves."""

from __future__ import annotations

import random

from support import abi


def returned(h: abi.Hooked, trampoline: int, seed: int) -> tuple[dict[str, int], dict[str, int]]:
    """Play a state as far as the return trampoline, then to its end: the registers there, and at the end. Nothing of what the
    caller has on the stack may have changed in between."""
    state, m, isa = h.draw(seed, "three_args"), h.machine, h.isa
    m.set_registers({**state.registers, isa.sp: state.sp})
    m.poke(trampoline, m.read(trampoline, 4))  # what was translated for one end of a run must not serve another
    first = m.run(h.lab.functions["three_args"].address, trampoline, abi.BUDGET).registers
    rubbish = random.Random(seed).randbytes(abi.BELOW)  # no slot is right by luck
    m.write(first[isa.sp] - abi.BELOW, rubbish)
    above = first[isa.sp], m.stack_top - first[isa.sp]
    callers = m.read(*above)
    last = m.run(trampoline, m.return_to, abi.BUDGET).registers
    assert m.read(*above) == callers, "what the caller has on the stack has changed"
    return dict(first), dict(last)
