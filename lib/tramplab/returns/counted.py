"""The counters and the memory of a probe on returns: returns seen, calls missed, bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..base.errors import TramplabError
from ..emulate.engine import PAGE
from ..ftrace.ops import Registered, Request
from ..lab.kernel import Kernel
from ..trampolines import pool_layout
from ..trampolines.bpf import Bpf
from ..trampolines.fprobe import Fgraph, Fprobe
from ..trampolines.kprobe import Kretprobe

#: What memory is for: the probe's own structs, what a call takes, where that waits, a task's shadow stack, code made for the probe.
STRUCTS, NODES, RINGS, SHADOW, CODE = "structs", "nodes", "rings", "shadow stacks", "code"
PARTS = (STRUCTS, NODES, RINGS, SHADOW, CODE)
#: End of a struct's name -> what the struct is for; the others are the probe's own.
_BY_END = {pool_layout.NODES: NODES, pool_layout.RING: RINGS}
#: The struct with the references to a BPF trampoline while it calls the function, by its name in Registered.structs.
_IMAGE = "bpf_tramp_image"


@dataclass(frozen=True)
class Counted:
    """What a probe and its task have counted.

    seen: calls that were seen returning.
    missed: missed calls in the probe's own counter.
    overrun: calls for which a task had no room for a frame on its shadow stack; an fprobe does not learn of them.
    """

    seen: int
    missed: int
    overrun: int

    def __sub__(self, before: Counted) -> Counted:
        return Counted(self.seen - before.seen, self.missed - before.missed, self.overrun - before.overrun)

    @property
    def lost(self) -> int:
        """Calls that were not seen returning and that something counted."""
        return self.missed + self.overrun


def _field(kernel: Kernel, at: int, struct: str, name: str) -> int:
    field = kernel.image.struct(struct).fields[name]
    return int.from_bytes(kernel.machine.read(at + field.offset, field.size), "little")


def _hits(kernel: Kernel, ops: Registered) -> int:
    return kernel.machine.read_u64(kernel.slowpath.memory.hits(ops.index))


def _kretprobe(kernel: Kernel, ops: Registered) -> tuple[int, int]:
    each = (at for at, name in ops.structs.items() if name.endswith("]"))
    return _hits(kernel, ops), sum(_field(kernel, at, "kretprobe", "nmissed") for at in each)


def _fprobe(kernel: Kernel, ops: Registered) -> tuple[int, int]:
    return _hits(kernel, ops), _field(kernel, ops.address, "fprobe", "nmissed")


def _fgraph(kernel: Kernel, ops: Registered) -> tuple[int, int]:
    return _hits(kernel, ops) // 2, 0  # it counts entries too


def _fexit(kernel: Kernel, ops: Registered) -> tuple[int, int]:
    programs = (at for at, name in ops.structs.items() if name.startswith("bpf_prog["))
    missed = sum(_field(kernel, at, "bpf_prog", "misses") for at in programs)
    return kernel.machine.read_u64(kernel.image.address("lab_bpf_hits")), missed


#: Type of request -> function that reads (returns seen, calls missed) of an ops that was registered for one.
_COUNTERS: Mapping[type[Request], Callable[[Kernel, Registered], tuple[int, int]]] = {
    Kretprobe: _kretprobe,
    Fprobe: _fprobe,
    Fgraph: _fgraph,
    Bpf: _fexit,
}


def require_counter(request: Request) -> None:
    """Raise TramplabError for a request that sees no return, that counts entries with the returns, or that is several."""
    if type(request) not in _COUNTERS:
        kinds = ", ".join(kind.__name__ for kind in _COUNTERS)
        raise TramplabError(f"{type(request).__name__} sees no function return; what is counted here: {kinds}.")
    sees = getattr(request, "exit", True) and getattr(request, "fexit", 1) == 1
    if not sees or getattr(request, "entry", False) or getattr(request, "fentry", 0) or getattr(request, "fmod_ret", 0):
        raise TramplabError("returns alone are counted: give the probe one handler there and none at the entry.")
    if getattr(request, "several", 1) != 1 or getattr(request, "observe", False):
        raise TramplabError("one probe is counted, by a handler that counts: leave several= and observe= out, or use beside=.")


def counted(kernel: Kernel, ops: Registered, tasks: Iterable[int]) -> Counted:
    """What a probe and its tasks have counted since boot: of BPF all programs together, of the graph tracer only while none of its
    calls is on its way. tasks: the addresses of all tasks."""
    seen, missed = _COUNTERS[type(ops.request)](kernel, ops)
    graph = "trace_overrun" in kernel.image.struct("task_struct").fields
    return Counted(seen, missed, sum(_field(kernel, task, "task_struct", "trace_overrun") for task in tasks) if graph else 0)


def counted_missed(kernel: Kernel, ops: Registered) -> int:
    """The missed calls in a probe's own counters: for lack of room, and of a kretprobe also those that its kprobe missed."""
    missed = _COUNTERS[type(ops.request)](kernel, ops)[1]
    if isinstance(ops.request, Kretprobe):
        missed += sum(_field(kernel, at, "kprobe", "nmissed") for at, name in ops.structs.items() if name.endswith("]"))
    return missed


