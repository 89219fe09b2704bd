"""Return hooks of fprobes (up to v6.13) and kretprobes: a struct rethook with a pool of nodes, of which each call takes one.

The pool is a list of free nodes up to v6.6, and since then a ring of them for each CPU (lib/objpool.c).
"""

from __future__ import annotations

from .. import layout
from ..machine import RealMachine
from . import inplace
from .inplace import put

NOTES = "a pool of return hooks has nodes for one CPU"


def make(machine: RealMachine, data: int, handler: int, node: str, count: int) -> int:
    """A struct rethook for so many calls at a time, with nodes of this struct: data and handler as for rethook_alloc(). Gives its
    address."""
    rethook = machine.block(layout.fields(machine, "rethook", {"data": data, "handler": handler}))
    pool = inplace.member(machine, "rethook", rethook, "pool")
    (_ring if machine.opened.types.has("objpool_head") else _list)(machine, rethook, pool, node, count)
    return rethook


def _list(machine: RealMachine, rethook: int, pool: int, node: str, count: int) -> None:
    """Nodes on a list, as rethook_add_node() puts them there; each that is on it has one reference, and so has the list."""
    size, first = machine.opened.struct(node).size, 0
    for _ in range(count):
        at = machine.block(bytes(size))
        put(machine, "rethook_node", at, {"rethook": rethook})
        put(machine, "freelist_node", inplace.member(machine, "rethook_node", at, "freelist"), {"refs": 1, "next": first})
        first = at
    put(machine, "freelist_head", pool, {"head": first})
    put(machine, "rethook", rethook, {"ref": count + 1})


def _ring(machine: RealMachine, rethook: int, pool: int, node: str, count: int) -> None:
    """Nodes in a ring of the only CPU, as objpool_init() makes it: behind its head, and the nodes behind the ring."""
    entries, size = machine.opened.struct("objpool_slot").fields["entries"].offset, machine.opened.struct(node).size + 7 & ~7
    capacity = 1 << (count - 1).bit_length()
    slot = machine.block(bytes(entries + 8 * capacity + size * count))
    put(machine, "objpool_slot", slot, {"head": 0, "tail": count, "last": count, "mask": capacity - 1})
    for n in range(count):
        at = slot + entries + 8 * capacity + size * n
        machine.write_u64(slot + entries + 8 * n, at)
        put(machine, "rethook_node", at, {"rethook": rethook})
    known = {"obj_size": size, "nr_objs": count, "nr_possible_cpus": 1, "nr_cpus": 1, "capacity": capacity, "ref": count + 1}
    release = machine.address("rethook_fini_pool") if machine.opened.has("rethook_fini_pool") else 0
    put(machine, "objpool_head", pool, {**known, "cpu_slots": machine.words(slot), "release": release, "context": rethook})
