"""fprobes: a handler at a function's entry, or one at its return, in each of the three ways in which kernels have made them.

Up to v6.13 an fprobe is an ftrace_ops with a return hook of its own (see rethooks); then all of them share one graph tracer; and
since v6.19 those without an exit handler share one ftrace_ops instead. The last two find an fprobe in a table by the function's
address.
"""

from __future__ import annotations

from dataclasses import replace

from ...ftrace.layout import bucket
from ...ftrace.ops import FL_DYNAMIC, FL_SAVE_REGS
from ...lab.view import Function
from ...trampolines.fprobe import Fprobe
from ..run import layout
from ..run.machine import RealMachine
from . import graph, inplace, programs, rethooks
from .callbacks import serve
from .handlers import ENTRY, RETURN, Given, handler
from .hook import Absent, Expected, Hook, Observed, require
from .inplace import member, put, variable

#: Bits of the tables of fprobes: by the fprobe's address, and by the function's where that is a plain table, up to v6.18
#: (FPROBE_TABLE_BITS and FPROBE_IP_HASH_BITS, kernel/trace/fprobe.c).
_TABLE_BITS, _IP_BITS = 6, 8
#: The handlers of the fprobe of a kprobe_multi link.
_LINKED = {"entry_handler": "kprobe_multi_link_handler", "exit_handler": "kprobe_multi_link_exit_handler"}
#: Bytes of a call that a session keeps for its program.
_COOKIE = 8
#: A growing table: its first number of buckets (HASH_DEFAULT_SIZE), the fewest (HASH_MIN_SIZE), and the most elements
#: (lib/rhashtable.c).
_BUCKETS, _FEWEST, _MOST = 64, 4, 1 << 31


def _handlers(machine: RealMachine, function: Function, wanted: str) -> tuple[dict[str, int], Expected]:
    """One handler, by the member that leads to it. It keeps the site's address and the caller's, which it is given since v6.5."""
    name = ENTRY if wanted == "entry_handler" else RETURN
    code, block = handler(machine, name, Given(1), Given(2), 0)
    has_ip = machine.opened.types.has("fprobe", "hlist_array") or machine.opened.types.has("fprobe_rethook_node", "entry_parent_ip")
    caller = machine.machine.return_to if has_ip else None
    seen = Observed(block, 1, function.site.ip, caller, f"the {wanted.replace('_', ' ')}")
    return {wanted: code}, Expected((seen,))


def _attach(machine: RealMachine, function: Function, wanted: str) -> Expected:
    _require(machine)
    code, expected = _handlers(machine, function, wanted)
    _register(machine, function, machine.block(bytes(machine.opened.struct("fprobe").size)), code)
    return expected


def _link(machine: RealMachine, function: Function, *wanted: str) -> Expected:
    """A link of kprobe_multi as bpf_kprobe_multi_link_attach() makes it for one function of the kernel's own, without a cookie;
    with both handlers it is a session, whose program sees the return last."""
    _require(machine)
    session = machine.opened.types.enumerator("BPF_TRACE_KPROBE_SESSION") if len(wanted) > 1 else 0
    if session is None:
        raise Absent(f"a link of kprobe_multi has one end in {machine.opened.version}, which has no sessions")
    handlers = {name: _LINKED[name] for name in wanted}
    require(machine, *handlers.values())
    returned = "exit_handler" in wanted
    prog, seen = programs.program(machine, returned, machine.machine.return_to if returned else function.site.body)
    addrs = machine.words(function.address)
    link = machine.block(layout.fields(machine, "bpf_kprobe_multi_link", {"addrs": addrs, "cnt": 1}))
    put(machine, "bpf_link", member(machine, "bpf_kprobe_multi_link", link, "link"), {"prog": prog})
    fprobe = member(machine, "bpf_kprobe_multi_link", link, "fp")
    if session:
        put(machine, "bpf_prog", prog, {"expected_attach_type": session})
        put(machine, "fprobe", fprobe, {"entry_data_size": _COOKIE})
    _register(machine, function, fprobe, {name: machine.address(handler) for name, handler in handlers.items()})
    return Expected((replace(seen, hits=len(wanted)),))


def _require(machine: RealMachine) -> None:
    if not machine.opened.has("register_fprobe"):
        raise Absent(f"{machine.opened.version} has no fprobes (CONFIG_FPROBE=n)")


def _register(machine: RealMachine, function: Function, probe: int, code: dict[str, int]) -> None:
    """The state that register_fprobe() leaves for a struct fprobe that is zero, with this handler."""
    put(machine, "fprobe", probe, code)
    if machine.opened.types.has("fprobe", "ops"):
        _with_ops(machine, function, probe, code)
    else:
        _in_tables(machine, function, probe)
        alone = "exit_handler" not in code and machine.opened.has("fprobe_ftrace_ops")
        (_by_ops if alone else _by_graph)(machine, function)


