"""Return addresses that hooks took the place of: an unwinder that meets a return trampoline's address asks for them.

Stands for ftrace_graph_ret_addr(), rethook_find_ret_addr() and kretprobe_find_ret_addr(): of a mechanism's hooked calls of the
task, newest first, the next that was hooked in the frame which the unwinder has come to. By what a frame is known is each ISA's
matter, see unwind.RECORDS. A kernel can have several mechanisms at once, each with a trampoline of its own; the graph tracer is
asked first, and what it gives may be the other's trampoline. So do unwind_recover_ret_addr() of x86 and
kunwind_recover_return_address() of arm64; not the other way round: where one call is hooked by both, and by the graph tracer
first, its trampoline is what they show.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..emulate.image import Image
from ..lab.kernel import Kernel
from .chain import WORD

#: The mechanisms, in the order in which they are asked: the function graph tracer, return hooks, kretprobes with instances of their
#: own.
GRAPH, HOOKS, INSTANCES = MECHANISMS = ("graph", "hooks", "instances")
#: Mechanism -> the return trampoline of its calls.
SYMBOLS = {GRAPH: "return_to_handler", HOOKS: "arch_rethook_trampoline", INSTANCES: "__kretprobe_trampoline"}
#: Return trampoline -> how many of its first instructions come before the stack is that of a call.
TRAMPOLINES = {SYMBOLS[GRAPH]: 2, SYMBOLS[HOOKS]: 1, SYMBOLS[INSTANCES]: 1}
#: ISA -> the mechanisms that its unwinder asks: unwind_recover_ret_addr() of x86, kunwind_recover_return_address() of arm64,
#: walk_stackframe() of riscv64.
ASKED = {"x86_64": (GRAPH, HOOKS, INSTANCES), "arm64": (GRAPH, HOOKS, INSTANCES), "riscv64": (GRAPH,)}
#: ISAs whose unwinder of the graph tracer's calls shows the trampoline's address where nothing is known, instead of an error.
SHOWN = ("riscv64",)
#: ISAs on which the graph tracer knows a frame by where the return address lies, and the others by the caller's frame pointer.
_APART = ("riscv64",)
#: The lowest bits of a word of the shadow stack: how far below it the frame begins.
_OFFSET = 0x3FF


@dataclass(frozen=True)
class Hooked:
    """The calls that one mechanism has hooked.

    calls: frame and return address of each, newest first; walked when one is first asked for.
    trampoline: the address that replaces their return address.
    shown: that address is given where the call is not found.
    by_pointer: a frame is known by the caller's frame pointer, although it is asked for by the place of its return address; the
        pointer is kept just below that.
    """

    calls: Iterable[tuple[int, int]]
    trampoline: int
    shown: bool = False
    by_pointer: bool = False


class Recovery:
    """Finds the return addresses that hooks replaced, for the addresses of one chain, innermost first.

    kinds: the mechanisms, in the order in which they are asked.
    graph: is one of them the function graph tracer?
    read: address -> word, for mechanisms that are by_pointer.
    """

    def __init__(self, kinds: Sequence[Hooked], graph: bool = False, read: Callable[[int], int] | None = None) -> None:
        self._kinds, self._next, self._read, self.graph = kinds, [0] * len(kinds), read, graph
        self._calls: dict[int, tuple[tuple[int, int], ...]] = {}

    def __call__(self, address: int, frame: int) -> int | None:
        """The address itself, if it is no trampoline's; else the one whose place that took, None if no call is known that was
        hooked in this frame."""
        recovered: int | None = address
        for n, kind in enumerate(self._kinds):
            if recovered == kind.trampoline:
                recovered = self._of(n, self._read(frame - WORD) if kind.by_pointer and self._read else frame)
        return recovered

    def _of(self, n: int, frame: int) -> int | None:
        kind = self._kinds[n]
        if n not in self._calls:
            self._calls[n] = tuple(kind.calls)
        for at in range(self._next[n], len(self._calls[n])):
            known, back = self._calls[n][at]
            if known == frame and back != kind.trampoline:
                self._next[n] = at + 1
                return back
        return kind.trampoline if kind.shown else None


def there(image: Image) -> tuple[str, ...]:
    """The mechanisms that a kernel has, of MECHANISMS."""
    return tuple(name for name in MECHANISMS if SYMBOLS[name] in image.symbols)


def trampolines(kernel: Kernel) -> frozenset[int]:
    """The addresses of the kernel's return trampolines, of all mechanisms."""
    return frozenset(kernel.image.address(SYMBOLS[name]) for name in there(kernel.image))


def of(kernel: Kernel, asked: Collection[str] = MECHANISMS) -> Recovery | None:
    """What the first CPU's task records of its hooked calls at this moment; None in a kernel that hooks no returns. asked: only
    these of MECHANISMS."""
    now = asking(kernel, asked)
    return now() if now else None


def asking(kernel: Kernel, asked: Collection[str] = MECHANISMS) -> Callable[[], Recovery] | None:
    """A function that gives of(), for any number of moments."""
    names = [name for name in there(kernel.image) if name in asked]
    if not names:
        return None
    graph, isa = GRAPH in names, kernel.isa.name
    at = {name: kernel.image.address(SYMBOLS[name]) for name in names}
    apart = graph and isa in _APART

    def now() -> Recovery:
        kinds = [
            Hooked(_CALLS[name](kernel), at[name], shown=name == GRAPH and isa in SHOWN, by_pointer=apart and name != GRAPH)
            for name in names
        ]
        return Recovery(kinds, graph, kernel.machine.read_u64)

    return now


def _listed(kernel: Kernel, head: str, struct: str, frame: str) -> Iterator[tuple[int, int]]:
    """The entries of a list of the task's. head: the task's member with the first; frame: the member of an entry with the frame."""
    fields, read = kernel.image.struct(struct).fields, kernel.machine.read_u64
    place = read(kernel.cpus[0].task + kernel.image.struct("task_struct").fields[head].offset)
    while place:
        yield read(place + fields[frame].offset), read(place + fields["ret_addr"].offset)
        place = read(place + fields["next"].offset)


def _hooks(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """The hooked calls of return hooks (rethook)."""
    return _listed(kernel, "rethooks", "rethook_node", "frame")


def _instances(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """The hooked calls of kretprobes with instances of their own."""
    return _listed(kernel, "kretprobe_instances", "kretprobe_instance", "fp")


def _graph(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """The hooked calls of the graph tracer: the frames of the task's shadow stack, from its top."""
    task, frame = kernel.image.struct("task_struct").fields, kernel.image.struct("ftrace_ret_stack").fields
    read, at = kernel.machine.read_u64, kernel.cpus[0].task
    stack, top = read(at + task["ret_stack"].offset), read(at + task["curr_ret_stack"].offset) & 0xFFFF_FFFF
    while top and (offset := read(stack + 8 * (top - 1)) & _OFFSET):
        top -= 1 + offset
        place = stack + 8 * top
        yield read(place + frame["retp"].offset), read(place + frame["ret"].offset)


_CALLS = {GRAPH: _graph, HOOKS: _hooks, INSTANCES: _instances}
