"""Where a function's arguments are at its first instruction: one place for each 8-byte word, in the order of a program's
context.

The rules are the calling conventions' for integers, pointers and structs of up to two words: System V ABI for x86-64
(3.2.3), AAPCS64 (6.8.2), RISC-V calling convention (integer). Larger structs, 16-byte integers, floats and functions that
return a struct have no place here: the kernel attaches no BPF program to such a function either (btf_distill_func_proto()
and the JITs: nothing larger than 16 bytes, at most 12 arguments).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...emulate.dwarf import Prototype, Value
from ...errors import TramplabError
from ...isa import Isa
from ...isa.record import LAST, SPLIT

WORD, LARGEST, MOST = 8, 16, 12

#: A register's name, or the index of an 8-byte word on the stack, counted from the lowest argument word.
Place = str | int


def require(prototype: Prototype) -> None:
    """Raise TramplabError, saying what is in the way, for a function that no trampoline can be made for."""
    name = prototype.name
    if len(prototype.parameters) > MOST:
        raise TramplabError(
            f"{name} takes {len(prototype.parameters)} arguments; a BPF trampoline can be made for at most {MOST}."
        )
    for i, p in enumerate(prototype.parameters, 1):
        if p.size > (LARGEST if p.struct else WORD) or not p.size:
            raise TramplabError(
                f"argument {i} of {name} has {p.size} bytes; a BPF trampoline passes integers and pointers of up to "
                f"{WORD} bytes and structs of up to {LARGEST}."
            )
    if prototype.result.struct or prototype.result.size > WORD:
        raise TramplabError(
            f"{name} returns {prototype.result.size} bytes by value; a BPF program is attached only to functions that "
            f"return an integer, a pointer or nothing."
        )


def places(isa: Isa, parameters: Sequence[Value]) -> list[list[Place]]:
    """For each parameter the places of its words; see Place.

    >>> from tramplab.isa import ISAS
    >>> pair, word = Value(16, True), Value(8)
    >>> places(ISAS["x86_64"], [word] * 5 + [pair, word])[5:]
    [[0, 1], ['r9']]
    >>> places(ISAS["arm64"], [word] * 7 + [pair, word])[7:]
    [[0, 1], [2]]
    >>> places(ISAS["riscv64"], [word] * 7 + [pair, word])[7:]
    [['a7', 0], [1]]
    """
    free, stacked, out = list(isa.args), 0, []
    for p in parameters:
        words = -(-p.size // WORD)
        if words > len(free):
            kept = free if isa.struct_spills == SPLIT else []
            missing = words - len(kept)
            out.append([*kept, *range(stacked, stacked + missing)])
            stacked += missing
            free = free if words > 1 and isa.struct_spills not in (LAST, SPLIT) else []
        else:
            out.append(free[:words])
            free = free[words:]
    return out
