"""Memory accesses of riscv64 instructions (RV64IMAC)."""

from __future__ import annotations

from . import NOTHING, Accesses, load, store

_SIZES = {"b": 1, "bu": 1, "h": 2, "hu": 2, "w": 4, "wu": 4, "d": 8}
_LOADS = {f"l{s}": n for s, n in _SIZES.items()}
_STORES = {f"s{s}": n for s, n in _SIZES.items() if not s.endswith("u")}


def accesses(mnemonic: str, operands: str) -> Accesses | None:
    """The accesses of one instruction; None if it is in no table."""
    name = mnemonic.removeprefix("c.")
    if name.endswith("sp") and name[:-2] in _LOADS | _STORES:
        name = name[:-2]
    if name in _LOADS:
        return load(_LOADS[name])
    if name in _STORES:
        return store(_STORES[name])
    parts = name.split(".")
    if len(parts) >= 2 and parts[1] in ("w", "d"):
        size = _SIZES[parts[1]]
        if parts[0] == "lr":
            return load(size)
        if parts[0] == "sc":
            return store(size)
        if parts[0].startswith("amo"):
            return load(size) + store(size)
    if "(" in operands and not name.startswith(("jr", "jalr")):
        return None
    return NOTHING
