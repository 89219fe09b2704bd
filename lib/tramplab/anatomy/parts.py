"""What the functions of a hooked call are for: the parts that a chart of it is coloured by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .tree import Box

#: Beginnings of names -> what a core function is for. What a function calls is for the same as the function, unless it is here too.
STARTS = {
    "exception": ("lab_trap", "irqentry_", "el1_", "arm64_enter_", "arm64_exit_", "do_trap_", "handle_exception"),
    "guards": ("rcu_is_watching", "__rcu_read_", "__bpf_prog_", "__bpf_tramp_", "kprobe_busy_", "migrate_"),
    "probe": (
        *("kprobe_trap", "kprobe_step_trap", "kretprobe_", "pre_handler_", "rethook_", "arch_rethook_", "kprobe_ftrace_"),
        *("ftrace_graph_func", "function_graph_", "ftrace_return_to_handler", "fprobe_", "optimized_"),
    ),
}
#: In the order in which a chart's legend has them.
PARTS = ("site", "trampoline", "core", "probe", "guards", "exception", "callback", "function")


def parts(boxes: Sequence[Box], around: str = "") -> Iterator[tuple[Box, str]]:
    """Each box with its part, in the order in which they begin. around: the part of the box that these lie on.

    The part of a box outside the kernel's C code is its component; "core" is the dispatch of ftrace, "probe" what kprobes, rethook,
    fprobe and the graph tracer do, "exception" the way into and out of a breakpoint's handler.
    """
    for box in boxes:
        part = box.component
        if part == "core":
            inherited = around if around in STARTS else "core"
            part = next((part for part, starts in STARTS.items() if box.name.startswith(starts)), inherited)
        yield box, part
        yield from parts(box.inner, part)
