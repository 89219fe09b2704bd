"""kprobes and kretprobes that ftrace serves, as on x86-64 where one is put on a patch site; elsewhere they are exceptions."""

from __future__ import annotations

from ...ftrace.layout import bucket
from ...lab.view import Function
from ...trampolines.kprobe import Kprobe, Kretprobe
from ..run import layout
from ..run.machine import RealMachine
from . import inplace, kretprobes, pools, programs
from .callbacks import serve
from .handlers import ENTRY, Given, handler
from .hook import Absent, Expected, Hook, Observed, require
from .inplace import put, variable

#: KPROBE_FLAG_FTRACE and KPROBE_FLAG_ON_FUNC_ENTRY (include/linux/kprobes.h), KPROBE_HASH_BITS (kernel/kprobes.c).
_FTRACE, _ON_ENTRY, _TABLE_BITS = 8, 16, 6
#: The instruction by which a kprobe stops a CPU, where it does.
_BREAKPOINT = {"x86_64": "INT3", "arm64": "BRK", "riscv64": "EBREAK"}


def _require(machine: RealMachine) -> None:
    if not machine.opened.has("kprobe_ftrace_handler"):
        raise Absent(
            f"a kprobe is a breakpoint exception ({_BREAKPOINT[machine.isa.name]}) in {machine.opened.version}, which has no "
            f"kprobe_ftrace_handler(): no trampoline serves it"
        )
    if not machine.opened.types.has("pt_regs", "sp") or not machine.opened.types.has("pt_regs", "ax"):
        raise Absent(f"kprobes by ftrace are known of x86-64 alone here, and {machine.opened.version} is for {machine.isa.name}")


def _arm(machine: RealMachine, function: Function, probe: int, pre: int) -> None:
    """The state that register_kprobe() leaves for a probe on a patch site: its place in the table of kprobes, and the kernel's own
    ops for them, which wants the site."""
    ip = function.site.ip
    inplace.empty_list(machine, "kprobe", probe, "list")
    put(machine, "kprobe", probe, {"addr": ip, "pre_handler": pre, "flags": _FTRACE | _ON_ENTRY})
    head = variable(machine, "kprobe_table") + 8 * bucket(ip, _TABLE_BITS)
    inplace.only_node(machine, head, inplace.member(machine, "kprobe", probe, "hlist"))
    ops = variable(machine, "kprobe_ftrace_ops")
    flags = inplace.start(machine, ops, [ip])
    inplace.note(machine, {"kprobe_ftrace_enabled": (4, 1)})
    layout.link(machine, [ops])
    serve(machine, function, [ops], flags)


def _kprobe(machine: RealMachine, function: Function) -> Expected:
    _require(machine)
    opened = machine.opened
    addr, sp = opened.struct("kprobe").fields["addr"].offset, opened.struct("pt_regs").fields["sp"].offset
    pre, block = handler(machine, ENTRY, Given(0, (addr,)), Given(1, (sp, 0)), 0)
    _arm(machine, function, machine.block(bytes(opened.struct("kprobe").size)), pre)
    return Expected((Observed(block, 1, function.site.ip, machine.machine.return_to, "the kprobe's handler"),))


def _kretprobe(machine: RealMachine, function: Function) -> Expected:
    _require(machine)
    probe, expected = kretprobes.make(machine)
    _arm(machine, function, probe, machine.address(kretprobes.PRE))
    return expected


def _kprobe_event(machine: RealMachine, function: Function) -> Expected:
    _require(machine)
    require(machine, programs.DISPATCHERS[False])
    prog, seen = programs.program(machine, False, function.site.ip + 1)  # as an INT3 would leave it
    _arm(machine, function, programs.event(machine, prog), machine.address(programs.DISPATCHERS[False]))
    return Expected((seen,))


def _kretprobe_event(machine: RealMachine, function: Function) -> Expected:
    _require(machine)
    probe, expected = kretprobes.event(machine)
    _arm(machine, function, probe, machine.address(kretprobes.PRE))
    return expected


HOOKS = (
    Hook("kprobe", "a kprobe on the patch site, with a bare handler", _kprobe, lambda: [Kprobe()]),
    Hook("kprobe-bpf", "a kprobe on the patch site, with a BPF program", _kprobe_event, lambda: [Kprobe(bpf=True)], programs.NOTES),
    Hook("kretprobe", "a kretprobe with a bare handler: the function's return", _kretprobe, lambda: [Kretprobe()], pools.NOTES),
    Hook(
        "kretprobe-bpf",
        "a kretprobe with a BPF program: the function's return",
        _kretprobe_event,
        lambda: [Kretprobe(bpf=True)],
        f"{pools.NOTES}; {programs.NOTES}",
    ),
)
