"""x86-64: entered with the way back into the function at (rsp); the frame is a pt_regs."""

from __future__ import annotations

import struct

from ...emulate.image import Image
from ...ftrace.releases import Features
from ...isa.x86_64 import CALL  # noqa: F401 (how a trampoline calls)
from .plan import GAP, SavePlan

#: rax tells a variadic function how many vector registers carry arguments.
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax")
CLOBBERED = (*ARGUMENTS, "r10", "r11")
ARGS = (*ARGUMENTS, "rbp")
REGS = (*ARGS, "r10", "r11", "r12", "r13", "r14", "r15", "rbx")
#: ftrace_regs_caller does not load it again: it is dead, and the exit to a direct call needs it.
_NOT_RELOADED = ("r11",)
_RECORDS = 40
_NOP10 = ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0"
_SITE = 5


def before(image: Image, features: Features, plan: SavePlan) -> str:
    """Make the frame, save, and set up what the callback is passed but for the ops."""
    slots, top = _slots(image), _top(image, features, plan)
    slot = [_NOP10] if features["call_depth_slots"] else []
    lines = [".byte 0xf3, 0x0f, 0x1e, 0xfa"] if features["trampoline_endbr"] else []
    if plan.full:
        lines.append("pushfq")
    if plan.stack:
        lines.append(f"sub rsp, {GAP}")
    if features["frame_pointer"]:  # the record of the function, then the trampoline's own
        above = top - _RECORDS - _frame(image)
        lines += ["push rbp", f"push qword ptr [rsp + {16 + above}]", "push rbp", "mov rbp, rsp"]
        lines += [f"push qword ptr [rsp + {24 + above}]", "push rbp", "mov rbp, rsp"]
    lines.append(f"sub rsp, {_frame(image)}")
    lines += [f"mov [rsp + {slots[r]}], {r}" for r in plan.keeps if r != "rbp"]
    if "rbp" in plan.keeps:  # by way of rdx, as the kernel's own trampolines
        rbp = f"[rsp + {_frame(image) + 32}]" if features["frame_pointer"] else "rbp"
        lines += [f"mov rdx, {rbp}", f"mov [rsp + {slots['rbp']}], rdx"]
    if plan.whole:
        lines.append(f"mov qword ptr [rsp + {slots['orig_ax']}], 0")
    lines += [f"mov rsi, [rsp + {top + 8}]", f"mov rdi, [rsp + {top}]"]
    if plan.ip:
        lines.append(f"mov [rsp + {slots['ip']}], rdi")
    if plan.sp:
        lines += [f"lea rcx, [rsp + {top + 8}]", f"mov [rsp + {slots['sp']}], rcx"]
    lines += [f"sub rdi, {_SITE}", *slot]
    if plan.full:
        lines += [f"mov rcx, [rsp + {top - 8}]", f"mov [rsp + {slots['flags']}], rcx"]
        for name, segment in (("ss", 0x18), ("cs", 0x10)):
            lines += [f"mov rcx, {segment}", f"mov [rsp + {slots[name]}], rcx"]
    else:
        lines.append(f"mov qword ptr [rsp + {slots['cs']}], 0")  # only some slots are right
    return "\n".join([*lines, "mov rcx, rsp", *slot])


def after(image: Image, features: Features, plan: SavePlan) -> str:
    """Restore, drop the frame and return, to where the ip slot says if the plan has one."""
    slots, top = _slots(image), _top(image, features, plan)
    lines = []
    if plan.full:
        lines += [f"mov rax, [rsp + {slots['flags']}]", f"mov [rsp + {top - 8}], rax"]
    if plan.stack:  # both are dead: temporaries at a function's entry
        lines += [f"mov r10, [rsp + {slots['sp']}]", f"mov r11, [rsp + {slots['ip']}]"]
    elif plan.ip:
        lines += [f"mov rax, [rsp + {slots['ip']}]", f"mov [rsp + {top}], rax"]
    lines += [f"mov {r}, [rsp + {slots[r]}]" for r in plan.keeps if not (plan.full and r in _NOT_RELOADED)]
    if features["frame_pointer"] and "rbp" not in plan.keeps:
        lines.append(f"mov rbp, [rsp + {_frame(image) + 32}]")
    if plan.stack:
        return "\n".join([*lines, "mov [r10 - 8], r11", "lea rsp, [r10 - 8]", "ret"])
    drop = [f"add rsp, {top - 8}", "popfq"] if plan.full else [f"add rsp, {top}"]
    return "\n".join([*lines, *drop, "ret"])


def load_ops(pc: int, ops: int) -> bytes:
    """MOV rdx, ops: the constant is sign-extended from 32 bits where that gives it."""
    if ops in (ops & 0x7FFFFFFF, ops | ~0x7FFFFFFF & (1 << 64) - 1):
        return b"\x48\xc7\xc2" + struct.pack("<I", ops & 0xFFFFFFFF)
    return b"\x48\xba" + struct.pack("<Q", ops)


def _slots(image: Image) -> dict[str, int]:
    """Offsets in the frame: of registers by their names, of the other members of a pt_regs by theirs."""
    fields = image.struct("pt_regs").fields
    short = {"rax": "ax", "rbx": "bx", "rcx": "cx", "rdx": "dx", "rsi": "si", "rdi": "di", "rbp": "bp"}
    names = {f: f for f in fields} | short
    return {name: fields[f].offset for name, f in names.items()}


def _frame(image: Image) -> int:
    return image.struct("pt_regs").size


def _top(image: Image, features: Features, plan: SavePlan) -> int:
    """Bytes from the frame up to the way back into the function, which the patch site's call pushed."""
    records = _RECORDS if features["frame_pointer"] else 0
    gap, flags = GAP if plan.stack else 0, 8 if plan.full else 0
    return _frame(image) + records + gap + flags
