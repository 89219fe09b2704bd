"""The facts about a kernel beside its results: where it came from, how it was built, what was patched and what is not real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...emulate.decode import Instruction
from ...ftrace import releases
from ...isa.riscv64 import NOP4
from ...isa.x86_64 import ENDBR64
from ..open.image import Opened
from ..run import state
from ..run.machine import RealMachine


def _symbol(name: str) -> Callable[[RealMachine], bool]:
    return lambda machine: machine.opened.has(name)


#: Configuration options of a build -> how the image shows them; and a member that is of the patches for
#: PREEMPT_RT.
_CONFIG: dict[str, Callable[[RealMachine], bool]] = {
    "DYNAMIC_FTRACE_WITH_REGS": _symbol("ftrace_regs_caller"),
    "DYNAMIC_FTRACE_WITH_DIRECT_CALLS": _symbol("call_direct_funcs"),
    "DYNAMIC_FTRACE_WITH_CALL_OPS": lambda machine: machine.call_ops,
    "FUNCTION_GRAPH_TRACER": _symbol("return_to_handler"),
    "FPROBE": _symbol("register_fprobe"),
    "KPROBES_ON_FTRACE": _symbol("kprobe_ftrace_handler"),
    "RETHOOK": _symbol("rethook_hook"),
    "PREEMPTION": _symbol("preempt_schedule_notrace"),
    "PREEMPT_RCU": lambda machine: machine.opened.types.has("task_struct", "rcu_read_lock_nesting"),
    "PREEMPT_RT": _symbol("rt_spin_lock"),
    "PREEMPT_LAZY_COUNT": lambda machine: machine.opened.types.has("thread_info", "preempt_lazy_count"),
    "UBSAN_BOUNDS": _symbol("__ubsan_handle_out_of_bounds"),
    "KALLSYMS_ALL": _symbol("ftrace_ops_list"),
}
#: ISA -> options that only its kernels have. x86-64's has frame pointers where it unwinds by them; a single function may have one
#: in any kernel.
_OF_ISA: dict[str, dict[str, Callable[[RealMachine], bool]]] = {
    "x86_64": {
        "FRAME_POINTER": lambda machine: machine.opened.types.has("unwind_state", "orig_sp"),
        "X86_KERNEL_IBT": _symbol("ibt_save"),
        "FTRACE_CALLER_ENDBR": lambda machine: machine.machine.read(machine.address("ftrace_caller"), 4) == ENDBR64,
        "CALL_DEPTH_TRACKING": _symbol("callthunks_translate_call_dest"),
    },
    "arm64": {"ARM64_BTI_KERNEL": lambda machine: _prologue(machine)[0].text == "bti c"},
    "riscv64": {"RISCV_ISA_C": lambda machine: any(i.size < len(NOP4) for i in _prologue(machine))},
}
#: Options that no distribution has on, which are told of where they are on.
_SELDOM: dict[str, Callable[[RealMachine], bool]] = {
    "DEBUG_LOCK_ALLOC": _symbol("lock_acquire"),
    "DEBUG_PREEMPT": _symbol("preempt_count_add"),
    "KASAN": _symbol("kasan_check_range"),
    "KCSAN": _symbol("__tsan_func_entry"),
    "KCOV": _symbol("__sanitizer_cov_trace_pc"),
    "STACKPROTECTOR=n": lambda machine: not machine.opened.has("__stack_chk_fail"),
}
_PROLOGUE = 12  # instructions


def of(machine: RealMachine) -> dict[str, Any]:
    """The facts as plain data: version, release, isa, the file's container and checksum, the addresses it is linked at, its
    configuration, what boot patched, and what is faked."""
    opened = machine.opened
    return {
        "version": opened.version,
        "release": opened.release,
        "isa": opened.isa.name,
        "container": opened.payload.packed,
        "sha256": opened.payload.sha256,
        "symbols_from": opened.image.origin.symbols,
        "types_from": opened.image.origin.types,
        "found": [*opened.facts, *_unknown(opened)],
        "places": places(opened),
        "config": _config(machine),
        "site": machine.booted.shape,
        "booted": list(machine.booted.done),
        "mitigations": machine.mitigations,
        "faked": list(state.FAKED),
    }


def _config(machine: RealMachine) -> dict[str, bool]:
    known = {name: has(machine) for name, has in (*_CONFIG.items(), *_OF_ISA[machine.isa.name].items())}
    return known | {name: True for name, has in _SELDOM.items() if has(machine)}


def _prologue(machine: RealMachine) -> list[Instruction]:
    """The first instructions of a function that every kernel has, and that calls others."""
    at, found = machine.address("schedule"), []
    for _ in range(_PROLOGUE):
        found.append(machine.machine.instruction_at(at))
        at += found[-1].size
    return found


def _unknown(opened: Opened) -> list[str]:
    """The facts that are taken from another release than the kernel's, because they are not known of its own."""
    nearest = releases.nearest(opened.release)
    if nearest == opened.release:
        return []
    return [f"{opened.release} is not known: for which functions BPF makes trampolines is as in {nearest}, all else is the image's"]


def places(opened: Opened) -> dict[str, list[str]]:
    """The addresses of an image as linked, by name: start and end of the whole ("image", with data and what is cleared at boot;
    left out where no symbol says its end), of its text, and of ftrace_caller()."""
    addresses = {name: s.address for name, s in opened.image.symbols.items() if name in ("_start", "_text", "_end")}
    found = {"text": opened.text}
    caller = opened.image.symbols.get("ftrace_caller")
    if caller:
        found["ftrace_caller"] = (caller.address, caller.address + caller.size)
    if len(addresses) > 1 and "_end" in addresses:
        found["image"] = (addresses.get("_start", addresses.get("_text", 0)), addresses["_end"])
    return {name: [f"{address:#x}" for address in span] for name, span in found.items()}
