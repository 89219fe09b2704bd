"""A guest as makers see it: its image, its release's features, and the allocators of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.errors import TramplabError
from ..emulate.image import Image
from ..emulate.places import Places
from ..ftrace import arch
from ..ftrace.layout import Heap
from ..ftrace.releases import Features
from ..ftrace.site import Site

#: The guest's room near its text, behind the common trampolines: since v6.16 a site of riscv64 calls nothing that is further
#: than 2 KiB from ftrace_caller.
ROOM = "lab_shape"


class PerCpuCounters:
    """The guest's per-CPU counters: one for each BPF program and each image of a trampoline, by their numbers."""

    def __init__(self, image: Image) -> None:
        counts = image.struct("lab_pcpu").fields["counts"]
        self._first, self._free = counts.offset, list(range(counts.elements))

    def offset(self, number: int) -> int:
        """The offset of a counter in a CPU's struct lab_pcpu, in bytes."""
        return self._first + 4 * number

    def take(self, number: int) -> list[int]:
        """Allocate this many counters; raises TramplabError if there are not enough."""
        if len(self._free) < number:
            raise TramplabError("the guest's per-CPU memory is full: detach some BPF programs first.")
        taken, self._free = self._free[:number], self._free[number:]
        return taken

    def give(self, what: int) -> None:
        """Take a counter back."""
        self._free = sorted([*self._free, what])


@dataclass(frozen=True)
class Guest:
    """One guest, as makers see it.

    sites: function -> its patch site.
    near, modules, heap: allocators for code near the kernel's text, code in the module area, and data.
    counters: the allocator of per-CPU counters.
    cpus: how many there are.
    gaps: (start, end) of executable memory that holds nothing, for code at a chosen place.
    """

    image: Image
    features: Features
    sites: Mapping[str, Site]
    near: Heap
    modules: Heap
    heap: Heap
    counters: PerCpuCounters
    cpus: int
    gaps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, image: Image, features: Features, places: Places) -> Guest:
        """A guest with this layout of memory and nothing allocated in it."""
        room = image.symbol(ROOM)
        near = Heap(room.address, room.size, "the room for trampolines near the kernel's text is full: detach one first.")
        area = places.modules
        modules = Heap(area.address, area.size, "the guest's module area is full: too many trampolines at once.")
        heap, counters = Heap(places.heap.address, places.heap.size), PerCpuCounters(image)
        sites, gaps = arch.sites(image, features), _gaps(image, places)
        return cls(image, features, sites, near, modules, heap, counters, len(places.stacks), gaps)


def _gaps(image: Image, places: Places) -> tuple[tuple[int, int], ...]:
    """(start, end) of the areas of Places.more, and of the padding between the code of the image's executable segments."""
    free = [(a.address, a.end) for a in places.more]
    for segment in (s for s in image.segments if s.executable):
        at, end = segment.address, segment.address + segment.size
        for start, behind, _ in (span for span in image.code if at <= span[0] < end):
            free.append((at, start))
            at = behind
        free.append((at, end))
    return tuple((start, end) for start, end in free if start < end)
