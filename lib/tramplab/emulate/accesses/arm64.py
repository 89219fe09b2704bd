"""Memory accesses of arm64 instructions (general-purpose registers)."""

from __future__ import annotations

from . import NOTHING, Accesses, load, store

#: The size comes from the suffix, or from the first register's name.
_SINGLE_LOADS = set("ldr ldur ldtr ldar ldlar ldapr ldapur ldxr ldaxr".split())
_SINGLE_STORES = set("str stur sttr stlr stllr stlur".split())
_EXCLUSIVE_STORES = set("stxr stlxr".split())
_PAIR_LOADS, _PAIR_STORES = {"ldp", "ldnp"}, {"stp", "stnp"}
_SUFFIX = {"b": 1, "h": 2, "sb": 1, "sh": 2, "sw": 4, "": 0}
_GENERAL = ("x", "w", "fp", "lr")
#: Look like memory accesses or mention an address, and access nothing.
_NOTHING = {"prfm", "prfum", "adr", "adrp"}


def accesses(mnemonic: str, operands: str) -> Accesses | None:
    """The accesses of one instruction; None if it is in no table."""
    first = operands.split(",", maxsplit=1)[0].strip()
    if mnemonic in _NOTHING:
        return NOTHING
    size = 8 if first.startswith("x") or first in {"fp", "lr", "sp"} else 4
    if "[" in operands and not first.startswith(_GENERAL):
        return None  # vector registers have sizes of their own
    if mnemonic in _PAIR_LOADS:
        return load(size, 2)
    if mnemonic in _PAIR_STORES:
        return store(size, 2)
    if mnemonic == "ldpsw":
        return load(4, 2)
    for suffix, narrow in _SUFFIX.items():
        name = mnemonic.removesuffix(suffix) if suffix else mnemonic
        if suffix and not mnemonic.endswith(suffix):
            continue
        if name in _SINGLE_LOADS:
            return load(narrow or size)
        if name in _SINGLE_STORES:
            return store(narrow or size)
        if name in _EXCLUSIVE_STORES:
            second = operands.split(",")[1].strip()
            return store(narrow or (8 if second.startswith("x") else 4))
    if mnemonic.startswith(("ld", "st", "swp", "cas")) or mnemonic == "dc" or "[" in operands:
        return None
    return NOTHING
