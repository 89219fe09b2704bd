"""riscv64: without ftrace a kprobe is an EBREAK. Where a site's AUIPC is fixed it may replace that, which is simulated; where
rec->ip is the function's first byte, only what is behind the site may be probed so, and by no kretprobe (kretprobe_entry in
data/releases.yml)."""

from __future__ import annotations

from ...emulate.decode import Instruction
from ...ftrace.site import Site
from ...ftrace.steps import Step, Sync, Wait
from ...isa.riscv64 import C_EBREAK, EBREAK
from .protocol import Stepped, refused

_BRANCHES = ("beq", "bne", "blt", "bge", "bltu", "bgeu", "beqz", "bnez", "blez", "bgez", "bltz", "bgtz")
_ELSEWHERE = ("j", "jr", "jal", "jalr", "ret", "ecall", "ebreak", "sret", "fence.i", *_BRANCHES)
_SIMULATED = {"auipc": "kprobe_simulate_auipc"}


def place(site: Site) -> int:
    """The function's first byte, unless it is rec->ip."""
    return site.entry if site.entry != site.ip else site.body


def stepped(i: Instruction, slot: int) -> Stepped:
    """How an instruction is stepped: by a copy; AUIPC is simulated, and other pc-relative instructions are refused."""
    own = EBREAK if i.size == len(EBREAK) else C_EBREAK
    if i.mnemonic in _SIMULATED:
        return Stepped(own, simulate=_SIMULATED[i.mnemonic])
    if i.mnemonic.removeprefix("c.") in _ELSEWHERE:
        raise refused(i)
    return Stepped(own, i.data, EBREAK)


def write(writes: list[Step]) -> list[Step]:
    """The writes as patch_text() makes them: the other harts wait."""
    return [Wait(Sync.STOP_MACHINE, "every other hart waits"), *writes, Wait(Sync.FENCE_I, "every hart fetches again and goes on")]
