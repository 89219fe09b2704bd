"""A call with a BPF program that is called directly, and one with a program on an fprobe, on arm64 today: instruction by
instruction."""

from __future__ import annotations

import pandas as pd

from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.lab.reading.walk import walk
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.fprobe import Fprobe

from ....publish.figures.figure import Figure
from ....publish.stepper.stepper import Notes, Stepper, stepper
from ...memo import once
from ...shared.milestones import golden, stretches  # noqa: F401 (part of a study)

NAME = "two_ways"
TITLE = "Called directly and through an fprobe, step by step"
ISA, FUNCTION, ARGUMENTS = "arm64", "two_args", (1, 2)
DIRECT, FPROBE = "direct call", "fprobe"

#: What to look for.
WATCH = (
    "Compare what runs in save, before the program: the direct call's trampoline stores the two arguments and calls the guards; "
    "the fprobe's stores every register that may hold an argument, and the code that it calls searches for the fprobe and its link."
)

#: Step -> its note; see publish/stepper/stepper.py.
NOTES: Notes = {
    "": {
        ("site", 0): "A caller passes 1 and 2. On both sides the site is a MOV and a BL; what differs is where the BL leads.",
        ("body", 0): "The function's own code, with its two arguments.",
    },
    DIRECT: {
        ("site", "bl "): "Into the trampoline that was made for this function: nothing has to be asked.",
        ("save", "stp x29, x9"): "A record for two_args, which has none yet, and then one for the trampoline.",
        ("save", "str x0"): "Two arguments, two stores: how many there are was known when the code was made.",
        ("save", "__bpf_prog_enter_recur"): "The guards of one program: RCU's read side, and what keeps it out of itself.",
        ("callback", 0): "The program. It is passed the address of the two words.",
        ("callback", "__bpf_prog_exit_recur"): "All of it undone.",
        ("restore", 0): "Two loads for two arguments.",
        ("restore", "ret x10"): "Into two_args; the BL there pushed this address on the return stack.",
    },
    FPROBE: {
        ("site", "bl "): "Into the trampoline of all.",
        ("save", "ldur x11"): "Which ops is it? The word before the function says so: the one that all fprobes for entries share.",
        ("save", "cbnz x17"): "It has no direct call.",
        ("save", "stp x0, x1"): "All registers that may hold arguments: nine of them, whatever the function takes.",
        ("save", "fprobe_ftrace_entry"): "Through the ops' own pointer, without a list.",
        ("save", "rcu_is_watching"): "A call for one bit.",
        ("save", "orr x8, x8, x9"): "ftrace's guard against recursion, for this context.",
        ("save", "mul x10"): "Whose function is it? Its address, hashed, in the table of all functions that fprobes watch.",
        ("save", "ldr x0, [x24, #0x18]"): "The fprobe; there may be more of the same function.",
        ("save", "blr x8"): "The handler: it is passed ip, the caller's address and the registers that were stored.",
        ("save", "kprobe_multi_link_handler_kernel"): "That of a link of kprobe_multi, which runs one program for many functions.",
        ("callback", 0): "The program. It is passed a pt_regs, into which the registers were copied.",
        ("callback", "sxtw x8"): "The guard goes as it came.",
        ("restore", 0): "All of them back.",
        ("restore", "cbnz x17"): "A callback might have asked for a direct call on the way out; none did.",
    },
}


@once
def walks() -> list[dict]:
    """One call of each way; see lab.reading.walk. They are told apart by what they are called, not by their ISA."""
    ways: dict[str, Request] = {DIRECT: Bpf(fentry=1), FPROBE: Fprobe(multi=True)}
    records = []
    for name, request in ways.items():
        kernel = Kernel(ISA, releases.LATEST)
        function = kernel.function(FUNCTION)
        with kernel.attached(function, request):
            records.append({**walk(kernel, function, *ARGUMENTS), "isa": name})
    return records


@once
def rows() -> pd.DataFrame:
    """One row per way (in the column isa) and stretch between milestones; see shared/milestones.py."""
    return stretches(walks())


def body(_: pd.DataFrame) -> Stepper:
    """The calls to step through."""
    return stepper(walks(), NOTES, WATCH)


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """Numbers for the prose: instructions of every stretch, like "fprobe-save", and of the whole call, "fprobe-all"."""
    out = {f"{r.isa.split()[0]}-{r[2]}": int(r.instructions) for r in frame.itertuples()}
    whole = frame.groupby("isa")["instructions"].sum()
    return out | {f"{way.split()[0]}-all": int(n) for way, n in whole.items()}


FIGURES = (
    Figure(
        "fig-two-ways",
        f"What runs in a direct call, and what in an fprobe? (arm64, {releases.LATEST})",
        body=body,
        limits="Emulated counts, no timing. One call of a two-argument function, with one BPF program that counts, as fentry or "
        "on an fprobe by a link of kprobe_multi; stretches begin at the milestone named and end at the next.",
    ),
)
