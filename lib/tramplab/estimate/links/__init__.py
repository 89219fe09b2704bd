"""The effect of each instruction on the return stack, from its text: one small rule per ISA.

A return stack is the small stack of predicted return addresses that a core's front end keeps. It sees instructions, not
intentions: a jump through the right register pops it whatever the programmer meant.
"""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """An instruction's effect; one that does both pops first."""

    pops: bool = False
    pushes: bool = False


NOTHING, PUSH, POP, POP_PUSH = Link(), Link(pushes=True), Link(pops=True), Link(True, True)
