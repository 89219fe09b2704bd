"""riscv64: compressed NOPs of a site become full ones, or with CALL_OPS an AUIPC and a NOP. A kernel without compressed
instructions (CONFIG_RISCV_ISA_C=n) is linked with full ones. Alternatives stay as linked."""

from __future__ import annotations

from ...isa.riscv64 import C_NOP, NOP4, T0, auipc, split_offset
from ..open.image import Opened
from .sites import entries, mostly
from .text import Text

#: Eight bytes of the NOPs that a compiler leaves, how many they are, and how they are called.
_COMPILED = {C_NOP * 4: (4, "compressed NOPs"), NOP4 * 2: (2, "NOPs")}
_WORDS = {2: "two", 4: "four", 8: "eight"}
#: Shape -> bytes, of sites that are NOPs when they are idle.
_NOPS = {"detour16": 16, "detour8": 8}


def boot(opened: Opened, text: Text, mitigations: str) -> tuple[str, list[str]]:
    """Patch every site. With CALL_OPS the eight bytes before nearly every traced function are NOPs, too."""
    linked, found = entries(opened, text, *_COMPILED)
    number, nops = _COMPILED[linked]
    if mostly(text, found, -8, linked):
        shape, now = "literal-auipc-jalr", "an AUIPC towards ftrace_caller and a NOP"
    elif mostly(text, found, 8, linked):
        shape, now, number = "detour16", "four NOPs", 2 * number
    else:
        shape, now = "detour8", "two NOPs"
    caller = opened.address("ftrace_caller")
    for address in found:
        upper, _ = split_offset(caller - address)
        text.write(address, _idle(shape) or auipc(T0, upper) + NOP4)
    before = f"{_WORDS[number]} {nops}"
    what = f"{before}, as linked" if before == now else f"{before} became {now}"
    return shape, [f"{len(found)} patch sites: {what}", "alternatives are as linked"]


def _idle(shape: str) -> bytes:
    """The bytes of an idle site that is nothing but NOPs; empty where it is more."""
    return NOP4 * (_NOPS.get(shape, 0) // len(NOP4))


def compiled(entry: bytes, at: int, shape: str) -> int | None:
    """The address of the first NOP, which may lie before the function; None if the site is not idle."""
    if shape in _NOPS:
        return at if entry.startswith(_idle(shape)) else None
    is_auipc = int.from_bytes(entry[:4], "little") & 0xFFF == int.from_bytes(auipc(T0, 0), "little")
    return at - 8 if is_auipc and entry[4:8] == NOP4 else None
