"""The objects that calls take while their return is hooked: the struct rethook of a return hook, and nodes or a kretprobe's own
instances, on their list or in the rings of the CPUs."""

from __future__ import annotations

from collections.abc import Callable

from ..base.errors import TramplabError
from ..emulate.image import Image
from ..ftrace.arch.common import rethook_pool
from ..ftrace.layout import fields
from ..ftrace.steps import Step, block, pointer
from .guest import Guest

#: Hands out so many bytes of the guest's memory for a purpose: "node".
Take = Callable[[int, str], int]
#: The parts of a return hook's memory: itself, the node of a call, and the ring of free nodes.
HOOK, NODES, RING = "return hook", "node", "ring"
#: The guest's structs that a call takes.
FPROBE_NODE, INSTANCE = "fprobe_rethook_node", "kretprobe_instance"
#: OBJPOOL_OBJECT_SIZE_MAX (include/linux/objpool.h): objpool_init() says -EINVAL above it.
MOST_OBJECT = 1 << 16


def rethook(guest: Guest, take: Take, node: str, handler: str, data: int, count: int, room: int = 0) -> tuple[int, list[Step]]:
    """The address of a return hook for `count` calls at a time, and the steps that make it.

    node: the guest's struct that begins with a rethook_node.
    handler: the guest function for the return, which is given `data`.
    room: bytes of each node's own data.

    Raises TramplabError where there is not enough memory.
    """
    image, how = guest.image, rethook_pool(guest.features)
    at, size = take(image.struct("rethook").size, HOOK), image.struct(node).size + room
    values = {"data": data, "handler": image.address(handler), "size": size}
    steps: list[Step] = []
    if how != "shadow":  # there the nodes are the task's
        places = [take(size, NODES) for _ in range(count)]
        content = fields(image, "rethook_node", {"rethook": at})
        member, steps = _kept(guest, take, how, places, content.ljust(size, b"\0"))
        values[{"freelist": "list", "objpool": "ring"}[how]] = member
    return at, [*steps, block(at, fields(image, "rethook", values), "the return hook")]


def require_size(image: Image, node: str, room: int) -> None:
    """Raise TramplabError for nodes that are too large for a ring. room: bytes of each node's own data."""
    most = MOST_OBJECT - image.struct(node).size
    if room > most:
        raise TramplabError(f"a node in this kernel's rings has {most} bytes of data at most, not {room}: give a smaller data=.")


def instances(guest: Guest, take: Take, probe: int, count: int, room: int = 0) -> tuple[dict[str, int], list[Step]]:
    """The members of the struct kretprobe at `probe` that keeps `count` instances itself, and the steps that make these. room:
    bytes of each instance's own data. Raises TramplabError where there is not enough memory."""
    image, how = guest.image, str(guest.features["return_pool"])
    holder, size = take(image.struct("kretprobe_holder").size, HOOK), image.struct(INSTANCE).size + room
    places = [take(size, NODES) for _ in range(count)]
    member, steps = _kept(guest, take, how, places, fields(image, INSTANCE, {"rph": holder}).ljust(size, b"\0"))
    values = {"rp": probe} | ({"pool": member} if how == "objpool" else {})
    steps.append(block(holder, fields(image, "kretprobe_holder", values), "who keeps the instances"))
    return {"rph": holder} | ({"freelist": member} if how == "freelist" else {}), steps


def _kept(guest: Guest, take: Take, how: str, places: list[int], one: bytes) -> tuple[int, list[Step]]:
    """The head of a pool of nodes at these places, as the number that its bytes are, and the steps that make the nodes; one: the
    bytes of each."""
    return _list(guest.image, places, one) if how == "freelist" else _rings(guest, take, places, one)


def _list(image: Image, places: list[int], one: bytes) -> tuple[int, list[Step]]:
    """The pool as a list: each node begins with the link, and has the one reference that the list holds."""
    steps, first = [], 0
    for at in places:
        link = fields(image, "freelist_node", {"refs": 1, "next": first})
        steps.append(_node(at, link + one[len(link) :]))
        first = at
    return first, steps


def _rings(guest: Guest, take: Take, places: list[int], one: bytes) -> tuple[int, list[Step]]:
    """The pool as a ring for each CPU, with the nodes distributed by turns; each ring has room for all of them, because a node goes
    back to the CPU where its call returns."""
    image, cpus = guest.image, guest.cpus
    steps = [_node(at, one) for at in places]
    head, room = image.struct("objpool_slot").size, 1 << (len(places) - 1).bit_length()
    slots = []
    for cpu in range(cpus):
        nodes = places[cpu::cpus]
        ring = fields(image, "objpool_slot", {"head": 0, "tail": len(nodes), "last": len(nodes), "mask": room - 1})
        entries = b"".join(map(pointer, nodes)).ljust(8 * room, b"\0")
        slots.append(take(head + len(entries), RING))
        steps.append(block(slots[-1], ring + entries, f"the ring of CPU {cpu}"))
    table = take(8 * cpus, RING)
    steps.append(block(table, b"".join(map(pointer, slots)), "where the rings are"))
    values = {"nr_objs": len(places), "nr_possible_cpus": cpus, "cpu_slots": table}
    return int.from_bytes(fields(image, "objpool_head", values), "little"), steps


def _node(at: int, data: bytes) -> Step:
    return block(at, data, "a node of the return hook")
