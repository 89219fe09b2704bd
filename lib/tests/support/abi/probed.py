"""Probes on one function whose calls come out as without them, and leave the task and its CPU as they were."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from support.abi.abi_places import Place
from support.abi.members import Struct, cpu, task
from tramplab import Fprobe, GuestFault, Kernel, StepLimit
from tramplab.ftrace.layout import fields
from tramplab.ftrace.ops import Registered, Request
from tramplab.lab import boot

#: What is called, and what it returns for 5 and 7.
CALLED, TWO = "two_args", 5 * 3 + 7 * 5
#: fprobe.flags: not to be called; with handlers that stand back for kprobes.
DISABLED, KPROBE_SHARED = 1, 2
#: Bits of the recursion guard: of the normal context, and the one that is given while contexts change.
GUARD = 0b11000
#: Members that a call leaves as they were, where there are any.
_TASK = (
    "trace_recursion preempt_count rcu_read_lock_nesting migration_disabled bpf_ctx curr_ret_stack curr_ret_depth rethooks "
    "rethook_top kretprobe_instances vector_flags"
)
_CPU = "preempt_count nr_pinned current_kprobe rcu_watching nmi_nesting bpf_prog_active kprobe_instance"


def place(isa: str, release: str, **overrides: object) -> Place:
    return Place(isa, release, tuple(overrides.items()))


@functools.lru_cache(maxsize=1)
def booted(where: Place) -> Kernel:
    """The kernel of a place, once for all checks that follow one another there."""
    return Kernel(where.isa, where.release, meter="count", **dict(where.overrides))


def fails(check: Callable[[Kernel], None], k: Kernel) -> bool:
    """Does a call come out otherwise than the check has it, or not come to its end?"""
    try:
        check(k)
    except (AssertionError, GuestFault, StepLimit):
        return True
    return False


def ends(call: Callable[[], object], there: str = "") -> bool:
    """Does a call end in a fault, and in this function?"""
    try:
        call()
    except GuestFault as e:
        return there in str(e)
    return False


def exits(n: int, data: int = 0) -> list[Fprobe]:
    """Fprobes with a handler at the return alone. data: bytes that each has for a call."""
    return [Fprobe(entry=False, exit=True, data=data) for _ in range(n)]


def new_task(k: Kernel) -> None:
    """One that is in no call, after one whose call did not come to its end."""
    boot.boot(k.machine, k.cpus[0])


def idle(k: Kernel) -> dict[str, int]:
    """What a call leaves as it was, of the task and of its CPU."""
    return {
        f"{struct}.{name}": of[name]
        for struct, of, names in (("task_struct", task(k), _TASK), ("lab_pcpu", cpu(k), _CPU))
        for name in names.split()
        if name in k.image.struct(struct).fields
    }


class Probes:
    """Probes on the function, in the order in which they were attached."""

    def __init__(self, k: Kernel, registered: tuple[Registered, ...]) -> None:
        self.k, self.registered, self.f = k, registered, k.function(CALLED)

    def struct(self, n: int) -> Struct:
        """The struct fprobe or kretprobe of the nth; of several at an address the first one's."""
        one = self.registered[n]
        at = next(at for at, name in one.structs.items() if name.endswith("]"))
        return Struct(self.k, type(one.request).__name__.lower(), at)

    def call(
        self, between: Callable[[], None] | None = None, after: Callable[[], None] | None = None, first: int = 5, warnings: int = 0
    ) -> list[int]:
        """Call the function with `first` and 7; how often handlers of each probe ran. between: done when its body begins.
        after: done when it has returned, before task and CPU are compared. warnings: that the kernel gives."""
        warned = self.k.image.address("lab_warnings")
        before, kept, so_far = self.hits(), idle(self.k), self.k.machine.read_u64(warned)
        with ExitStack() as stack:
            if between is not None:
                stack.enter_context(self.k.machine.watching(self.f.site.body, between))
            assert self.k.call(self.f, first, 7, budget=200_000).value == TWO + 3 * (first - 5)
        if after is not None:
            after()
        assert idle(self.k) == kept and self.k.machine.read_u64(warned) == so_far + warnings
        return [now - then for now, then in zip(self.hits(), before, strict=True)]

    def missed(self) -> list[int]:
        """Calls that each has missed."""
        return [self.struct(n)["nmissed"] for n in range(len(self.registered))]

    def hits(self) -> list[int]:
        return [self.k.machine.read_u64(self.k.slowpath.memory.hits(one.index)) for one in self.registered]


@contextmanager
def probing(k: Kernel, *requests: Request, **told: int) -> Iterator[Probes]:
    """For a `with`: these are on the function. told: what handlers that watch do, as members of the guest's struct lab_watching."""
    tell(k, **told)
    with k.attached(k.function(CALLED), *requests) as registered:
        yield Probes(k, registered)


def tell(k: Kernel, **told: int) -> None:
    """What handlers that watch do from now on."""
    k.machine.write(k.image.address("lab_watching"), fields(k.image, "lab_watching", told))


def watched(k: Kernel, rows: int) -> list[Struct]:
    """The last rows that handlers wrote which watch."""
    count, size = k.machine.read_u64(k.image.address("lab_watched_count")), k.image.struct("lab_watched").size
    most = k.image.symbol("lab_watched").size // size
    at = k.image.address("lab_watched")
    return [Struct(k, "lab_watched", at + n % most * size) for n in range(count - rows, count)]