def _shadowed(ops: Registered) -> bool:
    """Does it keep what it needs on the function graph tracer's stack?"""
    return isinstance(ops.request, Fgraph) or ops.shares is not None


def shadow_words(kernel: Kernel, task: int) -> int:
    """Words of a task's shadow stack that are taken; 0 where there is none."""
    indexed = "curr_ret_stack" in kernel.image.struct("task_struct").fields
    return _field(kernel, task, "task_struct", "curr_ret_stack") if indexed else 0


def references(kernel: Kernel, registered: Iterable[Registered]) -> int:
    """References to the images of BPF trampolines, by calls that are in them, of the first CPU; an image is freed when there is
    none."""
    images = (at for ops in registered for at, name in ops.structs.items() if name.startswith(_IMAGE))
    counters = [_field(kernel, at, _IMAGE, "pcref") for at in images]
    return sum(int.from_bytes(kernel.machine.read(kernel.cpus[0].pcpu + counter, 4), "little") for counter in counters)


def _to_pages(nodes: list[int], rings: list[int], cpus: int) -> int:
    """Bytes by which rings and their nodes are less than the whole pages that hold them: a CPU's ring and the nodes that begin in
    it are one block. A probe's pools follow each other; behind the rings of one comes the table of them."""
    number = len(rings) // (cpus + 1)
    blocks = []
    for n in range(number):
        slots, each = rings[n * (cpus + 1) :][:cpus], nodes[n * len(nodes) // number : (n + 1) * len(nodes) // number]
        blocks += [ring + sum(each[cpu::cpus]) for cpu, ring in enumerate(slots)]
    return sum(-block % PAGE for block in blocks)


def held(kernel: Kernel, ops: Registered, tasks: int) -> dict[str, int]:
    """Bytes by part (PARTS) that a probe holds while nobody calls. tasks: how many there are, each of which has a shadow stack
    where the probe needs one. Without what finds the probe: hashes and tables. Rings have what their pages leave."""
    sizes: dict[str, list[int]] = {part: [] for part in PARTS}
    for at, name in ops.structs.items():
        sizes[_BY_END.get(name.rpartition(" ")[2], STRUCTS)].append(kernel.heap.taken(at))
    if kernel.features["objpool_pages"]:
        sizes[RINGS].append(_to_pages(sizes[NODES], sizes[RINGS], len(kernel.cpus)))
    found = {part: sum(taken) for part, taken in sizes.items()}
    shared = [other for other in kernel.slowpath.everyone if ops.shares is not None and type(other.request) is type(ops.shares)]
    found[CODE] = sum(made.size for one in (ops, *shared) for made in one.generated)
    if _shadowed(ops):
        found[SHADOW] = tasks * kernel.image.struct("task_struct").fields["shadow_stack"].size
    return found
