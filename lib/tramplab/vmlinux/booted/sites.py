"""Which functions have patch sites: those that begin with what the compiler leaves there."""

from __future__ import annotations

from ...base.errors import TramplabError
from ..open.image import Opened
from .text import Text

_SAMPLE, _MOST = 500, 0.9


def entries(opened: Opened, text: Text, *compiled: bytes) -> tuple[bytes, list[int]]:
    """The first of these beginnings that any function in the kernel's text has, and the addresses of all functions that begin so.
    Raises TramplabError where none does: in a kernel without dynamic ftrace."""
    first, last = opened.text
    for code in compiled:
        addresses = {s.address for s in opened.image.every if first <= s.address < last - len(code)}
        if found := sorted(a for a in addresses if text.read(a, len(code)) == code):
            return code, found
    raise no_sites(opened)


def no_sites(opened: Opened) -> TramplabError:
    """The error for a kernel whose functions cannot be traced."""
    return TramplabError(
        f"{opened.payload.path} ({opened.version}) has no patch sites: give a kernel with CONFIG_DYNAMIC_FTRACE=y and "
        f"CONFIG_FUNCTION_TRACER=y."
    )


def mostly(text: Text, found: list[int], offset: int, wanted: bytes) -> bool:
    """Are these the bytes at an offset from nearly every address found? A sample decides: padding may look like them here and
    there."""
    sample = found[:: max(1, len(found) // _SAMPLE)]
    return sum(text.read(a + offset, len(wanted)) == wanted for a in sample) > _MOST * len(sample)
