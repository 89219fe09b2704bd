"""What makers build on: the guest, what its release has, and where there is room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..emulate.image import Image
from ..ftrace.layout import Heap
from ..ftrace.releases import Features
from ..ftrace.site import Site

#: The guest's room near its text, behind the common trampolines: since v6.16 a site of riscv64 calls nothing that is further
#: than 2 KiB from ftrace_caller.
ROOM = "lab_shape"


@dataclass(frozen=True)
class Ground:
    """One guest, as makers see it.

    sites: function -> its patch site. Who hands out room: near, code beside the kernel's text; modules, code in the module
    area; heap, data. cpus: how many the kernel has.
    """

    image: Image
    features: Features
    sites: Mapping[str, Site]
    near: Heap
    modules: Heap
    heap: Heap
    cpus: int = 1


def near(image: Image) -> Heap:
    """Whoever hands out the room near the text."""
    room = image.symbol(ROOM)
    full = "the room for trampolines near the kernel's text is full: detach one first."
    return Heap(room.address, room.size, full)


def modules(base: int, size: int) -> Heap:
    """Whoever hands out the module area."""
    return Heap(base, size, "the guest's module area is full: too many trampolines at once.")
