"""The function graph tracer: a handler at a function's entry, and one when it returns, by way of the kernel's own return hook.

What register_ftrace_graph() leaves behind is laid out here. It knows one tracer at a time up to v6.10; since then several share one
ftrace_ops of the kernel's own, each as a subordinate ops of it, and up to 16 stand in an array.
"""

from __future__ import annotations

from ...ftrace.ops import FL_ENABLED
from ...lab.view import Function
from ...trampolines.fprobe import Fgraph
from ..booted import x86_64
from ..run import layout
from ..run.machine import RealMachine
from . import inplace
from .callbacks import serve
from .handlers import ENTRY, RETURN, Given, handler
from .hook import Absent, Expected, Hook, Observed, require
from .inplace import put, variable

#: Bytes of a task's shadow stack, since v6.11 (SHADOW_STACK_SIZE), before that its entries (FTRACE_RETFUNC_DEPTH), and places for
#: tracers (FGRAPH_ARRAY_SIZE), all in kernel/trace/fgraph.c and include/linux/ftrace.h.
_STACK, _DEPTH, _PLACES = 4096, 50, 16

#: Clocks: native_sched_clock(), jiffy_sched_clock_read() and its replacement after boot, arch_counter_get_cntvct() and
#: riscv_sched_clock(), which reads a register that the emulator does not have.
NOTES = (
    "no task but the current one has a shadow stack, and nobody watches tasks being switched; where the clock is read (up to "
    "v6.12), x86-64 reads its TSC, arm64 counts jiffies, in as many instructions and loads as its counter takes, and so does "
    "riscv64, in five instructions and one load more each time"
)


def several(machine: RealMachine) -> bool:
    """Can several graph tracers be registered at a time, each with an ops?"""
    return machine.opened.types.has("fgraph_ops", "ops")


def _require(machine: RealMachine) -> None:
    """Raise Absent where the graph tracer is not an ftrace_ops."""
    require(machine, "register_ftrace_graph")
    if not machine.opened.has("ftrace_graph_func"):
        version = machine.opened.version
        raise Absent(f"the graph tracer of {version} is a jump in ftrace_caller, without ftrace_graph_func(): not laid out here")


def register(machine: RealMachine, function: Function, tracer: int) -> None:
    """Register a struct fgraph_ops at an address, the only one there is, for a function; its site then calls the tracer."""
    _require(machine)
    ops = variable(machine, "graph_ops")
    none = machine.empty_hash()
    flags = inplace.start(machine, ops, [function.site.ip], none)
    if several(machine):
        _subordinate(machine, function, ops, tracer, none)
        _place(machine, tracer)
    else:
        _single(machine, tracer)
    _shadow_stack(machine)
    _clock(machine)
    inplace.note(machine, {"ftrace_graph_active": (4, 1)})
    layout.link(machine, [ops])
    serve(machine, function, [ops], flags)


def _single(machine: RealMachine, tracer: int) -> None:
    """Register the tracer up to v6.10: its handlers stand in variables, and without other ops no hash is tested for them."""
    entry, leave = (inplace.get(machine, "fgraph_ops", tracer, name) for name in ("entryfunc", "retfunc"))
    machine.write_u64(variable(machine, "ftrace_graph_entry"), entry)
    machine.write_u64(variable(machine, "ftrace_graph_return"), leave)
    inplace.note(machine, {"__ftrace_graph_entry": (8, entry)})


def _subordinate(machine: RealMachine, function: Function, ops: int, tracer: int, none: int) -> None:
    """Put the tracer's own ops, which is never called itself, on the list of graph_ops."""
    gops = inplace.member(machine, "fgraph_ops", tracer, "ops")
    inplace.start(machine, gops, [function.site.ip], none)
    flags = inplace.get(machine, "ftrace_ops", gops, "flags") | FL_ENABLED | layout.FL_SUBOP
    put(machine, "ftrace_ops", gops, {"flags": flags, "managed": ops})
    head, entry = (inplace.member(machine, "ftrace_ops", at, name) for at, name in ((ops, "subop_list"), (gops, "list")))
    inplace.fill_list(machine, head, entry)


