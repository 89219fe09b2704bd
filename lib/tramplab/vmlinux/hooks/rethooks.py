"""Return hooks of fprobes (up to v6.13) and kretprobes: a struct rethook with a pool of nodes, of which each call takes one."""

from __future__ import annotations

from ..run import layout
from ..run.machine import RealMachine
from . import inplace, pools

NOTES = pools.NOTES


def make(machine: RealMachine, data: int, handler: int, node: str, count: int) -> int:
    """A struct rethook for so many calls at a time, with nodes of this struct: data and handler as for rethook_alloc(). Gives its
    address."""
    rethook = machine.block(layout.fields(machine, "rethook", {"data": data, "handler": handler}))
    pool = inplace.member(machine, "rethook", rethook, "pool")
    nodes = pools.Nodes(node, "rethook_node", "rethook", rethook, count, "rethook_fini_pool")
    if pools.rings(machine):
        pools.ring(machine, pool, nodes)
    else:
        pools.listed(machine, pool, nodes)
        inplace.put(machine, "rethook", rethook, {"ref": count + 1})  # each node has one, and so has the list
    return rethook
