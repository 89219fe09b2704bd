"""Live patching: the kernel's own handler, klp_ftrace_handler(), sends a call on to another function.

The other function is own code that goes on in the body of the old one, so that a call must show all that it shows otherwise.
"""

from __future__ import annotations

from ...ftrace.ops import FL_DYNAMIC, FL_IPMODIFY, FL_SAVE_REGS
from ...lab.view import Function
from ...trampolines.plain import Ops
from ..run import layout, stubs
from ..run.machine import RealMachine
from .callbacks import serve
from .hook import FIRST, Expected, Hook, Observed, require
from .inplace import fill_list, member, put

HANDLER = "klp_ftrace_handler"


def patch(machine: RealMachine, new: int, **members: int) -> int:
    """A struct klp_ops with one struct klp_func on it, that leads to a function and has these members; gives its address."""
    made, func = (machine.block(bytes(machine.opened.struct(name).size)) for name in ("klp_ops", "klp_func"))
    fill_list(machine, member(machine, "klp_ops", made, "func_stack"), member(machine, "klp_func", func, "stack_node"))
    put(machine, "klp_func", func, {"new_func": new, **members})
    return made


def _attach(machine: RealMachine, function: Function) -> Expected:
    require(machine, HANDLER)
    block = machine.block(bytes(stubs.BLOCK))
    new = machine.code(lambda _: stubs.replacement(machine.isa, block, function.site.body), "new_function", "own")
    flags = FL_DYNAMIC | FL_IPMODIFY
    if machine.opened.has("ftrace_regs_caller") and not machine.opened.types.has("ftrace_regs"):
        flags |= FL_SAVE_REGS
    made = layout.ops(machine, machine.address(HANDLER), flags, [function.site.ip], 0)
    ops = member(machine, "klp_ops", patch(machine, new), "fops")
    machine.write(ops, machine.machine.read(made, machine.opened.struct("ftrace_ops").size))
    layout.link(machine, [ops])
    serve(machine, function, [ops], flags)
    return Expected((Observed(block, 1, FIRST, None, "the new function"),))


HOOKS = (
    # whose handler sends the call on to another function
    Hook("livepatch", _attach, asked=lambda: [Ops(callback="lab_livepatch", go_to="new_one_arg")]),
)
