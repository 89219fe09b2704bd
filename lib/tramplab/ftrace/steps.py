"""Changing live text and data, as explicit steps: what is written where, what is waited for, what is given back.

A plan is a list of steps in the order the kernel performs them. Nothing is hidden between two of them, so that they can be
applied one at a time, with calls of any CPU between, shown, reordered or dropped.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class Scope(Enum):
    """The CPUs or tasks for which a wait makes its promise."""

    THIS_CPU = "this CPU"
    EVERY_CPU = "every CPU"
    EVERY_TASK = "every task"
    STOPPED = "every CPU, and all others stand still until the next wait"


class Sync(Enum):
    """The ways to wait, by the kernel's names: the `scope` of the wait, and what it `promises` there.

    What a CPU may fetch in between is the ISA's matter: x86-64 `text_poke_sync` (since v6.16 smp_text_poke_sync_each_cpu) sends
    an interrupt that serialises; arm64's IC IVAU reaches the instruction caches of all CPUs, but its ISB only the pipeline
    of the one that runs it; riscv64's FENCE.I is for the hart that runs it, so flush_icache_all() and the end of
    stop_machine() make each hart run one.
    """

    def __init__(self, kernel: str, scope: Scope, promises: str) -> None:
        self.kernel, self.scope, self.promises = kernel, scope, promises

    RELEASE = "rcu_assign_pointer", Scope.THIS_CPU, "makes its stores so far visible before the pointer"
    WMB = "smp_wmb", Scope.THIS_CPU, "makes its stores so far visible before those that follow"
    DSB_ISHST = "dsb ishst", Scope.THIS_CPU, "makes its stores so far visible before those that follow"
    FENCE_WO = "fence w,o", Scope.THIS_CPU, "makes its stores so far visible before it asks other CPUs for anything"
    RCU_TASKS = "synchronize_rcu_tasks", Scope.EVERY_TASK, "has left every trampoline, preempted or not"
    RCU_TASKS_RUDE = "synchronize_rcu_tasks_rude", Scope.EVERY_CPU, "has switched tasks once"
    PERCPU_REF = "percpu_ref_kill", Scope.EVERY_TASK, "has given back the reference that it took"
    RCU = "synchronize_rcu", Scope.EVERY_CPU, "has left every section without preemption, and every reader"
    CALL_RCU_TASKS = "call_rcu_tasks", Scope.EVERY_TASK, "has left every trampoline; the caller does not wait for it"
    CALL_RCU = "call_rcu", Scope.EVERY_CPU, "has ended the reads it had begun; the caller does not wait for it"
    FTRACE_IPI = "ftrace_sync_ipi", Scope.EVERY_CPU, "reads memory as it was written before"
    TEXT_POKE = "text_poke_sync", Scope.EVERY_CPU, "executes text as it was written before"
    KICK = "kick_all_cpus_sync", Scope.EVERY_CPU, "has taken an interrupt"
    IC_IVAU = "ic ivau; isb", Scope.THIS_CPU, "executes text as it was written before"
    STOP_MACHINE = "stop_machine", Scope.STOPPED, "executes nothing but the stopper"
    FENCE_I = "fence.i", Scope.EVERY_CPU, "goes on, and executes text as it was written before"
    FLUSH_ICACHE = "flush_icache_all", Scope.EVERY_CPU, "executes text as it was written before"


#: Waits that wait for nobody, and only order this CPU's stores.
FENCES = frozenset({Sync.RELEASE, Sync.WMB, Sync.DSB_ISHST, Sync.FENCE_WO})


@dataclass(frozen=True)
class Write:
    """Store `data` at `address`; `text` says whether it is code. `why` is for the reader.

    granule: bytes that are stored at once; a fetch or a load by another CPU meets each of them either old or new.
    """

    address: int
    data: bytes
    text: bool
    why: str
    granule: int

    @property
    def atomic(self) -> bool:
        """Does a CPU that reads or executes these bytes meanwhile see all of them old, or all of them new?"""
        return len(self.pieces) == 1

    @property
    def pieces(self) -> list[tuple[int, bytes]]:
        """(address, data) of each single store, in order.

        >>> [len(data) for _, data in Write(0x1004, bytes(5), True, "five bytes", POINTER).pieces]
        [4, 1]
        """
        first, end = self.granule - self.address % self.granule, len(self.data)
        cuts = [0, *range(first, end, self.granule), end]
        return [(self.address + at, self.data[at:to]) for at, to in itertools.pairwise(cuts)]

    def __str__(self) -> str:
        return f"write {len(self.data):>3} B at {self.address & 0xFFFFFFFF:08x}    {self.why}"


@dataclass(frozen=True)
class Wait:
    """Wait for other CPUs or tasks."""

    sync: Sync
    why: str

    def __str__(self) -> str:
        return f"{f'wait: {self.sync.kernel}':<26} {self.why}"


class Owner(Protocol):
    """An allocator that gets back what it gave: memory, a place in a pool, a counter."""

    def give(self, what: int) -> None:
        """Take back what was handed out; it may be handed out again from now on."""
        ...


@dataclass(frozen=True)
class Free:
    """Return what nobody uses any more to its allocator, which hands it out to nobody until then."""

    owner: Owner = field(compare=False, repr=False)
    what: int
    why: str

    def __str__(self) -> str:
        return f"{'free':<26} {self.why}"


Step = Write | Wait | Free

#: Bytes of a store that memory takes as one, where it is aligned: a byte, an instruction word, a pointer.
BYTE, INSTRUCTION, POINTER = 1, 4, 8


def pointer(value: int) -> bytes:
    """A 64-bit pointer as it lies in memory."""
    return (value & (1 << 64) - 1).to_bytes(8, "little")


def text(address: int, data: bytes, why: str, granule: int = BYTE) -> Write:
    """Store code. The granule is a byte unless an ISA's module says otherwise: of code that nobody can reach yet."""
    return Write(address, data, True, why, granule)


def block(address: int, data: bytes, why: str) -> Write:
    """Store data that nobody can reach yet."""
    return Write(address, data, False, why, BYTE)


def word(address: int, value: int, why: str) -> Write:
    """Store one pointer-sized data word."""
    return Write(address, pointer(value), False, why, POINTER)
