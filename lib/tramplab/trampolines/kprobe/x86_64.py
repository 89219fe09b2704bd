"""x86-64: an INT3, where the instruction is not a patch site, which ftrace serves; so the first that can have one lies behind the
site. It is executed in a slot, with a second INT3 behind (since v5.13, commit 6256e668b7af; before, by the trap flag)."""

from __future__ import annotations

import re
import struct

from ...emulate.decode import Instruction
from ...ftrace.site import Site
from ...ftrace.steps import Step, Sync, Wait
from ...isa.x86_64 import INT3
from .protocol import Stepped, refused

_DISTANCE = re.compile(r"\brip ([+-]) (0x[0-9a-f]+|\d+)")


def place(site: Site) -> int:
    """The first byte behind the site."""
    return site.body


def stepped(i: Instruction, slot: int) -> Stepped:
    """How an instruction is stepped: by a copy, in which a pc-relative distance is adjusted to the slot."""
    if i.mnemonic.startswith(("j", "call", "ret", "loop", "int", "iret", "sys")):
        raise refused(i)
    code = i.data
    if told := _DISTANCE.search(i.operands):
        distance = int(told[1] + told[2], 0)
        at = code.rindex(struct.pack("<i", distance))
        code = code[:at] + struct.pack("<i", distance + i.address - slot) + code[at + 4 :]
    return Stepped(INT3, code, INT3)


def write(writes: list[Step]) -> list[Step]:
    """The writes as text_poke() makes them, of one byte each, and a wait until every CPU sees them."""
    return [*writes, Wait(Sync.TEXT_POKE, "every CPU sees the byte")]
