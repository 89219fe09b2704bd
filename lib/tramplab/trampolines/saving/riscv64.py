"""riscv64: entered with t0 into the function and ra to its caller; an ftrace_regs and more registers; no frame record."""

from __future__ import annotations

import struct

from ...emulate.image import Image
from ...ftrace.releases import Features
from ...isa.riscv64 import CALL_RA as CALL  # noqa: F401 (how a trampoline calls)
from ...isa.riscv64 import auipc, split_offset
from .plan import GAP, SavePlan

ARGUMENTS = tuple(f"a{n}" for n in range(8))
#: Without t0 and ra, which the patch site's call and the trampoline's own use; both are always saved.
CLOBBERED = (*ARGUMENTS, *(f"t{n}" for n in range(1, 7)))
ARGS = (*ARGUMENTS, "s0")
REGS = (*ARGS, "gp", "tp", *(f"t{n}" for n in range(1, 7)), *(f"s{n}" for n in range(1, 12)))
_A2 = 12
#: rec->ip is the first byte of the pair, or with a fixed AUIPC the JALR; t0 leads behind both.
_SITE = {"detour8": 8, "auipc-jalr": 4, "literal-auipc-jalr": 4}


def before(image: Image, features: Features, plan: SavePlan) -> str:
    """Make the frame, save, and set up what the callback is passed but for the ops."""
    slots, frame = _layout(image, plan)
    lines = [f"addi sp, sp, -{frame}", f"sd t0, {slots['epc']}(sp)", f"sd ra, {slots['ra']}(sp)"]
    lines += [f"sd {r}, {slots[r]}(sp)" for r in plan.keeps]
    if plan.whole and not plan.full:
        lines.append(f"sd zero, {slots['t1']}(sp)")  # no direct call
    if plan.sp:
        lines += [f"addi t3, sp, {frame}", f"sd t3, {slots['sp']}(sp)"]
    return "\n".join([*lines, f"addi a0, t0, -{_SITE[features['site']]}", "mv a1, ra", "mv a3, sp"])


def after(image: Image, features: Features, plan: SavePlan) -> str:
    """Restore, drop the frame and return to where the epc slot says."""
    slots, frame = _layout(image, plan)
    lines = [f"ld t0, {slots['epc']}(sp)", f"ld ra, {slots['ra']}(sp)"]
    lines += [f"ld {r}, {slots[r]}(sp)" for r in plan.keeps]
    lines.append(f"ld sp, {slots['sp']}(sp)" if plan.stack else f"addi sp, sp, {frame}")
    return "\n".join([*lines, "jr t0"])


def load_ops(pc: int, ops: int) -> bytes:
    """AUIPC a2 and ADDI a2 (unprivileged ISA, 2.4)."""
    upper, low = split_offset(ops - pc)
    return auipc(_A2, upper) + struct.pack("<I", (low & 0xFFF) << 20 | _A2 << 15 | _A2 << 7 | 0x13)


def _layout(image: Image, plan: SavePlan) -> tuple[dict[str, int], int]:
    """Offsets of registers and members, and the size of the frame."""
    fregs, more = image.struct("ftrace_regs"), image.struct("lab_more_regs").fields
    slots = {name: f.offset for name, f in (more | fregs.fields).items() if name not in ("args", "fregs")}
    slots |= {f"a{n}": fregs.fields["args"].offset + 8 * n for n in range(8)}
    end = max([fregs.size, *(slots[r] + 8 for r in plan.keeps)])
    return slots, (end + 15 & ~15) + (GAP if plan.stack else 0)
