"""arm64: BL and BLR push; RET pops, whatever its register; BR does neither (Arm ARM, C6.2, "hint that this is ...").

So `ret x9` and `br x9` go to the same place and differ only here.
"""

from __future__ import annotations

from . import NOTHING, POP, PUSH, Link

_PUSH = {"bl", "blr", "blraa", "blrab", "blraaz", "blrabz"}
_POP = {"ret", "retaa", "retab"}


def link(mnemonic: str, _operands: str, _behind: int) -> Link:
    """The effect of one instruction."""
    if mnemonic in _PUSH:
        return PUSH
    return POP if mnemonic in _POP else NOTHING
