"""A return hook as it lies in memory: the struct rethook, and the nodes of its pool on their list or in the rings of the CPUs."""

from __future__ import annotations

from collections.abc import Callable

from ...emulate.image import Image
from ...ftrace.layout import fields
from ...ftrace.steps import Step, block, pointer
from ..ground import Ground

NODE = "fprobe_rethook_node"
#: Hands out so many bytes of the guest's memory for a purpose: "node".
Take = Callable[[int, str], int]
#: What the memory of a return hook is for: itself, what a call takes, and where that waits meanwhile.
HOOK, NODES, RING = "return hook", "node", "ring"


def rethook(ground: Ground, take: Take, probe: int, count: int, data: int) -> tuple[int, list[Step]]:
    """The address of an fprobe's return hook for so many calls at a time, each with so many bytes of data, and the
    steps that make it. Raises TramplabError where
    there is not enough memory."""
    image, how = ground.image, ground.features["rethook"]
    at, size = take(image.struct("rethook").size, HOOK), image.struct(NODE).size + data
    values = {"data": probe, "handler": image.address("fprobe_exit_handler"), "size": size}
    steps: list[Step] = []
    if how != "shadow":  # there the nodes are the task's
        nodes = [take(size, NODES) for _ in range(count)]
        make = {"freelist": _list, "objpool": _rings}[how]
        pool, steps = make(ground, take, at, nodes)
        values |= pool
    return at, [*steps, block(at, fields(image, "rethook", values), "the return hook")]


def _list(ground: Ground, take: Take, hook: int, nodes: list[int]) -> tuple[dict[str, int], list[Step]]:
    """Each with the one reference that the list has."""
    steps, first = [], 0
    for node in nodes:
        listed = _inner(ground.image, "freelist_node", {"refs": 1, "next": first})
        steps.append(_node(ground.image, node, {"freelist": listed, "rethook": hook}))
        first = node
    return {"list": first}, steps


def _rings(ground: Ground, take: Take, hook: int, nodes: list[int]) -> tuple[dict[str, int], list[Step]]:
    """By turns to the CPUs; each ring has room for all of them, because a node goes back to the CPU where its call returns."""
    image, cpus = ground.image, ground.cpus
    steps = [_node(image, node, {"rethook": hook}) for node in nodes]
    head, room = image.struct("objpool_slot").size, 1 << (len(nodes) - 1).bit_length()
    slots = []
    for cpu in range(cpus):
        own = nodes[cpu::cpus]
        ring = fields(image, "objpool_slot", {"head": 0, "tail": len(own), "last": len(own), "mask": room - 1})
        entries = b"".join(map(pointer, own)).ljust(8 * room, b"\0")
        slots.append(take(head + len(entries), RING))
        steps.append(block(slots[-1], ring + entries, f"the ring of CPU {cpu}"))
    table = take(8 * cpus, RING)
    values = {"nr_objs": len(nodes), "nr_possible_cpus": cpus, "cpu_slots": table}
    steps.append(block(table, b"".join(map(pointer, slots)), "where the rings are"))
    return {"ring": _inner(image, "objpool_head", values)}, steps


def _node(image: Image, at: int, values: dict[str, int]) -> Step:
    whole = fields(image, "rethook_node", values)
    return block(at, whole.ljust(image.struct(NODE).size, b"\0"), "a node of the return hook")


def _inner(image: Image, struct: str, values: dict[str, int]) -> int:
    """A struct inside another one, as the number that its bytes are."""
    return int.from_bytes(fields(image, struct, values), "little")
