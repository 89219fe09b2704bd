"""riscv64 instructions (RV64IMAC), as the disassembler prints them."""

from __future__ import annotations

import re

from ...isa.riscv64 import ISA
from . import ALU, ATOMIC, BARRIER, BRANCH, CONSTANT, DIVIDE, EXCEPTION, MOVE, MULTIPLY, NONE, READ, Operation

_LOADS = {"lb", "lbu", "lh", "lhu", "lw", "lwu", "ld"}
_STORES = {"sb", "sh", "sw", "sd"}
#: register = f(the other operands)
_PLAIN = set(
    "add addi addiw addw sub subw and andi or ori xor xori sll slli slliw sllw srl srli srliw srlw sra srai sraiw sraw slt"
    " slti sltu sltiu not neg negw seqz snez sltz sgtz sext.w zext.b addi4spn".split()
)
_CONSTANTS = {"li", "lui", "auipc"}
_MULTIPLIES = {"mul", "mulh", "mulhu", "mulhsu", "mulw"}
_DIVIDES = {"div", "divu", "rem", "remu", "divw", "divuw", "remw", "remuw"}
_BRANCHES = set("beq bne blt bge bltu bgeu beqz bnez blez bgez bltz bgtz bgt ble bgtu bleu".split())
#: Compressed forms in which the first register is also an input.
_TWO_ADDRESS = set("add addi addiw addw addi16sp sub subw and andi or xor slli srli srai".split())


def operation(mnemonic: str, operands: str) -> Operation | None:
    """One instruction as the pipeline sees it; None if it is in no table."""
    name = mnemonic.removeprefix("c.")
    compressed = name != mnemonic
    registers = _named(operands)
    first, rest = registers[:1], registers[1:]
    if name.endswith("sp") and name[:-2] in _LOADS | _STORES:
        name = name[:-2]

    if name == "nop":
        return Operation()
    if name == "fence" and operands.replace(" ", "") == "rw,w":
        return Operation()  # a release: holds back younger stores, which leave in order anyway
    if name in ("fence", "fence.i", "fence.tso"):
        return Operation(BARRIER)
    if name in ("ebreak", "sret"):
        return Operation(EXCEPTION)
    if name in _LOADS:
        return Operation(NONE, (), rest, first)
    if name in _STORES:
        return Operation(NONE, first, rest)
    if name.startswith(("lr.", "sc.", "amo")):
        return Operation(ATOMIC, registers[1:-1], registers[-1:], first)
    if name == "mv":
        return Operation(MOVE, rest, (), first)
    if name in _CONSTANTS:
        return Operation(CONSTANT, (), (), first)
    if compressed and name in _TWO_ADDRESS:
        return Operation(ALU, registers, (), first)
    if name in _PLAIN:
        return Operation(ALU, rest, (), first)
    if name in _MULTIPLIES:
        return Operation(MULTIPLY, registers if compressed else rest, (), first)
    if name in _DIVIDES:
        return Operation(DIVIDE, rest, (), first)
    if name in _BRANCHES:
        return Operation(BRANCH, registers)
    if name.startswith(("csrr", "csrw", "csrs", "csrc", "rd")):
        return Operation(READ, rest, (), first)
    return _jump(name, registers)


def _jump(name: str, registers: tuple[str, ...]) -> Operation | None:
    if name == "j":
        return Operation(BRANCH)
    if name == "ret":
        return Operation(BRANCH, ("ra",), returns=True)
    if name == "jr":
        return Operation(BRANCH, registers[:1], indirect=True)
    if name == "jal":
        return Operation(BRANCH, (), (), registers[:1] or ("ra",), call=True)
    if name == "jalr":
        written, read = registers if len(registers) == 2 else ("ra", *registers)
        return Operation(BRANCH, (read,), (), (written,), call=True)
    return None


def _named(operands: str) -> tuple[str, ...]:
    """The registers in the operands, in order; the zero register is none."""
    return tuple(w for w in re.findall(r"[a-z][a-z0-9]*", operands) if w in ISA.registers)
