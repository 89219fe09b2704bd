"""What happens between the call of a hooked function and its callback, instruction by instruction?"""

from __future__ import annotations

import pandas as pd

from ..ftrace import releases
from ..ftrace.kernel import Kernel
from ..ftrace.ops import Ops
from ..ftrace.walk import walk
from ..isa import ISAS
from ..publish.figure import Figure
from ..publish.stepper import Note, Stepper, stepper

NAME = "first_callback"
TITLE = "One callback, step by step"
FUNCTION, ARGUMENTS = "three_args", (1, 2, 3)
UNITS: dict[str, str] = {}

NOTES = [
    Note(
        "x86_64",
        "site",
        "call",
        "A NOP until now. The call pushes the address behind it, from which the callback's ip is made.",
    ),
    Note(
        "x86_64",
        "save",
        "",
        "This trampoline was made for this one ops. It begins with the slot for call-depth accounting, a NOP on this CPU.",
    ),
    Note(
        "x86_64",
        "save",
        "mov qword ptr [rsp + 0x50], rax",
        "rax and what carries arguments goes into a frame laid out as a pt_regs, most of which stays unwritten.",
    ),
    Note(
        "x86_64",
        "save",
        "mov rsi",
        "Two return addresses are on the stack: into the traced function, and above it into its caller, the parent ip.",
    ),
    Note(
        "x86_64",
        "save",
        "sub rdi",
        "The ip handed over is that of the site: the return address less the length of the call.",
    ),
    Note(
        "x86_64",
        "save",
        "mov rdx, qword ptr [rip",
        "The ops pointer lies behind this trampoline's own code: no search, no list.",
    ),
    Note(
        "x86_64",
        "restore",
        "mov qword ptr [rsp + 0xa8]",
        "The ip goes back to where the return address was; a callback may have changed it.",
    ),
    Note(
        "x86_64",
        "restore",
        "ret",
        "Returns behind the site. The call there pushed this address, so the CPU's return stack predicts it.",
    ),
    Note(
        "arm64",
        "site",
        "",
        "Written once at boot: BL is about to overwrite x30, so the caller's return address moves to x9.",
    ),
    Note("arm64", "site", "bl", "The one instruction that patching changes; a NOP until now."),
    Note(
        "arm64",
        "save",
        "ldur",
        "CALL_OPS: the ops pointer lies beside the function, before its first byte, and is found from the link.",
    ),
    Note("arm64", "save", "cbnz", "Does this ops have a direct call? Asked before anything is saved."),
    Note(
        "arm64",
        "save",
        "stp x0, x1",
        "x0 to x8 go into the ftrace_regs: arguments and the place of a returned struct, no more.",
    ),
    Note(
        "arm64",
        "save",
        "stp x29, x9, [sp, #0x80]",
        "Two frame records for an unwinder: this one returns into the caller, the one below it into the traced function.",
    ),
    Note(
        "arm64",
        "save",
        "ldr x4, [x2]",
        "The callback is read from the ops. No list is walked, though the trampoline is everybody's.",
    ),
    Note(
        "arm64",
        "restore",
        "ldr x30",
        "The caller's return address goes back to where the function's own code expects it.",
    ),
    Note(
        "arm64",
        "restore",
        "ret x9",
        "Through x9, since x30 is taken. The site's BL pushed this address, so the CPU's return stack predicts it.",
    ),
    Note(
        "riscv64",
        "site",
        "",
        "Written once at boot: the upper part of the way to the trampoline. Only the next instruction is ever patched.",
    ),
    Note("riscv64", "site", "jalr", "Links through t0, so that ra still holds the caller's return address."),
    Note(
        "riscv64",
        "save",
        "ld t2",
        "CALL_OPS: the ops pointer lies beside the function, before its first byte, and is found from the link.",
    ),
    Note("riscv64", "save", "beqz", "Does this ops have a direct call? Asked before anything is saved."),
    Note("riscv64", "save", "c.sdsp a0", "a0 to a7 go into the ftrace_regs, with ip, ra, sp, s0 and t1."),
    Note("riscv64", "save", "c.jalr", "Through ra, which was saved above."),
    Note(
        "riscv64",
        "restore",
        "c.jr t0",
        "t0 is a link register, too: the site's JALR pushed this address, and this jump counts as the return.",
    ),
]


def walks() -> list[dict]:
    """One call with one plain ops attached, on each ISA in the newest release; see ftrace.walk."""
    out = []
    for isa in ISAS.values():
        kernel = Kernel(isa.name, releases.shown()[-1])
        function = kernel.function(FUNCTION)
        with kernel.attached(function, Ops()):
            out.append(walk(kernel, function, *ARGUMENTS))
    return out


def rows() -> pd.DataFrame:
    """One row per ISA and stretch between milestones: its instructions, the registers they changed, and their stores.

    Columns: isa, from (a milestone), instructions, changed (registers that got another value, each time counted),
    stores. A stretch reaches up to the next milestone, the last one to the end of the call.
    """
    out = []
    for w in walks():
        marks = list(w["milestones"].items())
        ends = [step for _, step in marks[1:]] + [len(w["steps"])]
        for (name, start), end in zip(marks, ends, strict=True):
            part = w["steps"][start:end]
            changed, stores = sum(len(r) for _, r, _ in part), sum(len(m) for _, _, m in part)
            out.append({"isa": w["isa"], "from": name, "instructions": len(part), "changed": changed, "stores": stores})
    frame = pd.DataFrame(out)
    frame.attrs["units"] = UNITS
    return frame


def golden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table that data/expected/ keeps: all of it."""
    return frame


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """What the prose quotes: instructions of every stretch, like "arm64-save"."""
    return {f"{r.isa}-{r[2]}": int(r.instructions) for r in frame.itertuples()}


def body(_: pd.DataFrame) -> Stepper:
    """The calls to step through."""
    return stepper(walks(), NOTES)


FIGURES = (
    Figure(
        "fig-first-callback",
        f"What happens between the call and the callback? ({releases.shown()[-1]})",
        body=body,
        limits="Emulated counts, no timing. One call of a three-argument function with one ops attached; stretches begin at "
        "the milestone named and end at the next.",
    ),
)
