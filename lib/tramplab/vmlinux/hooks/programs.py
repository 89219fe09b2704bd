"""BPF programs of a kprobe's kind, which are given a pt_regs: on a perf event of a kprobe, and on a link of kprobe_multi."""

from __future__ import annotations

from ..run import layout
from ..run.machine import RealMachine
from . import inplace
from .handlers import Given, handler
from .hook import FIRST, Observed

#: BPF_PROG_TYPE_KPROBE (include/uapi/linux/bpf.h).
_TYPE = 2
#: TP_FLAG_PROFILE (kernel/trace/trace_probe.h): perf has opened the event.
_PROFILE = 2
#: Where a struct pt_regs has the instruction pointer, the first argument, and what a function returns.
_IP = {"x86_64": "ip", "arm64": "pc", "riscv64": "epc"}
_ARGUMENT = {"x86_64": "di", "arm64": "regs", "riscv64": "a0"}
VALUE = {"x86_64": "ax", "arm64": "regs", "riscv64": "a0"}
#: The program's name in results; no kernel has a symbol of this name.
NAME = "bpf_prog"
#: perf's dispatchers: of a kprobe, and of a kretprobe at the return.
DISPATCHERS = {False: "kprobe_dispatcher", True: "kretprobe_dispatcher"}
NOTES = "perf has opened the event on no CPU: the program's zero says that nothing is to be recorded"


def program(machine: RealMachine, returned: bool, ip: int) -> tuple[int, Observed]:
    """A struct bpf_prog, and what its program must see: this ip, and the first argument, or at the return the function's value."""
    isa, regs = machine.isa.name, machine.opened.struct("pt_regs").fields
    second = (VALUE if returned else _ARGUMENT)[isa]
    code, block = handler(machine, NAME, Given(0, (regs[_IP[isa]].offset,)), Given(0, (regs[second].offset,)), 0)
    prog = machine.block(layout.fields(machine, "bpf_prog", {"type": _TYPE, "bpf_func": code, "jited_len": 1}))
    return prog, Observed(block, 1, ip, None if returned else FIRST, "the program", value=returned)


def event(machine: RealMachine, prog: int) -> int:
    """A struct trace_kprobe of an event that perf has opened, with a program on it, whose kprobe is not yet on any function: the
    address of its struct kretprobe, which begins with the kprobe."""
    array, item = machine.opened.struct("bpf_prog_array"), machine.opened.struct("bpf_prog_array_item")
    items = machine.block(bytes(array.size + 2 * item.size))  # the one behind the last is empty
    inplace.put(machine, "bpf_prog_array_item", inplace.member(machine, "bpf_prog_array", items, "items"), {"prog": prog})
    parent = machine.block(layout.fields(machine, "trace_probe_event", {"flags": _PROFILE}))
    call = inplace.member(machine, "trace_probe_event", parent, "call")
    inplace.put(machine, "trace_event_call", call, {"prog_array": items})
    trace_kprobe = machine.block(layout.fields(machine, "trace_kprobe", {"nhit": machine.cpu.pointer(machine.block(bytes(8)))}))
    inplace.put(machine, "trace_probe", inplace.member(machine, "trace_kprobe", trace_kprobe, "tp"), {"event": parent})
    return inplace.member(machine, "trace_kprobe", trace_kprobe, "rp")
