"""kprobes and kretprobes that ftrace serves, as on x86-64 where one is put on a patch site; elsewhere they are exceptions."""

from __future__ import annotations

from collections.abc import Mapping

from ...lab.view import Function
from ..run import layout
from ..run.machine import RealMachine
from . import inplace, kretprobes, pools, programs, registered
from .callbacks import serve
from .handlers import ENTRY, Given, handler
from .hook import Absent, Expected, Hook, Observed, each, require
from .inplace import variable

#: KPROBE_FLAG_FTRACE and KPROBE_FLAG_ON_FUNC_ENTRY (include/linux/kprobes.h).
_FTRACE, _ON_ENTRY = 8, 16
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


def _arm(machine: RealMachine, function: Function, probes: Mapping[int, int]) -> None:
    """The state that register_kprobe() leaves for probes on a patch site (see registered): beside them the kernel's own ops for
    them, which wants the site."""
    ip = function.site.ip
    registered.register(machine, ip, probes, {"flags": _FTRACE | _ON_ENTRY})
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
    _arm(machine, function, {machine.block(bytes(opened.struct("kprobe").size)): pre})
    return Expected((Observed(block, 1, function.site.ip, machine.machine.return_to, "the kprobe's handler"),))


def _kretprobe(machine: RealMachine, function: Function, count: int, make: kretprobes.Make) -> Expected:
    _require(machine)
    probes, expected = kretprobes.several(machine, make, count)
    _arm(machine, function, probes)
    return expected


def _kprobe_event(machine: RealMachine, function: Function) -> Expected:
    _require(machine)
    require(machine, programs.DISPATCHERS[False])
    prog, seen = programs.program(machine, False, function.site.ip + 1)  # as an INT3 would leave it
    _arm(machine, function, {programs.event(machine, prog): machine.address(programs.DISPATCHERS[False])})
    return Expected((seen,))


HOOKS = (
    Hook("kprobe", _kprobe),
    Hook("kprobe-bpf", _kprobe_event, programs.NOTES),
    *each("kretprobe", lambda m, f, n: _kretprobe(m, f, n, kretprobes.make), pools.NOTES),
    *each("kretprobe-bpf", lambda m, f, n: _kretprobe(m, f, n, kretprobes.event), f"{pools.NOTES}; {programs.NOTES}"),
)
