"""riscv64: the registers say it (unprivileged ISA, 2.5.1, table of return-address stack hints).

JAL pushes if rd is a link register (ra or t0). JALR: rd a link and rs1 not, or both the same: push; rs1 a link and rd
not: pop; both links and different: pop, then push; neither: nothing. Compressed forms expand to these.
"""

from __future__ import annotations

from ...isa.riscv64 import ISA
from . import NOTHING, POP, POP_PUSH, PUSH, Link

_LINKS = ISA.return_stack.link_registers


def link(mnemonic: str, operands: str, _behind: int) -> Link:
    """The effect of one instruction."""
    jump = _jump(mnemonic.removeprefix("c."), [o.strip() for o in operands.split(",")])
    if jump is None:
        return NOTHING
    written, read = (register if register in _LINKS else None for register in jump)
    if written and read and written != read:
        return POP_PUSH
    if written:
        return PUSH
    return POP if read else NOTHING


def _jump(name: str, operands: list[str]) -> tuple[str, str] | None:
    """(rd, rs1) of a jump; "zero" for what it has not. None if it is no unconditional jump."""
    first = operands[0].split("(")[-1].rstrip(")")
    if name == "ret":
        return "zero", "ra"
    if name == "jr":
        return "zero", first
    if name == "jal":
        return (operands[0] if len(operands) > 1 else "ra"), "zero"
    if name != "jalr":
        return None
    if len(operands) == 1:
        return "ra", first
    return operands[0], operands[1].split("(")[-1].rstrip(")")
