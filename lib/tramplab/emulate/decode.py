"""Bytes to instructions: text and memory accesses. The only module that knows Capstone."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import capstone

from ..base.errors import TramplabError
from ..isa import Isa
from . import accesses as _accesses
from .accesses import Accesses, arm64, riscv64, x86_64

_TABLES = {"x86_64": x86_64.accesses, "arm64": arm64.accesses, "riscv64": riscv64.accesses}


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `accesses` is None where no table knows them, and those of one round where it is repeated; size in
    bytes."""

    address: int
    data: bytes
    mnemonic: str
    operands: str
    accesses: Accesses | None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.data)

    @property
    def repeated(self) -> bool:
        """Is it a string instruction that does its work in rounds? The engine reports each round, and the end, as if it were issued
        again."""
        return self.mnemonic.startswith("rep ")

    @property
    def text(self) -> str:
        """The instruction as a disassembler prints it."""
        return f"{self.mnemonic} {self.operands}".strip()


@functools.cache
def _engine(isa: Isa) -> capstone.Cs:
    arch, modes = isa.capstone
    mode = 0
    for name in modes.split("|"):
        mode |= getattr(capstone, name)
    return capstone.Cs(getattr(capstone, arch), mode)


@functools.lru_cache(maxsize=65536)
def at(isa: Isa, address: int, data: bytes) -> Instruction:
    """The first instruction in data, as lying at address; raises TramplabError if it is none.

    >>> from ..isa import get
    >>> at(get("arm64"), 0x1000, bytes.fromhex("fd7bbfa9")).text
    'stp x29, x30, [sp, #-0x10]!'
    """
    for start, size, mnemonic, operands in _engine(isa).disasm_lite(data, address, 1):
        return Instruction(start, data[:size], mnemonic, operands, _TABLES[isa.name](mnemonic, operands))
    raise TramplabError(f"{data[:8].hex()} at {address:#x} is no {isa.name} instruction.")


def known_accesses(isa: Isa, address: int, data: bytes) -> Accesses:
    """The accesses of the first instruction in data; raises rather than guess."""
    return accesses_of(isa, at(isa, address, data))


def accesses_of(isa: Isa, instruction: Instruction) -> Accesses:
    """The accesses of an instruction; raises rather than guess."""
    if instruction.accesses is None:
        raise TramplabError(
            f"cannot count {instruction.text!r} at {instruction.address:#x}: its memory accesses are in no table "
            f"({_accesses.__name__}.{isa.name}); add it there."
        )
    return instruction.accesses


def registers_in(text: str, isa: Isa) -> list[str]:
    """The ISA's registers named in an instruction's text."""
    return [w for w in re.findall(r"[a-z][a-z0-9]*", text) if w in isa.registers]