def _place(machine: RealMachine, tracer: int) -> None:
    """Put the tracer into the first place of the array, and into the static call for a tracer that is alone, if there is one."""
    entry, leave = (inplace.get(machine, "fgraph_ops", tracer, name) for name in ("entryfunc", "retfunc"))
    put(machine, "fgraph_ops", tracer, {"idx": 0, "saved_func": entry})
    stub = variable(machine, "fgraph_stub")
    machine.write(variable(machine, "fgraph_array"), b"".join(a.to_bytes(8, "little") for a in (tracer, *[stub] * (_PLACES - 1))))
    machine.write_u64(variable(machine, "fgraph_array_bitmask"), 1)
    if machine.opened.has("fgraph_direct_gops"):
        machine.write_u64(machine.address("fgraph_direct_gops"), tracer)
    for name, func in (("fgraph_func", entry), ("fgraph_retfunc", leave)):
        _static_call(machine, name, func)
    run = {"ftrace_graph_entry": "entry_run", "ftrace_graph_return": "return_run"}
    inplace.note(machine, {name: (8, machine.address(of)) for name, of in run.items() if machine.opened.has(of)})
    inplace.note(machine, {"fgraph_initialized.0": (1, 1), "fgraph_lru_next": (4, 1), "fgraph_lru_table": (4, 0xFFFF_FFFF)})


def _static_call(machine: RealMachine, name: str, func: int) -> None:
    """Make a static call lead to a function: what its key holds, its trampoline, and each of its sites."""
    key, trampoline = f"__SCK__{name}", f"__SCT__{name}"
    inplace.note(machine, {key: (8, func)})
    if machine.opened.has(trampoline):
        read, wanted = machine.machine.read, machine.address(key)
        sites = [(site, tail) for site, of, tail in x86_64.static_calls(machine.opened, read) if of == wanted]
        for site, tail in ((machine.address(trampoline), True), *sites):
            machine.write(site, x86_64.static_call(machine.opened, read(site, 2), site, func, tail))


def _shadow_stack(machine: RealMachine) -> None:
    """Give the task a shadow stack, as start_graph_tracing() does."""
    size = _STACK if several(machine) else _DEPTH * machine.opened.struct("ftrace_ret_stack").size
    start = 0 if several(machine) else -1
    stack = {"ret_stack": machine.block(bytes(size)), "curr_ret_stack": start, "curr_ret_depth": -1}
    put(machine, "task_struct", machine.cpu.task, {**stack, "trace_overrun": 0, "ftrace_timestamp": 0})


def _clock(machine: RealMachine) -> None:
    """Up to v6.13 each entry and return is timed, on x86-64 by the TSC once boot has found that it can be used."""
    if machine.opened.has("__use_tsc"):
        put(machine, "static_key", machine.address("__use_tsc"), {"enabled": 1})
        for site, code in list(x86_64.flipped(machine.opened, machine.machine.read, "__use_tsc")):
            machine.write(site, code)


def handlers(machine: RealMachine, wanted: int) -> tuple[dict[str, int], dict[str, int]]:
    """The two handlers of a tracer, by the members of fgraph_ops that lead to them, and their blocks: of each the function and the
    depth. wanted: what the first one returns, 0 if it does not want to see the function return."""
    code, blocks = {}, {}
    kinds = (("entryfunc", "ftrace_graph_ent", ENTRY, wanted), ("retfunc", "ftrace_graph_ret", RETURN, None))
    for name, struct, symbol, answer in kinds:
        at = machine.opened.struct(struct).fields
        given = Given(0, (at["func"].offset,)), Given(0, (at["depth"].offset,), 4)
        code[name], blocks[name] = handler(machine, symbol, *given, answer)
    return code, blocks


def _attach(machine: RealMachine, function: Function, wanted: int) -> Expected:
    _require(machine)
    code, blocks = handlers(machine, wanted)
    register(machine, function, machine.block(layout.fields(machine, "fgraph_ops", code)))
    ip = function.site.ip
    entered = Observed(blocks["entryfunc"], 1, ip, 0, "the entry handler")
    left = Observed(blocks["retfunc"], wanted, ip if wanted else None, 0 if wanted else None, "the return handler")
    return Expected((entered, left))


HOOKS = (
    Hook("graph", lambda m, f: _attach(m, f, 1), NOTES),
    # one that does not want to see the return
    Hook("graph-entry", lambda m, f: _attach(m, f, 0), NOTES, lambda: [Fgraph(declines=True)]),
)
