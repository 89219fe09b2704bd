"""Where a function's arguments are at its first instruction, by its prototype.

The rules are the calling conventions' for integers, pointers and structs of up to two words: System V ABI for x86-64
(3.2.3), AAPCS64 (6.8.2), RISC-V calling convention (integer). A word is 8 bytes. A result of more than two words goes
through a pointer that the caller passes: in front of the arguments, or in a register of its own (arm64).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace

from ..base.errors import TramplabError
from ..build.dwarf import Prototype, Value
from ..isa import Isa
from ..isa.record import LAST, SPLIT

WORD, LARGEST = 8, 16

#: A register's name, or the index of a word on the stack, counted from the lowest argument word.
Place = str | int


def places(isa: Isa, parameters: Sequence[Value], taken: str | None = None) -> list[list[Place]]:
    """The places of the words of each parameter; taken: a register that carries something else.

    Raises TramplabError for a parameter that has no place here: a struct of more than two words, a larger integer.

    >>> from tramplab.isa import ISAS
    >>> pair, word = Value(16, True), Value(8)
    >>> places(ISAS["x86_64"], [word] * 5 + [pair, word])[5:]
    [[0, 1], ['r9']]
    >>> places(ISAS["arm64"], [word] * 7 + [pair, word])[7:]
    [[0, 1], [2]]
    >>> places(ISAS["riscv64"], [word] * 7 + [pair, word])[7:]
    [['a7', 0], [1]]
    """
    free, stacked = [r for r in isa.args if r != taken], 0
    all_places: list[list[Place]] = []
    for i, p in enumerate(parameters, 1):
        require_size(p, f"argument {i}")
        words = -(-p.size // WORD)
        if words <= len(free):
            all_places.append([*free[:words]])
            free = free[words:]
            continue
        kept = free if isa.struct_spills == SPLIT else []
        missing = words - len(kept)
        all_places.append([*kept, *range(stacked, stacked + missing)])
        stacked += missing
        if isa.struct_spills in (LAST, SPLIT):
            free = []
    return all_places


def words(isa: Isa, prototype: Prototype) -> tuple[Place, ...]:
    """The places of all argument words of a function, in order."""
    taken = isa.struct_return if prototype.result.size > LARGEST else None
    return tuple(itertools.chain.from_iterable(places(isa, prototype.parameters, taken)))


def sizes(prototype: Prototype) -> tuple[int, ...]:
    """The bytes of each argument word that are the argument's, in the order of words().

    >>> sizes(Prototype("f", (Value(8), Value(12, True), Value(4))))
    (8, 8, 4, 4)
    """
    return tuple(min(WORD, p.size - at) for p in prototype.parameters for at in range(0, p.size, WORD))


@functools.cache
def passing(isa: Isa, prototype: Prototype, count: int) -> tuple[Place, ...]:
    """The places of the first `count` words of a call: those of words(), in front of them the address of a result that an
    argument register carries. Words beyond the prototype's are integers after the last parameter.

    >>> from tramplab.isa import ISAS
    >>> f = Prototype("f", (Value(8),) * 5 + (Value(16, True), Value(8)))
    >>> passing(ISAS["x86_64"], f, 9)
    ('rdi', 'rsi', 'rdx', 'rcx', 'r8', 0, 1, 'r9', 2)
    >>> passing(ISAS["x86_64"], Prototype("f", (Value(8),), Value(24, True)), 2)
    ('rdi', 'rsi')
    """
    through = prototype.result.size > LARGEST and isa.struct_return in isa.args
    more = (Value(WORD),) * max(0, count - len(words(isa, prototype)) - through)
    passed = words(isa, replace(prototype, parameters=(*prototype.parameters, *more)))
    return ((isa.struct_return,) * through + passed)[:count]


def live_registers(isa: Isa, prototype: Prototype) -> tuple[str, ...]:
    """The registers that are alive at a function's first instruction because of its prototype.

    >>> from tramplab.isa import ISAS
    >>> f = Prototype("f", (Value(8), Value(16, True)), Value(24, True))
    >>> live_registers(ISAS["arm64"], f), live_registers(ISAS["x86_64"], f)
    (('x8', 'x0', 'x1', 'x2'), ('rdi', 'rsi', 'rdx', 'rcx'))
    """
    through = (isa.struct_return,) if prototype.result.size > LARGEST else ()
    return (*through, *(p for p in words(isa, prototype) if isinstance(p, str)))


def require_size(value: Value, what: str) -> None:
    """Raise TramplabError for an argument that does not travel in words of its own."""
    most = LARGEST if value.struct else WORD
    if not 0 < value.size <= most:
        raise TramplabError(
            f"{what} has {value.size} bytes; the lab knows where integers and pointers of up to {WORD} bytes are passed, and "
            f"structs of up to {LARGEST}."
        )
