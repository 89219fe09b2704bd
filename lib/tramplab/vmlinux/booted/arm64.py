"""arm64: the first of a site's two NOPs becomes MOV X9, X30, for good. Alternatives stay as linked."""

from __future__ import annotations

from ...isa.arm64 import MOV_X9_LR, NOP
from ..open.image import Opened
from .sites import entries, mostly
from .text import Text


def boot(opened: Opened, text: Text, mitigations: str) -> tuple[str, list[str]]:
    """Patch every site. With CALL_OPS the eight bytes before nearly every traced function are two NOPs more."""
    _, sites = entries(opened, text, NOP * 2)
    shape = "literal-mov-bl" if mostly(text, sites, -8, NOP * 2) else "mov-bl"
    for address in sites:
        text.write(address, MOV_X9_LR)
    return shape, [f"{len(sites)} patch sites: the first NOP became MOV X9, X30", "alternatives are as linked"]


def compiled(entry: bytes, at: int, shape: str) -> int | None:
    """The address of the first NOP, which may be one of the two before the function; None if the site is not idle."""
    if entry[:8] != MOV_X9_LR + NOP:
        return None
    return at - 8 if shape == "literal-mov-bl" else at
