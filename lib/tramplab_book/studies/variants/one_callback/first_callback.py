"""What happens between the call of a hooked function and its callback, instruction by instruction?"""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace import releases
from tramplab.trampolines.plain import Ops

from ....publish.figures.figure import Figure
from ....publish.stepper.stepper import Notes, Stepper, stepper
from ...memo import once
from ...shared import milestones
from ...shared.milestones import golden, numbers  # noqa: F401 (part of a study)

NAME = "first_callback"
TITLE = "One callback, step by step"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)

_OWN_OPS = "CALL_OPS: the eight bytes before three_args point to the ops, so one trampoline can serve every function."
_DIRECT = "Has this ops a direct call? If so, leave through it now, with nothing saved."
_FROM_OPS = "The function to call comes from the ops. The trampoline is everybody's, yet no list is walked."

#: What to look for.
WATCH = (
    "Compare in save where each trampoline takes the address of the ops from: x86-64 from a word after its own code, arm64 and "
    "riscv64 from the eight bytes before the function."
)

#: What is said of which step; see publish/stepper/stepper.py.
NOTES: Notes = {
    "": {
        ("site", 0): "A caller passes 1, 2 and 3. Watch where they go.",
        ("callback", 0): "Its arguments are ip, parent_ip, ops and fregs. It adds one to the counter that the ops points to.",
        ("body", 0): "The function's own code. Stack pointer, return address and arguments are what they were at its first "
        "byte.",
        ("return", 0): "Straight to the caller: of the trampoline nothing is left to do.",
    },
    "x86_64": {
        ("site", "call"): "Five bytes, a NOP while nobody traces. The CALL pushes where to go on in three_args.",
        ("save", 0): "The ops' own trampoline, a copy of ftrace_caller. The frame is a pt_regs of which much stays unwritten: "
        "the words below that never get a value.",
        ("save", "nop"): "A slot for call-depth accounting, idle here.",
        ("save", "mov [rsp+0x60], rdx"): "The arguments. Not saved: r10 and r11, dead at a function's first byte, and what the "
        "callback preserves.",
        ("save", "mov rsi,"): "parent_ip: the caller's return address, where the call of three_args pushed it.",
        ("save", "sub rdi,"): "ip: the address of the site, the return address less the length of the CALL.",
        ("save", "mov qword [rsp+0x88]"): "cs = 0 says that this is no full pt_regs.",
        ("save", "mov rdx, [rip"): "The ops. Its address lies behind the trampoline's own code: nothing is looked up.",
        ("save", "call"): "A direct call of the ops' own function. No list is walked.",
        ("restore", 0): "The frame's ip becomes the return address: a callback may have set another one.",
        ("restore", "ret"): "To behind the site. The CALL there pushed this address, so the CPU's return stack predicts it.",
    },
    "arm64": {
        ("site", 0): "Written at boot, for good: the BL will overwrite x30, so the caller's return address moves to x9.",
        ("site", "bl"): "The one instruction that is patched, a NOP while nobody traces.",
        ("save", "ldur x11"): _OWN_OPS,
        ("save", "ldr x17"): _DIRECT,
        ("save", "stp x0, x1"): "x0 to x7, and x8, where a returned struct would go. Not saved: temporaries, and what the "
        "callback preserves.",
        ("save", "stp x29, x9, [sp, #0x80]"): "A frame record for three_args, which has none yet: it returns to the caller.",
        ("save", "stp x29, x30, [sp, #0x70]"): "And the trampoline's own, into three_args. An unwinder finds both.",
        ("save", "sub x0"): "ip: the address of the BL.",
        ("save", "ldr x4"): _FROM_OPS,
        ("restore", "ldr x17"): "x17 gets direct_tramp: not zero, it is a direct call that a callback wants made.",
        ("restore", "ldr x30"): "The caller's return address goes back to where the function expects it.",
        ("restore", "ret x9"): "Through x9, since x30 is taken. The BL pushed this address, so the return stack predicts it.",
    },
    "riscv64": {
        ("site", 0): "Written at boot, for good: AUIPC, the upper part of the distance to ftrace_caller.",
        ("site", "jalr"): "The one instruction that is patched. It links through t0, so ra keeps the caller's return address.",
        ("save", "ld t1"): _OWN_OPS,
        ("save", "ld t1, 0x40"): _DIRECT,
        ("save", "c.sdsp t0"): "epc: where to go on. The frame is an ftrace_regs; there is no frame record.",
        ("save", "c.sdsp a0"): "a0 to a7, whatever the function takes. Not saved: temporaries, and what the callback "
        "preserves.",
        ("save", "c.mv a0, sp"): "a0 is saved by now, so it carries the stack pointer to its slot; up to v6.15 t4 did.",
        ("save", "addi a0, t0"): "ip: the address of the JALR.",
        ("save", "ld ra"): _FROM_OPS,
        ("save", "c.jalr"): "Links through ra, which is in the frame by now.",
        ("restore", "c.ldsp t1"): "Not zero, t1 would be a direct call that a callback wants made.",
        ("restore", "c.jr t0"): "t0 is a link register, too: the JALR pushed this address on the return stack, this jump "
        "pops it.",
    },
}


@once
def walks() -> list[dict]:
    """One call with one plain ops attached, on each ISA in the newest release; see lab.reading.walk."""
    return milestones.walks(FUNCTION, ARGUMENTS, Ops)


@once
def rows() -> pd.DataFrame:
    """One row per ISA and stretch between milestones; see shared/milestones.py."""
    return milestones.stretches(walks())


def body(_: pd.DataFrame) -> Stepper:
    """The calls to step through."""
    return stepper(walks(), NOTES, WATCH)


FIGURES = (
    Figure(
        "fig-first-callback",
        f"What happens between the call and the callback? ({releases.LATEST})",
        body=body,
        limits="Emulated counts, no timing. One call of a three-argument function with one ops attached; stretches begin at "
        "the milestone named and end at the next.",
    ),
)
