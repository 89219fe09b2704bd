"""Which functions can have BPF programs.

The kernel attaches none to a function that returns a struct, nor to one with more than 12 arguments or with one larger than
16 bytes (btf_distill_func_proto() and the JITs).
"""

from __future__ import annotations

from ...build.dwarf import Prototype
from ...errors import TramplabError
from ..arguments import WORD, require_size

MOST = 12


def require(prototype: Prototype) -> None:
    """Raise TramplabError, saying what is in the way, for a function that no trampoline can be made for."""
    name = prototype.name
    if len(prototype.parameters) > MOST:
        raise TramplabError(
            f"{name} takes {len(prototype.parameters)} arguments; a BPF trampoline can be made for at most {MOST}."
        )
    for i, p in enumerate(prototype.parameters, 1):
        require_size(p, f"argument {i} of {name}")
    if prototype.result.struct or prototype.result.size > WORD:
        raise TramplabError(
            f"{name} returns {prototype.result.size} bytes by value; a BPF program is attached only to functions that "
            f"return an integer, a pointer or nothing."
        )
