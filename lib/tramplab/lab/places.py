"""Where the lab kernel has room for what is made at run time, and where its CPUs' stacks are."""

from __future__ import annotations

from ..emulate.engine import PAGE
from ..emulate.image import Image
from ..emulate.machine import Places
from ..emulate.memory import Area

STACK_SIZE = 4 * PAGE
MODULE_SIZE = 16 * PAGE
HEAP_SIZE = 64 * PAGE
#: Offsets from the ISA's module_base.
HEAP_OFFSET, STACK_OFFSET = 0x800000, 0xC00000
#: From one CPU's stack to the next: pages between them stay unmapped, so that none runs into another.
STACK_STRIDE = 2 * STACK_SIZE


def places(image: Image, cpus: int = 1) -> Places:
    """Of a guest with so many CPUs."""
    base = image.isa.module_base
    stacks = tuple(Area(base + STACK_OFFSET + n * STACK_STRIDE, STACK_SIZE) for n in range(cpus))
    modules, heap = Area(base, MODULE_SIZE, executable=True), Area(base + HEAP_OFFSET, HEAP_SIZE)
    return Places(image.address("lab_return"), modules, heap, stacks)
