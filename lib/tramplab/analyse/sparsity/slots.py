"""The slots of register structures, and the registers that they are named after, in the words of each ISA's structs."""

from __future__ import annotations

from collections.abc import Mapping

from ...build.dwarf import Struct
from ...emulate.image import Image
from ...isa import Isa
from .state import STATES

PT_REGS, FTRACE_REGS = STRUCTS = ("pt_regs", "ftrace_regs")
_WORD = 8
#: Slots that are not called as the register is. Elements of an array count from its own number.
_CALLED: dict[str, Mapping[str, str]] = {
    "x86_64": {**{n: f"r{n}" for n in ("bp", "bx", "ax", "cx", "dx", "si", "di", "sp")}, "ip": "pc", "flags": "eflags"},
    "arm64": {"fp": "x29", "lr": "x30"},
    "riscv64": {"epc": "pc"},
}
#: What an array's elements are.
_ARRAYS: dict[str, Mapping[str, str]] = {"x86_64": {}, "arm64": {"regs": "x"}, "riscv64": {"args": "a"}}


def layout(image: Image, name: str) -> Struct:
    """One of STRUCTS as it is in an image; an ftrace_regs that is a pt_regs and nothing else is that one. Raises TramplabError."""
    found = image.struct(name)
    whole = found.fields.get("regs")
    return image.struct(PT_REGS) if whole and not whole.elements else found


def slots(struct: Struct) -> dict[str, tuple[int, int]]:
    """Slot -> (offset, size in bytes), in order; of an array each element."""
    found: dict[str, tuple[int, int]] = {}
    for name, member in struct.fields.items():
        if not member.elements:
            found[name] = member.offset, member.size
            continue
        size = member.size // member.elements
        found |= {f"{name}[{n}]": (member.offset + n * size, size) for n in range(member.elements)}
    return found


def register_of(isa: Isa, slot: str) -> str:
    """The register that a slot is named after, "pc" for the program counter; "" for none, as of a trap's cause."""
    array, bracket, number = slot.partition("[")
    if bracket:
        prefix = _ARRAYS[isa.name].get(array, "")
        name = f"{prefix}{number[:-1]}" if prefix else ""
    else:
        name = _CALLED[isa.name].get(slot, slot)
    return name if name in isa.registers or name in ("pc", *STATES[isa.name]) else ""
