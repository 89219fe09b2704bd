"""Direct calls: from the site itself, too far for that, and of a function that an ops wants, too."""

from __future__ import annotations

from ...ftrace.ops import FL_DIRECT, FL_DYNAMIC, FL_SAVE_REGS
from ...lab.view import Function
from ..run import layout, stubs
from ..run.machine import RealMachine
from .callbacks import callback, seen, serve
from .hook import FIRST, Absent, Expected, Hook, Observed, require


def register(machine: RealMachine, function: Function, target: int) -> int:
    """Register a direct call: an ops of its own, and an entry in the table of direct calls where the release has one; gives the
    ops."""
    require(machine, "call_direct_funcs")
    regs = FL_SAVE_REGS if machine.opened.has("ftrace_regs_caller") else 0
    ops = layout.ops(
        machine,
        machine.address("call_direct_funcs"),
        FL_DIRECT | FL_DYNAMIC | regs,
        [function.site.ip],
        0,
        direct_call=target,
        trampoline=machine.address("ftrace_regs_caller" if regs else "ftrace_caller"),
    )
    if machine.opened.has("direct_functions"):
        table = layout.hash_of(machine, {function.site.ip: target})
        machine.write_u64(machine.data("direct_functions"), table)
    return ops


def alone(machine: RealMachine, function: Function, ops: int, target: int) -> None:
    """Make the site serve a direct call that nobody shares the function with: by itself, or through the callsite's ops."""
    if machine.call_ops:
        assert function.site.literal is not None
        machine.write_u64(function.site.literal, ops)
    if machine.reaches(function.site, target):
        machine.call_from_site(function.site, target)
    elif machine.call_ops:
        machine.call_from_site(function.site, machine.address("ftrace_caller"))
    else:
        raise Absent(f"a patch site of {machine.opened.version} reaches all code there can be")


def stub(machine: RealMachine, where: str) -> tuple[int, Observed]:
    """A direct call's target, and what it must see: the traced function's first argument."""
    block = machine.block(bytes(stubs.BLOCK))
    target = machine.code(lambda _: stubs.direct(machine.isa, block), "direct_target", where)
    return target, Observed(block, 1, FIRST, None, "the direct call's target")


def _near(machine: RealMachine, function: Function) -> Expected:
    target, observed = stub(machine, "own")
    ops = register(machine, function, target)
    if not machine.reaches(function.site, target):
        raise Absent("a patch site reaches nothing but what lies beside ftrace_caller")
    layout.link(machine, [ops])
    alone(machine, function, ops, target)
    return Expected((observed,))


def _far(machine: RealMachine, function: Function) -> Expected:
    target, observed = stub(machine, "far")
    ops = register(machine, function, target)
    if machine.reaches(function.site, target):
        raise Absent("a patch site reaches all code that a kernel can have")
    layout.link(machine, [ops])
    alone(machine, function, ops, target)
    return Expected((observed,))


def _shared(machine: RealMachine, function: Function) -> Expected:
    target, observed = stub(machine, "own")
    block, watched = seen(machine, function)
    direct = register(machine, function, target)
    other = layout.ops(machine, callback(machine), FL_DYNAMIC, [function.site.ip], block)
    layout.link(machine, [other, direct])
    regs = FL_SAVE_REGS if machine.opened.has("ftrace_regs_caller") else 0
    serve(machine, function, [other, direct], FL_DYNAMIC | regs)
    return Expected((observed, watched))


HOOKS = (
    Hook("direct", _near),
    Hook("direct-far", _far),
    Hook("direct+ops", _shared),
)
