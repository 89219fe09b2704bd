"""Where the lab kernel has room for what is made at run time, and where its CPUs' stacks are."""

from __future__ import annotations

from ..emulate.engine import PAGE
from ..emulate.image import Image
from ..emulate.machine import Places
from ..emulate.memory import Area
from ..emulate.traps import Vector

STACK_SIZE = 4 * PAGE
MODULE_SIZE = 16 * PAGE
HEAP_SIZE = 64 * PAGE
#: Offsets from the ISA's module_base.
HEAP_OFFSET, STACK_OFFSET = 0x800000, 0xC00000
#: From one CPU's stack to the next: pages between them stay unmapped, so that none runs into another.
STACK_STRIDE = 2 * STACK_SIZE


def places(image: Image, cpus: int = 1, traps: bool = False) -> Places:
    """Of a guest with so many CPUs; does it take breakpoints?"""
    base = image.isa.module_base
    stacks = tuple(Area(base + STACK_OFFSET + n * STACK_STRIDE, STACK_SIZE) for n in range(cpus))
    modules, heap = Area(base, MODULE_SIZE, executable=True), Area(base + HEAP_OFFSET, HEAP_SIZE)
    vector = Vector(image.address("lab_trap_entry"), image.address("lab_trap_return")) if traps else None
    return Places(image.address("lab_return"), modules, heap, stacks, vector)
