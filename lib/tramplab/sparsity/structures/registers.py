"""The registers that the fields of register structures are named after, in the words of each ISA's structs."""

from __future__ import annotations

from collections.abc import Mapping

from ...isa import Isa
from .state import STATES

#: Fields that are not called as the register is.
_CALLED: dict[str, Mapping[str, str]] = {
    "x86_64": {**{n: f"r{n}" for n in ("bp", "bx", "ax", "cx", "dx", "si", "di", "sp")}, "ip": "pc", "flags": "eflags"},
    "arm64": {"fp": "x29", "lr": "x30"},
    "riscv64": {"epc": "pc"},
}


def register_of(isa: Isa, field: str) -> str:
    """The register that a field (of fields.places) is named after, "pc" for the program counter; "" for none, as a trap's cause."""
    name = _CALLED[isa.name].get(field, field)
    return name if name in isa.registers or name in ("pc", *STATES[isa.name]) else ""
