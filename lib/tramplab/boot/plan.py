"""From probes to the steps of the booted process, for one image."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ..base.errors import TramplabError
from ..lab.view import Function
from ..vmlinux.open.debuginfo.btf import Btf
from ..vmlinux.open.image import Opened
from ..vmlinux.run.machine import RealMachine
from .probes import COMMAND, ELSEWHERE, NUMBER_ELSEWHERE, OPTIMISE, TRACING, Part, Probe

#: A leaf that getpid() calls once, and a hook that prctl() calls once, of the sort that fmod_ret may be on.
LEAF = "__task_pid_nr_ns"
FUNCTIONS = {"getpid": LEAF, "prctl": "security_task_prctl"}
#: ISA -> what its system calls' bodies begin with; then the number of each call, and its argument.
PREFIX = {"x86_64": "__x64_sys_", "arm64": "__arm64_sys_", "riscv64": "__riscv_sys_"}
_CALLS = {
    "getpid": (39, 172, 0),
    "prctl": (157, 167, 3),  # PR_GET_DUMPABLE
    "getpgid": (121, 155, 0),
    "getsid": (124, 156, 0),
    "getpriority": (140, 141, 0),
}
#: Calls of a block, how many pairs of blocks, and calls between two readings of the counters.
CALLS, BLOCKS, READ = 100, 31, 10
#: The file of our module, in the initramfs.
MODULE = "tramplab.ko"
_SETTLED, _LEFT = 5000, 100  # milliseconds after which a booted kernel is quiet, and after which it has let go of a probe
_PRINTED = "write /proc/sys/kernel/printk"
SETTINGS = (
    "write /proc/sys/kernel/kptr_restrict 0",
    "write /proc/sys/net/core/bpf_jit_enable 1",
    "write /proc/sys/net/core/bpf_jit_kallsyms 1",
)


def absent(machine: RealMachine, probe: Probe) -> str:
    """Why a probe cannot be set in an image; "" where it can. Raises TramplabError where none can be."""
    if _traced(machine, LEAF) is None:
        raise TramplabError(
            f"{machine.opened.payload.path} has no patch site in {LEAF}(), which getpid() calls and where probes are set: boot a "
            f"kernel that has one."
        )
    if _traced(machine, FUNCTIONS[probe.on]) is None:
        return f"{FUNCTIONS[probe.on]}() cannot be traced in this kernel"
    wanted = sum("{elsewhere" in step for part in probe.parts for step in part.on)
    there = len(_elsewhere(machine)) if wanted else 0
    return f"it wants {wanted} other system calls to trace, and this kernel has {there}" if wanted > there else ""


def plan(machine: RealMachine, probes: Sequence[Probe], more: Sequence[str] = ()) -> str:
    """The measurement of probes, none of which is absent. more: modules of others, which are loaded first."""
    lines = ["say loop", f"loop {10 * CALLS:x} {BLOCKS:x}"]
    calls = sorted({probe.on for probe in probes}, reverse=True) or ["getpid"]
    contexts = {call: places(machine, FUNCTIONS[call]) for call in calls}
    for when in ("before", "after"):
        for call in calls:
            lines += [system_call(machine, call), f"say {when} {call}", f"count {CALLS:x} {BLOCKS:x}"]
        if when == "before":
            for probe in probes:
                lines += _measured(machine, probe, contexts[probe.on])
    return rendered(machine, lines, more)


def rendered(machine: RealMachine, steps: Sequence[str], more: Sequence[str] = ()) -> str:
    """Steps behind those with which each boot begins; the system call is getpid(). What the kernel says of a module is printed."""
    modules = [f"module {name}" for name in (*more, MODULE)]
    first = [*SETTINGS, "say version", "read /proc/version", f"sleep {_SETTLED:x}", "say modules", f"{_PRINTED} 7"]
    return "\n".join([*first, *modules, f"{_PRINTED} 1", system_call(machine, "getpid"), "say measured", *steps]) + "\n"


def system_call(machine: RealMachine, name: str) -> str:
    """The step from which on this is the system call that is made."""
    x86, others, argument = _CALLS[name]
    return f"nr {x86 if machine.isa.name == 'x86_64' else others:x} {argument:x}"


def _measured(machine: RealMachine, probe: Probe, context: dict[str, str]) -> Iterator[str]:
    yield system_call(machine, probe.on)
    yield f"say probe {probe.name}"
    for part in probe.parts:
        yield from (step.format_map(context) for step in part.on)
    yield "say attached"
    for when in ("read", "called"):
        yield f"say {when}"
        yield from dict.fromkeys(_hits(part) for part in probe.parts)
        if when == "read":
            yield f"calls {READ:x}"
    yield f"count {CALLS:x} {BLOCKS:x}"
    yield "say removed"
    for part in reversed(probe.parts):
        yield from (step.format_map(context) for step in part.off)
    # to forbid optimised kprobes waits until the jumps of those that were removed are no longer in the text
    yield from (f"try write {OPTIMISE} 0", f"try write {OPTIMISE} 1", f"sleep {_LEFT:x}")
    yield "say again"
    yield f"count {CALLS:x} {BLOCKS:x}"


def _hits(part: Part) -> str:
    if part.hits == "module":
        return f"read {COMMAND}"
    return f"read {part.hits}/per_cpu/cpu0/stats" if part.hits.startswith(TRACING) else "hits"


def places(machine: RealMachine, function: str) -> dict[str, str]:
    """The values of {site}, {entry} and the like for a function, see probes. Raises TramplabError for one that cannot be traced."""
    opened, traced = machine.opened, _traced(machine, function)
    if traced is None:
        raise TramplabError(f"{opened.payload.path} has no patch site in {function}(), which is probed: boot another kernel.")
    out = {"name": function, "id": f"{number(opened, function):x}", "entry": f"{traced.address:x}", "site": f"{traced.site.ip:x}"}
    out["inside"] = f"{traced.site.body - traced.address:x}"
    return out | {f"elsewhere{i}": f"{other.site.ip:x}" for i, other in enumerate(_elsewhere(machine))}


def _elsewhere(machine: RealMachine) -> list[Function]:
    """The functions of system calls that no step makes, as far as the image has them, and no more than probes want."""
    bodies = (_traced(machine, PREFIX[machine.isa.name] + name) for name in ELSEWHERE)
    return list(itertools.islice(filter(None, bodies), NUMBER_ELSEWHERE))


def _traced(machine: RealMachine, function: str) -> Function | None:
    try:
        return machine.function(function)
    except TramplabError:
        return None


def number(opened: Opened, function: str) -> int:
    """The number of a function's type, by which a program is attached; 0, which is no function's, where the image has no BTF."""
    return opened.types.number(function) if isinstance(opened.types, Btf) else 0
