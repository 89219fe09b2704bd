"""x86-64: near CALL pushes and near RET pops, direct or not (Intel SDM vol. 1, 6.4); jumps do neither.

A CALL to the next instruction, with which code asks where it is, does not push: no RET is going to match it, and the
cores that H. Wong measured treat it so (Microbenchmarking Return Address Branch Prediction, 2018). So where a call is made
for the return stack's sake, a byte lies behind it, in the kernel as in the lab.
"""

from __future__ import annotations

from . import NOTHING, POP, PUSH, Link


def link(mnemonic: str, operands: str, behind: int) -> Link:
    """The effect of one instruction; behind: the address of the next one."""
    if mnemonic == "call":
        return NOTHING if operands == f"{behind:#x}" else PUSH
    return POP if mnemonic == "ret" else NOTHING
