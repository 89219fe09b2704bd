"""A stretch of code as instructions, for tests that look at what was assembled or compiled."""

from tramplab.emulate import decode
from tramplab.emulate.decode import Instruction
from tramplab.isa import Isa


def instructions(isa: Isa, address: int, data: bytes) -> list[Instruction]:
    """Every instruction of a stretch, from its first byte to its last."""
    out, offset = [], 0
    while offset < len(data):
        out.append(decode.at(isa, address + offset, data[offset : offset + isa.max_insn]))
        offset += out[-1].size
    return out
