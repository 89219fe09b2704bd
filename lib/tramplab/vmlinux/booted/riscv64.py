"""riscv64: a site's four compressed NOPs become two full ones, or, with CALL_OPS, an AUIPC for good and a NOP. Alternatives stay as
linked."""

from __future__ import annotations

from ...isa.riscv64 import C_NOP, NOP4, T0, auipc, split_offset
from ..image import Opened
from .sites import entries, mostly
from .text import Text

_COMPILED = C_NOP * 4


def shape(opened: Opened, text: Text) -> str:
    """With CALL_OPS the eight bytes before nearly every traced function are NOPs, too."""
    return "literal-auipc-jalr" if mostly(text, entries(opened, text, _COMPILED), -8, _COMPILED) else "detour8"


def boot(opened: Opened, text: Text, plain: bool) -> list[str]:
    """Patch every site."""
    found, fixed = entries(opened, text, _COMPILED), shape(opened, text) == "literal-auipc-jalr"
    caller = opened.address("ftrace_caller")
    for address in found:
        upper, _ = split_offset(caller - address)
        text.write(address, auipc(T0, upper) + NOP4 if fixed else NOP4 * 2)
    what = "an AUIPC towards ftrace_caller and a NOP" if fixed else "two NOPs"
    return [f"{len(found)} patch sites: four compressed NOPs became {what}", "alternatives are as linked"]


def compiled(entry: bytes, at: int, shape: str) -> int | None:
    """The record points at the first of the NOPs, those before the function included."""
    if shape == "detour8":
        return at if entry[:8] == NOP4 * 2 else None
    is_auipc = int.from_bytes(entry[:4], "little") & 0xFFF == int.from_bytes(auipc(T0, 0), "little")
    return at - 8 if is_auipc and entry[4:8] == NOP4 else None
