"""arm64: entered with x30 into the function and x9 to its caller; an ftrace_regs, more registers, two frame records."""

from __future__ import annotations

import struct

from ...emulate.image import Image
from ...ftrace.releases import Features
from ...isa.arm64 import BL as CALL  # noqa: F401 (how a trampoline calls)
from .plan import GAP, SavePlan

#: x8 carries the address of a large result.
ARGUMENTS = tuple(f"x{n}" for n in range(9))
#: Without x9, which the patch site itself overwrites, and x18, which belongs to the platform.
CLOBBERED = (*ARGUMENTS, *(f"x{n}" for n in range(10, 18)))
ARGS = (*ARGUMENTS, "x29")
REGS = (*ARGS, *(f"x{n}" for n in range(10, 29)))
_RECORDS, _PAGE = 32, 4096


def before(image: Image, features: Features, plan: SavePlan) -> str:
    """Make the frame and the two records, save, and set up what the callback is passed but for the ops."""
    slots, records, frame = _layout(image, plan)
    stored = {r: slots[r] for r in plan.keeps}
    early = _each("st", stored)  # x10 may be one of them
    late: dict[str, int] = {"xzr": slots["direct_tramp"]} if plan.whole else {}
    if plan.ip:
        late["x30"] = slots["pc"]
    if plan.sp:
        late |= {"x10": slots["sp"], "x9": slots["lr"]}
    lines = [f"sub sp, sp, #{frame}"]
    if plan.whole and not plan.full:  # as ftrace_caller has them
        lines += [f"add x10, sp, #{frame}", *_each("st", stored | late, ARGUMENTS[:8])]
    else:
        lines += [*early, *([f"add x10, sp, #{frame}"] if plan.sp else []), *_each("st", late)]
    lines += [f"stp x29, x9, [sp, #{records + 16}]", f"add x29, sp, #{records + 16}"]
    lines += [f"stp x29, x30, [sp, #{records}]", f"add x29, sp, #{records}"]
    return "\n".join([*lines, "sub x0, x30, #4", "mov x1, x9", "mov x3, sp"])


def after(image: Image, features: Features, plan: SavePlan) -> str:
    """Restore, drop the frame and return, to where the pc slot says if the plan has one.

    Where the frame holds no fp and lr, both come from the record of the function. What ftrace_regs_caller saves beyond
    the arguments it does not load again.
    """
    slots, records, frame = _layout(image, plan)
    kept = {r: slots[r] for r in plan.keeps if not (plan.full and r not in ARGS)}
    lines = _each("ld", kept, ARGUMENTS[:8] if plan.whole and not plan.full else None)
    if plan.whole:
        lines.append(f"ldr x30, [sp, #{slots['lr']}]")
    elif plan.stack:
        lines += [f"ldr x29, [sp, #{records + 16}]", f"ldr x30, [sp, #{slots['lr']}]"]
        return "\n".join([*lines, f"ldp x10, x9, [sp, #{slots['sp']}]", "mov sp, x10", "ret x9"])
    else:
        lines.append(f"ldp x29, x30, [sp, #{records + 16}]")
    lines.append(f"ldr x9, [sp, #{slots['pc'] if plan.ip else records + 8}]")
    return "\n".join([*lines, f"add sp, sp, #{frame}", "ret x9"])


def load_ops(pc: int, ops: int) -> bytes:
    """ADRP x2 and ADD x2 (Arm ARM, C6.2)."""
    pages = ops // _PAGE - pc // _PAGE
    adrp = 0x90000002 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    return struct.pack("<II", adrp, 0x91000042 | (ops % _PAGE) << 10)


def _layout(image: Image, plan: SavePlan) -> tuple[dict[str, int], int, int]:
    """The offsets of registers and members, the offset of the frame records, and the size of the frame."""
    fregs = image.struct("ftrace_regs")
    slots = {name: f.offset for name, f in fregs.fields.items() if name != "regs"}
    slots |= {f"x{n}": fregs.fields["regs"].offset + 8 * n for n in range(9)} | {"x29": slots["fp"]}
    slots |= {name: f.offset for name, f in image.struct("lab_more_regs").fields.items() if name != "fregs"}
    end = max([fregs.size, *(slots[r] + 8 for r in plan.keeps)])
    records = end + 15 & ~15
    return slots, records, records + _RECORDS + (GAP if plan.stack else 0)


def _each(op: str, places: dict[str, int], paired: tuple[str, ...] | None = None) -> list[str]:
    """Loads or stores (op) of registers at offsets, in pairs where two lie side by side. paired: the only registers that may be."""
    todo, lines = sorted(places.items(), key=lambda place: place[1]), []
    while todo:
        (first, at), *rest = todo
        if rest and rest[0][1] == at + 8 and (paired is None or first in paired):
            lines.append(f"{op}p {first}, {rest[0][0]}, [sp, #{at}]")
            todo = rest[1:]
        else:
            lines.append(f"{op}r {first}, [sp, #{at}]")
            todo = rest
    return lines
