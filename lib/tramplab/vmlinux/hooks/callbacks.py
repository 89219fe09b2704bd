"""Callbacks: one, several, beside others, with all registers, through the assist function."""

from __future__ import annotations

from collections.abc import Callable

from ...ftrace.ops import FL_DYNAMIC, FL_RCU, FL_RECURSION, FL_SAVE_REGS, Registered, Request
from ...lab.hooks import parted
from ...lab.view import Function
from ...trampolines.plain import Ops, copied
from ..run import layout, stubs
from ..run.machine import RealMachine
from . import inplace
from .hook import Absent, Expected, Hook, Observed, require

#: An address that no traced function has: what ops on other functions want.
_ELSEWHERE = 0x1000


def callback(machine: RealMachine) -> int:
    """Our callback; it takes its block from the ops' `private`."""
    private = machine.opened.struct("ftrace_ops").fields["private"].offset
    return machine.code(lambda _: stubs.callback(machine.isa, private), "callback", "own")


def seen(machine: RealMachine, function: Function, hits: int = 1) -> tuple[int, Observed]:
    """A block for a callback, and what it must hold after a call: the ip of the site, and the caller's return address."""
    block = machine.block(bytes(stubs.BLOCK))
    return block, Observed(block, hits, function.site.ip, machine.machine.return_to, "the callback")


def serve(machine: RealMachine, function: Function, wanting: list[int], flags: int) -> None:
    """Make the site call what serves these ops, of the list, which all want the function: one alone, or several."""
    regs = bool(flags & FL_SAVE_REGS)
    common = "ftrace_regs_caller" if regs else "ftrace_caller"
    require(machine, common)
    if machine.call_ops:
        alone = len(wanting) == 1 and not flags & FL_RECURSION
        literal = wanting[0] if alone else machine.data("ftrace_list_ops")
        assert function.site.literal is not None
        machine.write_u64(function.site.literal, literal)
        target = machine.address(common)
    elif machine.opened.has(f"{common}_op_ptr") and len(wanting) == 1:  # each ops has a trampoline for itself, x86-64's way
        target = _copy(machine, wanting[0], flags)
    else:
        given, func = machine.list_end, machine.address("ftrace_ops_list_func")
        if len(wanting) == 1 and not flags & (FL_DYNAMIC | FL_RECURSION | FL_RCU):  # the kernel's own ops, alone on the list
            given, func = wanting[0], inplace.get(machine, "ftrace_ops", wanting[0], "func")
        machine.write_u64(machine.data("function_trace_op"), given)
        for label in ("ftrace_call", "ftrace_regs_call"):
            if machine.opened.has(label):
                machine.repoint(label, func)
        target = machine.address(common)
    machine.call_from_site(function.site, target)


def _copy(machine: RealMachine, ops: int, flags: int) -> int:
    """The trampoline that an ops of x86-64 has for itself."""
    made = Registered(None, inplace.get(machine, "ftrace_ops", ops, "func"), flags, (), address=ops)
    steps = copied.create(machine.booted.image, machine.near, made, machine.leave)
    machine.apply(steps)
    machine.made += made.generated
    known = inplace.get(machine, "ftrace_ops", ops, "flags") | layout.FL_ALLOC_TRAMP
    kept = {"trampoline": made.trampoline, "trampoline_size": made.trampoline_size, "flags": known}
    inplace.put(machine, "ftrace_ops", ops, kept)
    return made.trampoline


def _ops(name: str, flags: int = FL_DYNAMIC, elsewhere: int = 0, asked: Callable[[], list[Request]] | None = None) -> Hook:
    """As many ops with these flags as the name says, and others elsewhere. FTRACE_OPS_FL_DYNAMIC stands for where an ops lies: a
    kernel looks at its address when it is registered (kernel/trace/ftrace.c, __register_ftrace_function), and never when it is
    called, so all lie in one place here."""

    def attach(machine: RealMachine, function: Function) -> Expected:
        if flags & FL_SAVE_REGS:
            require(machine, "ftrace_regs_caller")
        func = callback(machine)
        blocks = [seen(machine, function) for _ in range(parted(name)[1])]
        wanting = [layout.ops(machine, func, flags, [function.site.ip], block) for block, _ in blocks]
        others = [layout.ops(machine, func, flags, [_ELSEWHERE], machine.block(bytes(stubs.BLOCK))) for _ in range(elsewhere)]
        layout.link(machine, [*others, *wanting])
        serve(machine, function, wanting, flags)
        return Expected(tuple(observed for _, observed in blocks))

    return Hook(name, attach, asked=asked)


def _none(machine: RealMachine, function: Function) -> Expected:
    return Expected()


HOOKS = (
    Hook("none", _none),
    _ops("ops"),
    _ops("ops-static", 0),
    _ops("ops-regs", FL_DYNAMIC | FL_SAVE_REGS),
    _ops("ops-assist", FL_DYNAMIC | FL_RECURSION, asked=lambda: [Ops(recursion=True)]),
    *map(_ops, ("ops:2", "ops:10", "ops:64")),
    _ops("ops+10-elsewhere", elsewhere=10, asked=lambda: [*(Ops(filter=("no_args",)) for _ in range(10)), Ops()]),
)

__all__ = ["HOOKS", "Absent", "callback", "seen", "serve"]
