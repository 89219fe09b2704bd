"""fprobes: a handler at a function's entry, or one at its return, in each of the three ways in which kernels have made them.

Up to v6.13 an fprobe is an ftrace_ops with a return hook of its own (see rethooks); then all of them share one graph tracer; and
since v6.19 those without an exit handler share one ftrace_ops instead. The last two find an fprobe in a table by the function's
address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...ftrace.layout import bucket
from ...ftrace.ops import FL_DYNAMIC, FL_SAVE_REGS
from ...lab.view import Function
from ..run import layout
from ..run.machine import RealMachine
from . import graph, inplace, programs, rethooks
from .callbacks import serve
from .handlers import ENTRY, RETURN, Given, handler
from .hook import Absent, Expected, Hook, Observed, each, require
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


#: A struct fprobe that is zero but for its handlers, by the members that lead to them, and what a call must show of it.
_Made = tuple[int, dict[str, int], Observed]


def _bare(machine: RealMachine, function: Function, wanted: str) -> _Made:
    """A struct fprobe with one handler, which keeps the addresses of the site and, given since v6.5, of the caller."""
    name = ENTRY if wanted == "entry_handler" else RETURN
    code, block = handler(machine, name, Given(1), Given(2), 0)
    has_ip = machine.opened.types.has("fprobe", "hlist_array") or machine.opened.types.has("fprobe_rethook_node", "entry_parent_ip")
    caller = machine.machine.return_to if has_ip else None
    seen = Observed(block, 1, function.site.ip, caller, f"the {wanted.replace('_', ' ')}")
    return machine.block(bytes(machine.opened.struct("fprobe").size)), {wanted: code}, seen


def _link(machine: RealMachine, function: Function, *wanted: str) -> _Made:
    """The struct fprobe of a link of kprobe_multi as bpf_kprobe_multi_link_attach() makes it for one function of the kernel's own,
    without a cookie; with both handlers it is a session, whose program sees the return last."""
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
    return fprobe, {name: machine.address(handler) for name, handler in handlers.items()}, replace(seen, hits=len(wanted))


def _register(machine: RealMachine, function: Function, make: Callable[[], _Made], count: int) -> Expected:
    """The state that register_fprobe() leaves for so many of them, whose handlers are of one kind."""
    if not machine.opened.has("register_fprobe"):
        raise Absent(f"{machine.opened.version} has no fprobes (CONFIG_FPROBE=n)")
    made = [make() for _ in range(count)]
    probes = [probe for probe, _, _ in made]
    for probe, code, _ in made:
        put(machine, "fprobe", probe, code)
    leaves = "exit_handler" in made[0][1]
    if machine.opened.types.has("fprobe", "ops"):
        wanting = [_with_ops(machine, function, probe, leaves) for probe in probes]
        layout.link(machine, wanting)
        serve(machine, function, wanting, FL_SAVE_REGS | FL_DYNAMIC)
    else:
        _in_tables(machine, function, probes)
        (_by_graph if leaves or not machine.opened.has("fprobe_ftrace_ops") else _by_ops)(machine, function, count)
    return Expected(tuple(seen for _, _, seen in made))


def _with_ops(machine: RealMachine, function: Function, probe: int, leaves: bool) -> int:
    """An ops, whose address is given, and a return hook for as many calls as one CPU can have under way."""
    require(machine, "fprobe_handler", "fprobe_exit_handler")
    ops = layout.ops(machine, machine.address("fprobe_handler"), FL_SAVE_REGS | FL_DYNAMIC, [function.site.ip], 0)
    at = member(machine, "fprobe", probe, "ops")
    machine.write(at, machine.machine.read(ops, machine.opened.struct("ftrace_ops").size))
    if leaves:
        hook = rethooks.make(machine, probe, machine.address("fprobe_exit_handler"), "fprobe_rethook_node", 2)
        put(machine, "fprobe", probe, {"rethook": hook})
    return at


def _in_tables(machine: RealMachine, function: Function, probes: list[int]) -> None:
    """Put fprobes of one function into the table of fprobes and that of functions."""
    ip, table = function.site.ip, variable(machine, "fprobe_ip_table")
    entries = [_listed(machine, ip, probe) for probe in probes]
    if machine.opened.has("fprobe_rht_params"):
        _growing(machine, table, entries, ip)
    else:
        for entry in entries:
            inplace.add_node(machine, table + 8 * bucket(ip, _IP_BITS), entry)


def _listed(machine: RealMachine, ip: int, probe: int) -> int:
    """Put an fprobe into the table of fprobes; gives its entry for the table of functions."""
    one, inside = machine.opened.struct("fprobe_hlist"), machine.opened.struct("fprobe_hlist_node")
    listed = machine.block(layout.fields(machine, "fprobe_hlist", {"fp": probe, "size": 1}) + bytes(inside.size))
    node = listed + one.fields["array"].offset
    put(machine, "fprobe", probe, {"hlist_array": listed})
    put(machine, "fprobe_hlist_node", node, {"addr": ip, "fp": probe})
    head = variable(machine, "fprobe_table") + 8 * bucket(probe, _TABLE_BITS)
    inplace.add_node(machine, head, member(machine, "fprobe_hlist", listed, "hlist"))
    return member(machine, "fprobe_hlist_node", node, "hlist")


def _growing(machine: RealMachine, table: int, entries: list[int], ip: int) -> None:
    """Fill a rhltable as rhltable_init() does with the kernel's own parameters. Its entries, each a struct rhlist_head, have one
    key: the newest is in the bucket's chain, and the others behind it on a list of their own."""
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
    for older, entry in zip([0, *entries], entries, strict=False):
        put(machine, "rhlist_head", entry, {"rhead": place | 1, "next": older})  # the end of a chain says which one it is
    machine.write_u64(place, entries[-1])


def _by_ops(machine: RealMachine, function: Function, count: int) -> None:
    """Register them through the ops that all fprobes without an exit handler share."""
    ops = machine.address("fprobe_ftrace_ops")
    flags = inplace.start(machine, ops, [function.site.ip])
    inplace.note(machine, {"nr_ftrace_fprobes": (4, count), "fprobe_ftrace_registered": (1, 1)})
    layout.link(machine, [ops])
    serve(machine, function, [ops], flags)


def _by_graph(machine: RealMachine, function: Function, count: int) -> None:
    """Register them through the graph tracer that the others share."""
    inplace.note(machine, {"nr_fgraph_fprobes": (4, count), "fprobe_graph_registered": (1, 1)})
    graph.register(machine, function, variable(machine, "fprobe_graph_ops"))


_ENTRY = f"where a graph tracer serves it (v6.14 to v6.18): {graph.NOTES}"
_EXIT = f"where a graph tracer serves it (from v6.14 on): {graph.NOTES}; before that: {rethooks.NOTES}"


def _hooks(name: str, notes: str, make: Callable[[RealMachine, Function], _Made]) -> Iterator[Hook]:
    """Those with so many of one kind."""
    return each(name, lambda m, f, n: _register(m, f, lambda: make(m, f), n), notes)


HOOKS = (
    *_hooks("fprobe", _ENTRY, lambda m, f: _bare(m, f, "entry_handler")),
    *_hooks("fprobe-exit", _EXIT, lambda m, f: _bare(m, f, "exit_handler")),
    *_hooks("kprobe-multi", _ENTRY, lambda m, f: _link(m, f, "entry_handler")),
    *_hooks("kretprobe-multi", _EXIT, lambda m, f: _link(m, f, "exit_handler")),
    Hook("kprobe-session", lambda m, f: _register(m, f, lambda: _link(m, f, *_LINKED), 1), _EXIT),
)
