"""The node that a call takes while its return is hooked: from a list of free nodes up to v6.6, and since then from a ring for each
CPU (lib/objpool.c)."""

from __future__ import annotations

from dataclasses import dataclass

from ..run.machine import RealMachine
from . import inplace
from .inplace import put

NOTES = "a pool of return hooks has nodes for one CPU"


@dataclass(frozen=True)
class Nodes:
    """The nodes of one owner.

    struct: the type of a node.
    head: struct embedded at offset 0.
    member: field of `head` that points to the owner.
    release: the kernel's function that frees them.
    owner: its address.
    count: the number of nodes.
    """

    struct: str
    head: str
    member: str
    owner: int
    count: int
    release: str

    def put(self, machine: RealMachine, at: int) -> None:
        """Write a node that is not taken."""
        put(machine, self.head, at, {self.member: self.owner})


def rings(machine: RealMachine) -> bool:
    """Does the kernel keep such nodes in rings?"""
    return machine.opened.types.has("objpool_head")


def listed(machine: RealMachine, head: int, nodes: Nodes) -> None:
    """Put nodes on a list, as rethook_add_node() does; each that is on it has one reference."""
    size, first = machine.opened.struct(nodes.struct).size, 0
    for _ in range(nodes.count):
        at = machine.block(bytes(size))
        nodes.put(machine, at)
        put(machine, "freelist_node", inplace.member(machine, nodes.head, at, "freelist"), {"refs": 1, "next": first})
        first = at
    put(machine, "freelist_head", head, {"head": first})


def ring(machine: RealMachine, head: int, nodes: Nodes) -> None:
    """Put nodes into the ring of the only CPU, as objpool_init() makes it: behind its head, with the nodes behind the ring."""
    entries = machine.opened.struct("objpool_slot").fields["entries"].offset
    size = machine.opened.struct(nodes.struct).size + 7 & ~7
    count, capacity = nodes.count, 1 << (nodes.count - 1).bit_length()
    slot = machine.block(bytes(entries + 8 * capacity + size * count))
    put(machine, "objpool_slot", slot, {"head": 0, "tail": count, "last": count, "mask": capacity - 1})
    for n in range(count):
        at = slot + entries + 8 * capacity + size * n
        machine.write_u64(slot + entries + 8 * n, at)
        nodes.put(machine, at)
    members = {"obj_size": size, "nr_objs": count, "nr_possible_cpus": 1, "nr_cpus": 1, "capacity": capacity, "ref": count + 1}
    release = machine.address(nodes.release) if machine.opened.has(nodes.release) else 0
    put(machine, "objpool_head", head, {**members, "cpu_slots": machine.words(slot), "release": release, "context": nodes.owner})
