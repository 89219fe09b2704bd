"""The arguments that a call of a real kernel's function passes, as far as the image's types say: places of words, and the stack."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...build.dwarf import Prototype
from ...trampolines.arguments import Place, require_size, words
from ..open.image import Opened

#: The first word on the stack of every call, and from one to the next.
FIRST, STEP = 0x2222_2222_0000_0043, 0x0101_0101_0000_0100


def prototype(opened: Opened, function: str) -> Prototype | None:
    """A function's prototype; None if the types do not tell it, or if it is not known where an argument is."""
    try:
        declared = opened.prototype(function)
        for n, parameter in enumerate(declared.parameters if declared else (), 1):
            require_size(parameter, f"argument {n}")
    except TramplabError:
        return None
    return declared


def places(opened: Opened, function: str) -> tuple[Place, ...]:
    """The places of the words of a function's arguments; none where its prototype is not known."""
    types = prototype(opened, function)
    return words(opened.isa, types) if types else ()


def stacked(opened: Opened, function: str) -> list[int]:
    """A value of its own for every word that a caller puts on the stack."""
    return [FIRST + n * STEP for n in range(sum(isinstance(place, int) for place in places(opened, function)))]
