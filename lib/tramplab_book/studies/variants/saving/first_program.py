"""What does a generated trampoline do with a BPF program, instruction by instruction?"""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace import releases
from tramplab.trampolines.bpf import Bpf

from ....publish.figures.figure import Figure
from ....publish.stepper.stepper import Notes, Stepper, stepper
from ...memo import once
from ...shared import milestones
from ...shared.milestones import golden, numbers  # noqa: F401 (part of a study)

NAME = "first_program"
TITLE = "One BPF program, step by step"
FUNCTION, ARGUMENTS = "two_args", (1, 2)

_COUNT = "How many words of arguments there are, for a program that asks."
_COOKIE = "The value this program's link was made with: the first word of the context that the program runs in."
_SKIP = "Zero would mean that the program is active already on this CPU: then it is passed over."
_CONTEXT = "All the program is passed: where the saved arguments are."
_ENTER = "RCU's read side, migration off, the run's context, and a counter that keeps the program from running inside itself."
_ENTER_LAZY = "RCU's read side, here a section without preemption, the run's context, and what keeps the program out of itself."

#: What to look for.
WATCH = (
    "Compare save with restore: each trampoline stores the function's two arguments, calls the program between its guards, and "
    "loads the same two arguments again."
)

#: Step -> its note; see publish/stepper/stepper.py.
NOTES: Notes = {
    "": {
        ("site", 0): "A caller passes 1 and 2. The trampoline was made for a function of two arguments.",
        ("callback", 0): "The program: it adds one to a counter.",
        ("body", 0): "The function's own code, with its two arguments. No other argument register was kept.",
    },
    "x86_64": {
        ("save", "push rbp"): "A frame, and a record in it: the caller's rbp, and the way back into two_args.",
        ("save", "mov [rbp-0x20], rbx"): "rbx will hold the time at which the program started, over two calls.",
        ("save", "mov eax, 2"): _COUNT,
        ("save", "mov [rbp-0x10], rdi"): "The two arguments, side by side: an array for the program.",
        ("save", "mov edi, 1"): _COOKIE,
        ("save", "__bpf_prog_enter_recur"): _ENTER,
        ("save", "test rax, rax"): _SKIP,
        ("save", "lea rdi"): _CONTEXT,
        ("callback", "__bpf_prog_exit_recur"): "All of it undone.",
        ("restore", 0): "Two loads for two arguments. A program of another function would have other numbers here.",
        ("restore", "leave"): "The record was about this frame and its caller. Who made two_args' record? Nobody yet.",
        ("restore", "ret"): "Into two_args, where the site's CALL has it from: the return stack predicts it.",
    },
    "arm64": {
        ("save", "stp x29, x9"): "A record for two_args, which has none yet,",
        ("save", "stp x29, x30"): "and one for the trampoline. Unlike x86-64's, this trampoline always makes both.",
        ("save", "mov x10, #2"): _COUNT,
        ("save", "str x0"): "The two arguments, side by side: an array for the program.",
        ("save", "str x19"): "x19 will hold the program, x20 the time at which it started.",
        ("save", "mov x10, #1"): _COOKIE,
        ("save", "mov x10, #-0x"): "A call takes four instructions: the kernel's text need not be in a BL's reach.",
        ("save", "__bpf_prog_enter_recur"): _ENTER_LAZY,
        ("save", "cbz x0"): _SKIP,
        ("save", "add x0, sp"): _CONTEXT,
        ("callback", "__bpf_prog_exit_recur"): "All of it undone.",
        ("restore", 0): "Two loads for two arguments.",
        ("restore", "ret x10"): "Into two_args; the BL there pushed this address on the return stack.",
    },
    "riscv64": {
        ("save", "ld t1"): "The site's JALR reaches no further than ftrace_caller, which asks the callsite's ops:",
        ("save", "ld t1, 0x40"): "has it a direct call? It has, so off to it, with nothing saved.",
        ("save", "sd ra"): "A frame that stands for two_args: its caller's return address and frame pointer.",
        ("save", "sd t0"): "And the trampoline's own, with the way back into two_args.",
        ("save", "sd s1"): "s1 will hold the time at which the program started.",
        ("save", "addi t1, zero, 2"): _COUNT,
        ("save", "sd a0"): "The two arguments, side by side: an array for the program.",
        ("save", "addi t1, zero, 1"): _COOKIE,
        ("save", "__bpf_prog_enter_recur"): _ENTER_LAZY,
        ("save", "beqz a0"): _SKIP,
        ("save", "addi a0, s0"): _CONTEXT,
        ("callback", "__bpf_prog_exit_recur"): "All of it undone.",
        ("restore", 0): "Two loads for two arguments.",
        ("restore", "jr t0"): "t0 is a link register: the return stack has this address from the site's JALR.",
    },
}


@once
def walks() -> list[dict]:
    """One call with one fentry program, on each ISA in the newest release; see lab.reading.walk."""
    return milestones.walks(FUNCTION, ARGUMENTS, lambda: Bpf(fentry=1))


@once
def rows() -> pd.DataFrame:
    """One row per ISA and stretch between milestones; see shared/milestones.py."""
    return milestones.stretches(walks())


def body(_: pd.DataFrame) -> Stepper:
    """The calls to step through."""
    return stepper(walks(), NOTES, WATCH)


FIGURES = (
    Figure(
        "fig-first-program",
        f"What does a generated trampoline do around a program? ({releases.LATEST})",
        body=body,
        limits="Emulated counts, no timing. One call of a two-argument function with one fentry program; stretches begin at "
        "the milestone named and end at the next.",
    ),
)