def _with_ops(machine: RealMachine, function: Function, probe: int, code: dict[str, int]) -> None:
    """An ops, and a return hook for as many calls as one CPU can have under way."""
    require(machine, "fprobe_handler", "fprobe_exit_handler")
    ops = layout.ops(machine, machine.address("fprobe_handler"), FL_SAVE_REGS | FL_DYNAMIC, [function.site.ip], 0)
    at = member(machine, "fprobe", probe, "ops")
    machine.write(at, machine.machine.read(ops, machine.opened.struct("ftrace_ops").size))
    if "exit_handler" in code:
        hook = rethooks.make(machine, probe, machine.address("fprobe_exit_handler"), "fprobe_rethook_node", 2)
        put(machine, "fprobe", probe, {"rethook": hook})
    layout.link(machine, [at])
    serve(machine, function, [at], FL_SAVE_REGS | FL_DYNAMIC)


def _in_tables(machine: RealMachine, function: Function, probe: int) -> None:
    """An fprobe of one function, in the table of fprobes and in that of functions."""
    one, each = machine.opened.struct("fprobe_hlist"), machine.opened.struct("fprobe_hlist_node")
    listed = machine.block(layout.fields(machine, "fprobe_hlist", {"fp": probe, "size": 1}) + bytes(each.size))
    node = listed + one.fields["array"].offset
    put(machine, "fprobe", probe, {"hlist_array": listed})
    put(machine, "fprobe_hlist_node", node, {"addr": function.site.ip, "fp": probe})
    head = variable(machine, "fprobe_table") + 8 * bucket(probe, _TABLE_BITS)
    inplace.only_node(machine, head, member(machine, "fprobe_hlist", listed, "hlist"))
    table, entry = variable(machine, "fprobe_ip_table"), member(machine, "fprobe_hlist_node", node, "hlist")
    if machine.opened.has("fprobe_rht_params"):
        _growing(machine, table, entry, function.site.ip)
    else:
        inplace.only_node(machine, table + 8 * bucket(function.site.ip, _IP_BITS), entry)


def _growing(machine: RealMachine, table: int, entry: int, ip: int) -> None:
    """A rhltable as rhltable_init() makes it with the kernel's own parameters, with one entry in it, a struct rhlist_head."""
    parameters = machine.opened.struct("rhashtable_params")
    given = machine.address("fprobe_rht_params")
    machine.write(member(machine, "rhashtable", table, "p"), machine.machine.read(given, parameters.size))
    fewest = max(inplace.get(machine, "rhashtable_params", given, "min_size"), _FEWEST)
    put(machine, "rhashtable_params", member(machine, "rhashtable", table, "p"), {"min_size": fewest})
    first = machine.opened.struct("bucket_table").fields["buckets"].offset
    buckets = machine.block(layout.fields(machine, "bucket_table", {"size": _BUCKETS}) + bytes(8 * _BUCKETS))
    inplace.empty_list(machine, "bucket_table", buckets, "walkers")
    length = inplace.get(machine, "rhashtable_params", given, "key_len")
    put(machine, "rhashtable", table, {"tbl": buckets, "key_len": length, "max_elems": _MOST, "rhlist": 1, "nelems": 1})
    place = buckets + first + 8 * (bucket(ip, 32) & _BUCKETS - 1)
    machine.write_u64(place, entry)
    machine.write_u64(entry, place | 1)  # the end of a chain says which one it is


def _by_ops(machine: RealMachine, function: Function) -> None:
    """Through the ops that all fprobes without an exit handler share."""
    ops = machine.address("fprobe_ftrace_ops")
    flags = inplace.start(machine, ops, [function.site.ip])
    inplace.note(machine, {"nr_ftrace_fprobes": (4, 1), "fprobe_ftrace_registered": (1, 1)})
    layout.link(machine, [ops])
    serve(machine, function, [ops], flags)


def _by_graph(machine: RealMachine, function: Function) -> None:
    """Through the graph tracer that the others share."""
    inplace.note(machine, {"nr_fgraph_fprobes": (4, 1), "fprobe_graph_registered": (1, 1)})
    graph.register(machine, function, variable(machine, "fprobe_graph_ops"))


_ENTRY = f"where a graph tracer serves it (v6.14 to v6.18): {graph.NOTES}"
_EXIT = f"where a graph tracer serves it (from v6.14 on): {graph.NOTES}; before that: {rethooks.NOTES}"
HOOKS = (
    Hook(
        "fprobe",
        "an fprobe with a bare handler: the function's entry",
        lambda m, f: _attach(m, f, "entry_handler"),
        lambda: [Fprobe()],
        notes=_ENTRY,
    ),
    Hook(
        "fprobe-exit",
        "an fprobe with a bare handler: the function's return",
        lambda m, f: _attach(m, f, "exit_handler"),
        lambda: [Fprobe(entry=False, exit=True)],
        notes=_EXIT,
    ),
    Hook(
        "kprobe-multi",
        "BPF's kprobe_multi link, an fprobe with a BPF program: the function's entry",
        lambda m, f: _link(m, f, "entry_handler"),
        lambda: [Fprobe(multi=True)],
        notes=_ENTRY,
    ),
    Hook(
        "kretprobe-multi",
        "BPF's kprobe_multi link, an fprobe with a BPF program: the function's return",
        lambda m, f: _link(m, f, "exit_handler"),
        lambda: [Fprobe(entry=False, exit=True, multi=True)],
        notes=_EXIT,
    ),
    Hook(
        "kprobe-session",
        "BPF's kprobe_multi link with a BPF program at the function's entry and at its return",
        lambda m, f: _link(m, f, *_LINKED),
        lambda: [Fprobe(exit=True, multi=True)],
        notes=_EXIT,
    ),
)
