"""riscv64: a site's four compressed NOPs become two full ones, or, with CALL_OPS, an AUIPC for good and a NOP. Alternatives stay as
linked."""

from __future__ import annotations

from ...isa.riscv64 import C_NOP, NOP4, T0, auipc, split_offset
from ..image import Opened
from .sites import entries, mostly
from .text import Text

_COMPILED = C_NOP * 4


def boot(opened: Opened, text: Text, plain: bool) -> tuple[str, list[str]]:
    """Patch every site. With CALL_OPS the eight bytes before nearly every traced function are NOPs, too."""
    found = entries(opened, text, _COMPILED)
    fixed = mostly(text, found, -8, _COMPILED)
    caller = opened.address("ftrace_caller")
    for address in found:
        upper, _ = split_offset(caller - address)
        text.write(address, auipc(T0, upper) + NOP4 if fixed else NOP4 * 2)
    what = "an AUIPC towards ftrace_caller and a NOP" if fixed else "two NOPs"
    done = [f"{len(found)} patch sites: four compressed NOPs became {what}", "alternatives are as linked"]
    return "literal-auipc-jalr" if fixed else "detour8", done


def compiled(entry: bytes, at: int, shape: str) -> int | None:
    """The record points at the first of the NOPs, those before the function included."""
    if shape == "detour8":
        return at if entry[:8] == NOP4 * 2 else None
    is_auipc = int.from_bytes(entry[:4], "little") & 0xFFF == int.from_bytes(auipc(T0, 0), "little")
    return at - 8 if is_auipc and entry[4:8] == NOP4 else None
