"""Memory accesses of x86-64 instructions (general-purpose part), Intel syntax."""

from __future__ import annotations

import re

from . import NOTHING, Accesses, load, store

_SIZES = {"byte": 1, "word": 2, "dword": 4, "qword": 8}
_LETTERS = {name[0]: size for name, size in _SIZES.items()}
_MEMORY = re.compile(r"\b(byte|word|dword|qword) ptr\b")

#: Implicit accesses of the stack.
_STACK = {
    "push": store(8),
    "pushfq": store(8),
    "call": store(8),
    "pop": load(8),
    "popfq": load(8),
    "ret": load(8),
    "leave": load(8),
    "iretq": load(8, 5),
}
#: Instructions whose memory operand is not accessed.
_ADDRESS_ONLY = {"lea", "nop", "endbr64", "prefetcht0", "prefetchw"}
#: A memory operand in first place that is only written, only read, or both.
_WRITES = {"mov", "movabs", "pop"}
_READS = {"cmp", "test", "push", "call", "jmp", "bt", "mul", "div", "idiv"}
_BOTH = set("add sub and or xor adc sbb inc dec neg not shl shr sar rol ror bts btr btc xadd cmpxchg xchg".split())
#: Names that touch memory in ways their operands do not show.
_HIDDEN = (
    "rep",
    "ins",
    "outs",
    "movs",
    "stos",
    "lods",
    "scas",
    "enter",
    "xsave",
    "fxsave",
    "xlat",
    "retf",
    "cmps",
)
#: One round of a string instruction that is repeated; how many rounds there were, the meters tell.
_ROUNDS = {"rep movs": lambda size: load(size) + store(size), "rep stos": store}
#: Loads a memory operand that comes second.
_LOADS = _WRITES | _READS | _BOTH | set("movzx movsx movsxd imul".split())


def accesses(mnemonic: str, operands: str) -> Accesses | None:
    """The accesses of one instruction; None if it is in no table."""
    name = mnemonic.removeprefix("lock ")
    if name[:-1] in _ROUNDS:
        return _ROUNDS[name[:-1]](_LETTERS[name[-1]])
    if name.startswith(_HIDDEN) and name not in _LOADS:
        return None
    implicit = _STACK.get(name, NOTHING)
    operand = _MEMORY.search(operands)
    if operand is None:
        return implicit if "[" not in operands or name in _ADDRESS_ONLY else None
    if name in _ADDRESS_ONLY:
        return implicit
    size = _SIZES[operand.group(1)]
    if operand.start() > operands.find(",") > -1:
        if name in {"xchg", "cmpxchg", "xadd"}:
            return implicit + load(size) + store(size)
        return implicit + load(size) if name in _LOADS or name.startswith("cmov") else None
    if name in _WRITES or name.startswith("set"):
        return implicit + store(size)
    if name in _READS:
        return implicit + load(size)
    if name in _BOTH:
        return implicit + load(size) + store(size)
    return None
