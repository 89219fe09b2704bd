"""The whole state of a CPU that a register structure has slots for: registers, flags, and in which mode it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...emulate.machine import Machine

#: The kernel's selectors (the emulator leaves others in place), and the bit of the flags that is always one.
_CS, _SS, _FIXED = 0x10, 0x18, 1 << 1
_SIE, _SPIE, _SPP = 1 << 1, 1 << 5, 1 << 8
#: ISA -> the engine's register, and for even and odd seeds the bits of it that are set, of those that may be: condition flags, of
#: which riscv64 has none, and whether interrupts are on.
_IF, _DAIF = 1 << 9, 0xF << 6
_CHOSEN: dict[str, tuple[str, tuple[int, int], int]] = {
    "x86_64": ("eflags", (0x8D7, 0x46 | _IF), 0x8D7 | _IF),
    "arm64": ("pstate", (0xA << 28 | _DAIF, 0x5 << 28), 0xF << 28 | _DAIF),
    "riscv64": ("sstatus", (0, _SIE), _SIE),
}


def _x86_64(machine: Machine) -> dict[str, int]:
    return {"eflags": machine.register("eflags") | _FIXED, "cs": _CS, "ss": _SS}


def _arm64(machine: Machine) -> dict[str, int]:
    return {"pstate": machine.register("pstate")}


def _riscv64(machine: Machine) -> dict[str, int]:
    """The state with sstatus as an exception from S-mode leaves it."""
    status = machine.register("sstatus")
    return {"status": status & ~(_SIE | _SPIE) | (_SPIE if status & _SIE else 0) | _SPP}


#: The state besides general registers and the program counter, by the names of `now`.
STATES: Mapping[str, tuple[str, ...]] = {"x86_64": ("eflags", "cs", "ss"), "arm64": ("pstate",), "riscv64": ("status",)}
_READ: Mapping[str, Callable[[Machine], dict[str, int]]] = {"x86_64": _x86_64, "arm64": _arm64, "riscv64": _riscv64}


def now(machine: Machine) -> dict[str, int]:
    """Register -> value, "pc" for the program counter whatever the ISA calls it, and flags and mode by the names of their slots'
    registers, as an exception would find them now."""
    values = machine.registers()
    values["pc"] = values.pop(machine.isa.pc)
    return values | _READ[machine.isa.name](machine)


def choose(machine: Machine, seed: int) -> None:
    """Other condition flags for even seeds than for odd ones, with interrupts on for odd ones only."""
    name, values, may = _CHOSEN[machine.isa.name]
    machine.set_register(name, machine.register(name) & ~may | values[seed % len(values)])
