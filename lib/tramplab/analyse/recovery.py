"""Return addresses that a hook took the place of: an unwinder that meets the return trampoline's address asks for them.

Stands for rethook_find_ret_addr() and ftrace_graph_ret_addr(): of the task's hooked calls, newest first, the next that was hooked
in the frame which the unwinder has come to. By what a frame is known is each ISA's matter, see unwind.RECORDS.
"""

from __future__ import annotations

from ..emulate.image import Image
from ..lab.kernel import Kernel

#: Where functions with a hooked return come back to -> how many of its first instructions come before the stack is that of a call:
#: of return hooks, and of the function graph tracer.
TRAMPOLINES = {"arch_rethook_trampoline": 1, "return_to_handler": 2}
#: ISAs whose unwinder of the graph tracer's calls shows the trampoline's address where nothing is known, instead of an error.
SHOWN = ("riscv64",)
#: The lowest bits of a word of the shadow stack: how far below it the frame begins.
_OFFSET = 0x3FF


class Recovery:
    """Asked for the addresses of one chain, from the innermost on. nodes: frame and return address of each hooked call, newest
    first. trampoline: the address that stands in their place. graph: are they the function graph tracer's? shown: that address is
    given where nothing is known."""

    def __init__(self, nodes: tuple[tuple[int, int], ...], trampoline: int, graph: bool = False, shown: bool = False) -> None:
        self._left, self._trampoline, self.graph = iter(nodes), trampoline, graph
        self._unknown = trampoline if shown else None

    def __call__(self, address: int, frame: int) -> int | None:
        """The address itself, if it is not the trampoline's; else the one whose place that took, None if no call is known that was
        hooked in this frame."""
        if address != self._trampoline:
            return address
        return next((back for at, back in self._left if at == frame and back != self._trampoline), self._unknown)


def symbol(image: Image) -> str | None:
    """The name of where functions come back to whose return an fprobe has hooked; None in a kernel whose fprobes hook none. Where
    they are the graph tracer's, return hooks can be there besides, for kretprobes."""
    return next((name for name in reversed(TRAMPOLINES) if name in image.symbols), None)


def trampoline(kernel: Kernel) -> int | None:
    """Its address."""
    name = symbol(kernel.image)
    return kernel.image.address(name) if name else None


def of(kernel: Kernel) -> Recovery | None:
    """What the first CPU's task knows of its hooked calls at this moment; None in a kernel that hooks no returns."""
    at, graph = trampoline(kernel), "ret_stack" in kernel.image.struct("task_struct").fields
    if at is None:
        return None
    nodes = _frames(kernel) if graph else _nodes(kernel)
    return Recovery(nodes, at, graph, graph and kernel.isa.name in SHOWN)


def _nodes(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """Of return hooks."""
    node, read = kernel.image.struct("rethook_node").fields, kernel.machine.read_u64
    found, place = [], read(kernel.cpus[0].task + kernel.image.struct("task_struct").fields["rethooks"].offset)
    while place:
        found.append((read(place + node["frame"].offset), read(place + node["ret_addr"].offset)))
        place = read(place + node["next"].offset)
    return tuple(found)


def _frames(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """Of the graph tracer: the frames of the task's shadow stack, from its top."""
    task, frame = kernel.image.struct("task_struct").fields, kernel.image.struct("ftrace_ret_stack").fields
    read, at = kernel.machine.read_u64, kernel.cpus[0].task
    stack, top = read(at + task["ret_stack"].offset), read(at + task["curr_ret_stack"].offset) & 0xFFFF_FFFF
    found = []
    while top and (offset := read(stack + 8 * (top - 1)) & _OFFSET):
        top -= 1 + offset
        place = stack + 8 * top
        found.append((read(place + frame["retp"].offset), read(place + frame["ret"].offset)))
    return tuple(found)
