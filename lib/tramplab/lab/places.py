"""Where the lab kernel has room for what is made at run time, and where its CPUs' stacks are."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.arguments import wholes
from ..base.errors import TramplabError
from ..emulate.engine import PAGE
from ..emulate.image import Image
from ..emulate.memory.memory import Area
from ..emulate.places import Places
from ..emulate.traps import Vector

STACK_SIZE = 4 * PAGE
#: Bytes of the module area for each ops that the guest has a place for: a BPF trampoline of a few programs has room there.
MODULE_SHARE = 512
HEAP_SIZE = 64 * PAGE
#: Offsets from the ISA's module_base.
HEAP_OFFSET, STACK_OFFSET = 0x800000, 0xC00000
#: From one CPU's stack to the next: pages between them stay unmapped, so that none runs into another.
STACK_STRIDE = 2 * STACK_SIZE
#: Bytes for code at an address that the caller of Kernel chooses.
ROOM = 64


def places(image: Image, cpus: int = 1, traps: bool = False, room_at: Iterable[int] = ()) -> Places:
    """The memory of a guest with this many CPUs. traps: does it take breakpoints? room_at: addresses at which code is to have room,
    see apart(). Raises TramplabError for more CPUs than the guest knows by number."""
    base, most_cpus = image.isa.module_base, image.symbol("lab_percpu").size // 8
    if cpus > most_cpus:
        raise TramplabError(f"the guest has room for {most_cpus} CPUs, not {cpus}; ask for fewer with cpus=.")
    stacks = tuple(Area(base + STACK_OFFSET + n * STACK_STRIDE, STACK_SIZE) for n in range(cpus))
    most_ops = image.symbol("lab_ops_pool").size // image.struct("ftrace_ops").size
    size = -(-most_ops * MODULE_SHARE // PAGE) * PAGE
    modules, heap = Area(base, size, executable=True), Area(base + HEAP_OFFSET, HEAP_SIZE)
    taking = vector(image) if traps else None
    return Places(image.address("lab_return"), modules, heap, stacks, taking, apart(image, room_at, (modules, heap, *stacks)))


def vector(image: Image) -> Vector:
    """The addresses at which a guest takes its breakpoints and returns from them."""
    return Vector(image.address("lab_trap_entry"), image.address("lab_trap_return"))


def apart(image: Image, room_at: Iterable[int], others: Iterable[Area]) -> tuple[Area, ...]:
    """Executable areas, as few as will do, that hold ROOM bytes at each of these addresses, up to the end of the address space.
    What the image fills stays its own. Raises TramplabError for an address that is none, or where one of the others lies."""
    pages: set[int] = set()
    for address in wholes(room_at, "room_at"):
        if not 0 <= address < 1 << 64:
            raise TramplabError(f"{address:#x} is no address: room for code lies between 0 and {(1 << 64) - 1:#x}.")
        pages.update(range(address // PAGE, (min(address + ROOM, 1 << 64) - 1) // PAGE + 1))
    for s in image.segments:
        pages.difference_update(range(s.address // PAGE, -(-(s.address + s.size) // PAGE)))
    for other in others:
        if taken := pages.intersection(range(other.address // PAGE, other.end // PAGE)):
            raise TramplabError(f"there is no room for code at {min(taken) * PAGE:#x}: the guest has data or modules there.")
    starts = sorted(page for page in pages if page - 1 not in pages)
    ends = sorted(page + 1 for page in pages if page + 1 not in pages)
    return tuple(Area(a * PAGE, (b - a) * PAGE, executable=True) for a, b in zip(starts, ends, strict=True))
