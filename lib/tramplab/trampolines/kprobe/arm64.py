"""arm64: every kprobe is a BRK. At a function's first byte that takes the place of MOV X9, LR, which is no part of rec->ip's
instruction; it is executed in a slot, with a second BRK behind (KPROBES_BRK_SS_IMM, since v5.11, commit 7ee31a3aa8f4)."""

from __future__ import annotations

import struct

from ...emulate.decode import Instruction
from ...ftrace.site import Site
from ...ftrace.steps import Step, Sync, Wait
from ...isa.arm64 import BRK_KPROBE
from .protocol import Stepped, refused

_BRK_STEP = struct.pack("<I", 0xD4200000 | 6 << 5)
_ELSEWHERE = ("b", "bl", "br", "blr", "ret", "cbz", "cbnz", "tbz", "tbnz", "adr", "adrp", "brk", "svc", "eret", "udf")


def place(site: Site) -> int:
    """The function's first byte."""
    return site.entry


def stepped(i: Instruction, slot: int) -> Stepped:
    """How an instruction is stepped: by a copy, but for one that depends on its address, which is refused."""
    literal = i.mnemonic.startswith("ldr") and "[" not in i.operands
    if i.mnemonic in _ELSEWHERE or i.mnemonic.startswith("b.") or literal:
        raise refused(i)
    return Stepped(BRK_KPROBE, i.data, _BRK_STEP)


def write(writes: list[Step]) -> list[Step]:
    """The writes as aarch64_insn_patch_text() makes them: the other CPUs wait."""
    return [Wait(Sync.STOP_MACHINE, "every other CPU waits"), *writes, Wait(Sync.IC_IVAU, "the new instruction is visible")]
