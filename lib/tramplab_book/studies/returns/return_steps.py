"""The way back from a function with a BPF program on a kretprobe, on an fprobe and as fexit: from its own return to that into the
caller."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tramplab.lab.reading.rest import rest
from tramplab.lab.reading.walk import walk
from tramplab.returns.mechanisms import FEXIT, KRETPROBE_BPF, LATEST, MULTI, get

from ...publish.figures.figure import Figure
from ...publish.stepper.stepper import Notes, Stepper, stepper
from ..memo import once
from ..shared.milestones import golden, stretches  # noqa: F401 (part of a study)

NAME = "return_steps"
TITLE = "Back to the caller, step by step"
ISA, FUNCTION, ARGUMENTS = "x86_64", "one_arg", (1,)
#: Name of a walk -> its mechanism.
WALKS = {"kretprobe": KRETPROBE_BPF, "fprobe": MULTI, "fexit": FEXIT}
BODY, TRAMPOLINE, HANDLER, TIDY, LEAVE = "body", "trampoline", "handler", "tidy", "leave"

#: What to look for.
WATCH = (
    "Compare the address that the function's RET takes from the stack: kretprobe and fprobe have put that of a trampoline in "
    "place of the caller's, and it then has to find the call; fexit's trampoline has called the function itself."
)

#: Step -> its note; see publish/stepper/stepper.py.
NOTES: Notes = {
    "": {
        (BODY, 0): "The function has its value; all that is left of it is the return. What lies where it returns to?",
        (HANDLER, 0): "The BPF program, which counts. Here a tracer would read the value.",
    },
    "kretprobe": {
        (BODY, "ret"): "The word at S was the caller's address. Now it is the trampoline's; the core predicted the caller.",
        (TRAMPOLINE, "push"): "The trampoline's own address, to be overwritten before the end.",
        (TRAMPOLINE, "pushfq"): "Flags, and then all registers: a pt_regs, as if there had been an exception.",
        (TRAMPOLINE, "rethook_trampoline_handler"): "Who finds the instance? The task's list: its first node is this call's.",
        (TRAMPOLINE, "kretprobe_rethook_handler"): "The return hook's handler is the kretprobe's; what it knows is in the node.",
        (TRAMPOLINE, "kretprobe_dispatcher"): "That is a trace event's, which perf has opened.",
        (TRAMPOLINE, "trace_call_bpf"): "Guards of the event's programs: one program at a time on a CPU, and RCU's read side.",
        (TIDY, "arch_rethook_fixup_return"): "The caller's address, from the node into the word by which the trampoline leaves.",
        (TIDY, "objpool_push"): "The node goes back into its CPU's ring, with interrupts off.",
        (LEAVE, 0): "All registers come back, flags too.",
        (LEAVE, "ret"): "To the caller, by a return to which no call belongs: it is mispredicted, and so are those above.",
    },
    "fprobe": {
        (BODY, "ret"): "Here it is return_to_handler's.",
        (TRAMPOLINE, 0): "Room for an ftrace_regs, which is a pt_regs here; four of its words are written.",
        (TRAMPOLINE, "ftrace_return_to_handler"): "Who finds the call? The task's shadow stack: its topmost frame.",
        (TRAMPOLINE, "mov rbx, [rsi]"): "There is the caller's address.",
        (TRAMPOLINE, "fprobe_return"): "The graph tracer's only user: all fprobes together.",
        (TRAMPOLINE, "fgraph_retrieve_data"): "Which of them? The words that the entry has reserved on the shadow stack say so.",
        (TRAMPOLINE, "kprobe_multi_link_exit_handler_hardware"): "The link's handler: the same guards, and a pt_regs.",
        (TIDY, "not ebp"): "The guard against recursion is lifted, and the frame dropped: nothing goes back into a pool.",
        (LEAVE, "call"): "A call over itself, for the sake of the return stack,",
        (LEAVE, "mov [rsp], rdi"): "whose address is overwritten by the caller's.",
        (LEAVE, "ret"): "To the caller: mispredicted, but the returns above it are not.",
    },
    "fexit": {
        (BODY, "ret"): "The trampoline has called the function: this is its own address, and predicted.",
        (TRAMPOLINE, 0): "Nobody has to be found. The value goes into the frame, where the argument is.",
        (TRAMPOLINE, "__bpf_prog_enter_recur"): "The guards of one program: RCU's read side, and what keeps it out of itself.",
        (TIDY, "__bpf_prog_exit_recur"): "All of it undone.",
        (TIDY, "__bpf_tramp_exit"): "The trampoline counts who is in it, so that nobody frees it under a call.",
        (LEAVE, 0): "The value, the one register that it used, and the frame.",
        (LEAVE, "ret"): "To the caller. The site has jumped here, so this return belongs to the caller's own call: predicted.",
    },
}


@once
def walks() -> list[dict]:
    """How one call of each ends, from the function's last instructions on; see lab.reading.walk. They are told apart by what they
    are called, not by their ISA."""
    records = []
    for name, mechanism in WALKS.items():
        build = get(ISA, mechanism)
        kernel = build.kernel()
        function = kernel.function(FUNCTION)
        with kernel.attached(function, build.request()):
            whole = walk(kernel, function, *ARGUMENTS)
        end = rest(whole, marks(whole))
        records.append({**end, "isa": name, "config": f"{name}, {end['config']}"})
    return records


def marks(whole: dict[str, Any]) -> dict[str, int]:
    """Milestones of a call's way back: name -> step of the whole walk.

    body: the first instruction of the function's own code.
    trampoline: the first instruction behind that code.
    handler: the first instruction of a callback from there on.
    tidy: the first instruction behind the callback.
    leave: the first instruction of the last stretch of a trampoline.
    """
    code, symbols = whole["code"], whole["symbols"]
    parts = [symbols[code[step[0]][0]][1] for step in whole["steps"]]
    body = whole["milestones"]["body"]
    away = next(n for n in range(body, len(parts)) if parts[n] != "function")
    handler = parts.index("callback", away)
    tidy = next(n for n in range(handler, len(parts)) if parts[n] != "callback")
    last = max(n for n, part in enumerate(parts) if part not in ("trampoline", "site")) + 1
    return {BODY: body, TRAMPOLINE: away, HANDLER: handler, TIDY: tidy, LEAVE: last}


@once
def rows() -> pd.DataFrame:
    """One row per walk (in the column isa) and stretch between milestones; see shared/milestones.py."""
    return stretches(walks())


def body(_: pd.DataFrame) -> Stepper:
    """The ways back to step through."""
    return stepper(walks(), NOTES, WATCH)


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """Numbers for the prose: instructions of every stretch, like "kretprobe-tidy", and of all behind the function, "kretprobe-all";
    how often it stores before the handler, "-stores"."""
    values = {f"{r.isa}-{r[2]}": int(r.instructions) for r in frame.itertuples()}
    stores = frame[frame["from"] == TRAMPOLINE].set_index("isa")["stores"]
    for name in frame["isa"].unique():
        whole = sum(values[f"{name}-{stretch}"] for stretch in (TRAMPOLINE, HANDLER, TIDY, LEAVE))
        values |= {f"{name}-all": whole, f"{name}-stores": int(stores[name])}
    return values


FIGURES = (
    Figure(
        "fig-return-steps",
        f"Which way does a hooked return go? (x86-64, {LATEST})",
        body=body,
        limits="Emulated counts, no timing. The end of one call of a one-argument function, with one BPF program that counts: on a "
        "kretprobe, on an fprobe by a link of kprobe_multi, and as fexit; stretches begin at the milestone named and end at the "
        "next.",
    ),
)
