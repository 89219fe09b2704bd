"""What a callee leaves as it finds it besides general registers, as far as the engine lets one see it: whether interrupts are on,
which way strings go, whether user memory is open, and how floating point rounds, which a kernel's own code does not touch."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tramplab.emulate.machine import Machine


@dataclass(frozen=True)
class Part:
    """A register of the engine's. always: bits that are set. drawn: those that a caller may have set or not. kept: those that it
    finds again."""

    register: str
    always: int
    drawn: int
    kept: int


_DF, _IF, _AC, _SYSTEM = 1 << 10, 1 << 9, 1 << 18, 0x7000  # the direction is forward at every call
_DAIF, _NZCV, _MODE, _PAN_UAO = 0xF << 6, 0xF << 28, 0x5, 3 << 22
_SIE, _SUM, _MXR, _FP_AND_VECTORS = 1 << 1, 1 << 18, 1 << 19, 3 << 13 | 3 << 9
#: By ISA. Condition flags are drawn and not kept. riscv64's fcsr cannot be read while floating point is off, as in a kernel; who
#: writes there gets an exception.
PARTS: dict[str, tuple[Part, ...]] = {
    "x86_64": (
        Part("eflags", 1 << 1, 0x8D5 | _IF | _AC, _DF | _IF | _AC | _SYSTEM),
        Part("mxcsr", 0x1F80, 0xE040, 0xFFC0),
        Part("fpcw", 0x3F, 0xF00, 0xF3F),
    ),
    "arm64": (
        Part("pstate", _MODE, _NZCV | _DAIF, _DAIF | _MODE | _PAN_UAO),
        Part("fpcr", 0, 0xF << 22 | 1 << 26, (1 << 32) - 1),
    ),
    "riscv64": (Part("sstatus", 0, _SIE | _SUM | _MXR, _SIE | _SUM | _MXR | _FP_AND_VECTORS),),
}


def draw(machine: Machine, rng: random.Random) -> None:
    """Set all of it to what a caller may have."""
    for part in PARTS[machine.isa.name]:
        machine.set_register(part.register, part.always | rng.getrandbits(64) & part.drawn)


def kept(machine: Machine) -> dict[str, int]:
    """What a callee leaves as it finds it, now."""
    return {part.register: machine.register(part.register) & part.kept for part in PARTS[machine.isa.name]}


def flags(machine: Machine) -> dict[str, int]:
    """The condition flags, now, which x86-64's and arm64's state has."""
    parts = [part for part in PARTS[machine.isa.name] if part.register in ("eflags", "pstate")]
    return {part.register: machine.register(part.register) & part.drawn & ~part.kept for part in parts}
