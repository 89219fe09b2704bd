"""BPF instructions as they are encoded: RFC 9669, and Documentation/bpf/standardization in the kernel.

The subset is what compilers make of a tracing program without loops, atomics, byte swaps and functions of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ...base.errors import TramplabError

LD, LDX, ST, STX, ALU, JMP, JMP32, ALU64 = range(8)
#: Bytes of an access -> the opcode's size bits, and back.
SIZES = {4: 0x00, 2: 0x08, 1: 0x10, 8: 0x18}
_BYTES = {bits: size for size, bits in SIZES.items()}
#: Modes of loads and stores: an immediate of 64 bits, memory, memory with the sign extended.
IMM, MEM, MEMSX = 0x00, 0x60, 0x80
#: The second operand is a register.
X = 0x08

#: Operations on registers, by how they are written.
OPERATIONS = {
    "+=": 0x00, "-=": 0x10, "*=": 0x20, "/=": 0x30, "|=": 0x40, "&=": 0x50, "<<=": 0x60, ">>=": 0x70,
    "-": 0x80, "%=": 0x90, "^=": 0xA0, "=": 0xB0, "s>>=": 0xC0,
}  # fmt: skip
#: Operations whose offset says that they are signed: 1 for a division, the bits for a move.
SIGNED = {"s/=": "/=", "s%=": "%="}
#: Conditions, by how they are written; "&" is met if any bit is in both.
CONDITIONS = {
    "==": 0x10, ">": 0x20, ">=": 0x30, "&": 0x40, "!=": 0x50, "s>": 0x60, "s>=": 0x70,
    "<": 0xA0, "<=": 0xB0, "s<": 0xC0, "s<=": 0xD0,
}  # fmt: skip
JA, CALL, EXIT = 0x00, 0x80, 0x90
#: What the source register of a 64-bit immediate says: it is a number, or a map by its number.
NUMBER, MAP = 0, 1

_OPERATION = {bits: name for name, bits in OPERATIONS.items()}
_CONDITION = {bits: name for name, bits in CONDITIONS.items()}
_SIGNED = {name: signed for signed, name in SIGNED.items()}
_FORM = struct.Struct("<BBhi")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its opcode, registers by number, offset (16 bits) and immediate (32 bits, 64 where it is that wide); what
    they make of it is said by the properties."""

    opcode: int
    dst: int = 0
    src: int = 0
    off: int = 0
    imm: int = 0

    @property
    def kind(self) -> int:
        """The class: LD to ALU64."""
        return self.opcode & 7

    @property
    def wide(self) -> bool:
        """Does it take two slots, the second for the upper half of its immediate?"""
        return self.opcode == LD | IMM | SIZES[8]

    @property
    def by_register(self) -> bool:
        """Is the second operand of an operation or a condition a register?"""
        return bool(self.opcode & X)

    @property
    def size(self) -> int:
        """Bytes of a load or store."""
        return _BYTES[self.opcode & 0x18]

    @property
    def mode(self) -> int:
        """MEM or MEMSX of a load or store."""
        return self.opcode & 0xE0

    @property
    def operation(self) -> str:
        """The operation of ALU and ALU64 in assembler text; a move with sign extension is "=", and its offset gives the bits."""
        name = _OPERATION[self.opcode & 0xF0]
        return _SIGNED[name] if name in _SIGNED and self.off == 1 else name

    @property
    def condition(self) -> str | None:
        """The condition of a conditional jump in assembler text; None for anything else in its class."""
        return _CONDITION.get(self.opcode & 0xF0)

    @property
    def jump(self) -> int | None:
        """How many slots behind the next one a jump goes, if it is one."""
        if self.kind not in (JMP, JMP32) or self.opcode in (JMP | CALL, JMP | EXIT):
            return None
        return self.imm if self.opcode == JMP32 | JA else self.off


#: A program by slots, whose numbers are those of jumps and of the kernel's verifier; None is a wide instruction's second slot.
Program = tuple[Instruction | None, ...]


def encoded(program: Program) -> bytes:
    """The program's bytes, little-endian."""
    out = bytearray()
    for i in program:
        if i is None:
            continue
        low = (i.imm & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)
        out += _FORM.pack(i.opcode, i.src << 4 | i.dst, i.off, low)
        if i.wide:
            high = i.imm >> 32 & 0xFFFFFFFF
            out += _FORM.pack(0, 0, 0, (high ^ 1 << 31) - (1 << 31))
    return bytes(out)


def decoded(code: bytes) -> Program:
    """A program of its bytes; raises TramplabError that names the first instruction outside the subset."""
    if not code or len(code) % 8:
        raise TramplabError(f"a BPF program is a number of 8-byte slots, not {len(code)} bytes.")
    slots = [_FORM.unpack_from(code, at) for at in range(0, len(code), 8)]
    program: list[Instruction | None] = []
    while len(program) < len(slots):
        at = len(program)
        opcode, registers, off, imm = slots[at]
        i = Instruction(opcode, registers & 15, registers >> 4, off, imm)
        if i.wide and at + 1 < len(slots) and slots[at + 1][:3] == (0, 0, 0):
            i = Instruction(opcode, i.dst, i.src, off, imm & 0xFFFFFFFF | (slots[at + 1][3] & 0xFFFFFFFF) << 32)
            program += [i, None]
        else:
            program.append(i)
        if not _known(i, at + 1 < len(slots)):
            shown = code[8 * at : 8 * at + 8].hex(" ")
            raise TramplabError(f"instruction {at}, {shown}, is outside the BPF subset of the rewriter.")
    return tuple(program)


def _known(i: Instruction, more: bool) -> bool:
    """Is it in the subset, and does it have zeros where nothing is said?"""
    if i.dst > 10 or i.src > 10:
        return False
    match i.kind:
        case 0:
            return i.wide and more and i.src in (NUMBER, MAP) and not i.off
        case 1:
            return not i.imm and (i.mode == MEM or (i.mode == MEMSX and i.size < 8))
        case 2:
            return i.mode == MEM and not i.src
        case 3:
            return i.mode == MEM and not i.imm
        case 4 | 7:
            return _operates(i)
    if i.opcode == JMP | CALL:
        return not (i.src or i.dst or i.off)
    if i.opcode == JMP | EXIT:
        return not (i.src or i.dst or i.off or i.imm)
    if i.opcode in (JMP | JA, JMP32 | JA):
        return not (i.src or i.dst) and not (i.off if i.kind == JMP32 else i.imm)
    return i.condition is not None and not (i.imm if i.by_register else i.src)


def _operates(i: Instruction) -> bool:
    """An operation on registers that is in the subset."""
    name = _OPERATION.get(i.opcode & 0xF0)
    if name is None or (i.imm if i.by_register else i.src):
        return False
    if name == "-":
        return not (i.by_register or i.imm or i.off)
    if name == "=" and i.by_register:
        return i.off in ((0, 8, 16, 32) if i.kind == ALU64 else (0, 8, 16))
    return i.off in ((0, 1) if name in ("/=", "%=") else (0,))
