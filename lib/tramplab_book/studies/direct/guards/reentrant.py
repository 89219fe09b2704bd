"""Hooks whose consumer calls the function it hooks, itself or by way of another traced one: what ran, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tramplab.base.errors import GuestFault, Recursion
from tramplab.emulate.counting.counters import INSTRUCTION
from tramplab.emulate.counting.trace import Recording
from tramplab.ftrace.ops import Request
from tramplab.lab.kernel import Kernel
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.plain import Ops
from tramplab.trampolines.reentry import HOOKED, THROUGH, ending

ARGUMENTS = (7, 9)
ITSELF, ANOTHER = "itself", "another"


@dataclass(frozen=True)
class Subject:
    """A hook whose consumer may call a traced function.

    make: the consumer's callee (see trampolines/reentry; "" for none) -> the request.
    consumer: the guest function that runs, without its ending.
    alone: the guest function that runs if it is to call nothing, where that has another name.
    needs: the feature of a release.
    hypothetical: no kernel has it.
    """

    make: Callable[[str], list[Request]]
    consumer: str
    needs: str = "ops"
    hypothetical: bool = False
    alone: str = ""


def _ops(callback: str = "lab_callback", recursion: bool = False) -> Callable[[str], list[Request]]:
    return lambda calls: [Ops(callback=callback + ending(calls), recursion=recursion)]


#: By the names that figures have for them. "two" has a second ops, whose callback does nothing.
SUBJECTS = {
    "ops": Subject(_ops(), "lab_callback"),
    "ops trylock": Subject(_ops("lab_callback_guarded"), "lab_callback_guarded"),
    "ops RECURSION": Subject(_ops(recursion=True), "lab_callback"),
    "two ops": Subject(lambda calls: [*_ops()(calls), Ops(callback="ftrace_stub")], "lab_callback"),
    "direct": Subject(lambda calls: [Direct(reenters=calls)], "lab_direct_callback", "direct"),
    "bare fentry": Subject(
        lambda calls: [Bpf(fentry=1, guarded=False, reenters=calls)], "lab_bpf_count", "direct", hypothetical=True
    ),
    "fentry": Subject(lambda calls: [Bpf(fentry=1, reenters=calls)], "lab_bpf_count", "bpf"),
    "fexit": Subject(lambda calls: [Bpf(fexit=1, reenters=calls)], "lab_bpf_count", "bpf"),
    "fmod_ret": Subject(lambda calls: [Bpf(fmod_ret=1, reenters=calls)], "lab_bpf_count", "bpf", alone="lab_bpf_modify"),
}


@dataclass(frozen=True)
class Played:
    """The result of one call.

    ran: how often the consumer ran.
    entered: how often HOOKED was called.
    counted: calls that programs were not run for, by their own count.
    other_ran, other_entered: how often the hook of THROUGH ran, which calls nothing, and how often THROUGH was called.
    way: what called the consumer.
    recursion: the calls that filled the stack; None if the call came back.
    right: did it come back with the right value?
    stack: its bytes in use at each call of HOOKED, in order.
    """

    ran: int
    entered: int
    counted: int
    other_ran: int
    other_entered: int
    way: str
    recursion: Recursion | None
    right: bool
    stack: tuple[int, ...]


def play(kernel: Kernel, name: str, calls: str) -> Played:
    """Attach a hook of SUBJECTS whose consumer calls the function itself, or ANOTHER, and call the function."""
    subject = SUBJECTS[name]
    function, through = kernel.function(HOOKED), kernel.function(THROUGH)
    wanted = kernel.call(function, *ARGUMENTS).value
    other = subject.make("") if calls == ANOTHER else ()
    value, recursion = None, None
    with kernel.attached(through, *other), kernel.attached(function, *subject.make(calls)):
        before = _misses(kernel)
        try:
            value = kernel.call(function, *ARGUMENTS).value
        except GuestFault as fault:
            if fault.recursion is None:
                raise
            recursion = fault.recursion
        counted = _misses(kernel) - before
        events = kernel.machine.events()
        call = Recording(events, np.unique(events["pc"][events["kind"] == INSTRUCTION]).tolist())
        names = kernel.names()
        entries = call.sp[call.pc == function.address]
        return Played(
            ran=_runs(kernel, call, subject.consumer + ending(calls)),
            entered=len(entries),
            counted=counted,
            other_ran=_runs(kernel, call, subject.alone or subject.consumer),
            other_entered=int((call.pc == through.address).sum()),
            way=_way({(names(pc) or "").split("+")[0] for pc in np.unique(call.pc).tolist()}),
            recursion=recursion,
            right=value == wanted,
            stack=tuple(kernel.machine.stack_top - int(sp) for sp in entries),
        )


def _runs(kernel: Kernel, call: Recording, consumer: str) -> int:
    """How often a consumer counted a call; one that its own guard turned away does not."""
    symbol, memory = kernel.image.symbol(consumer), kernel.slowpath.memory
    counters = [kernel.image.address(name) for name in ("lab_direct_hits", "lab_bpf_hits")]
    counters += [memory.hits(o.index) for o in kernel.slowpath.ops]
    at = call.pc[call.step]
    inside = (at >= symbol.address) & (at < symbol.address + symbol.size)
    return int((inside & call.is_store & np.isin(call.address, np.array(counters, np.uint64))).sum())


def _misses(kernel: Kernel) -> int:
    """Calls that the attached programs were not run for, by their own count."""
    at = kernel.image.struct("bpf_prog").fields["misses"].offset
    programs = [a for o in kernel.slowpath.ops for a, name in o.structs.items() if name.startswith("bpf_prog[")]
    return sum(kernel.machine.read_u64(a + at) for a in programs)


def _way(symbols: set[str]) -> str:
    """The code that called the consumer, told from the functions that ran."""
    for symbol, way in (("ftrace_ops_list_func", "list"), ("ftrace_ops_assist_func", "assist"), ("__bpf_prog_enter_recur", "BPF")):
        if symbol in symbols:
            return way
    return "straight"
