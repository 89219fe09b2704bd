"""What the studies of contention have in common: names of the pools, how long a hooked call is without its pool, and limits."""

from __future__ import annotations

import functools

from tramplab.contention import POOLS, contend
from tramplab.contention.pools import FUNCTION, KERNELS
from tramplab.emulate.machine import COUNT
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.fprobe import Fprobe

from ....publish.phrases import marked

#: Pool -> its name in tables; return hooks of no kernel are on a stack of the task's own.
NAMES = {name: marked(name, name == "shadow") for name in POOLS}
LIMITS = (
    "Emulated instructions, interleaved one by one: algorithmic contention, no timing. A shared access takes as long as any other "
    "instruction, so what a cache line's way between CPUs costs is not in it. On arm64 LDXR/STXR, not LSE."
)


@functools.cache
def elsewhere(isa: str) -> int:
    """Instructions of a call with a hooked return, less those of taking a node and giving it back on the only CPU: the function,
    trampolines, fprobe and rethook. The compiler has the latter inline in a whole call, so a few of a function's frame are off."""
    release, overrides = KERNELS[isa]
    kernel = Kernel(isa, release, meter=COUNT, rethook="freelist", **overrides)
    with kernel.attached(kernel.function(FUNCTION), Fprobe(entry=False, exit=True)):
        whole = kernel.call(FUNCTION, 1, 2).counts.total.instructions
    return whole - round(contend(isa, "freelist", 1, operations=2).pair)
