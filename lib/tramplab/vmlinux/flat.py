"""A flat image, as arm64 and riscv64 boot it: its link address, its relocations, and its tables."""

from __future__ import annotations

from ..emulate.engine import PAGE
from ..emulate.image import Segment
from ..errors import TramplabError
from . import btf, kallsyms, relocate
from .parts import Parts, named, no_symbols, no_types
from .payload import Payload
from .types import FromBtf

#: Per ISA: the number that RELA has for "mend by the distance moved" (R_AARCH64_RELATIVE, R_RISCV_RELATIVE), the alignment of
#: the link address, the address where nothing in the image tells (KERNEL_LINK_ADDR), and the symbol at the first byte.
_LINK = {"arm64": (1027, 1 << 21, None, "_text"), "riscv64": (3, 1 << 21, 0xFFFFFFFF80000000, "_start")}
#: Where the header says how much memory the image takes with what is zero behind it (Documentation/arch/arm64/booting.rst,
#: Documentation/arch/riscv/boot-image-header.rst).
_IMAGE_SIZE = 16


def parts(payload: Payload) -> Parts:
    """All that is in a flat image. Raises TramplabError where its link address, symbols or types cannot be found."""
    relative, align, usual, start = _LINK[payload.isa.name]
    found = relocate.find(payload.data, relative)
    base = relocate.linked(payload.data, found, align) if found.kind != "none" else usual
    if base is None:
        raise TramplabError(
            f"{payload.path} does not tell the address that it was linked for (no relocations): give the vmlinux of its build."
        )
    data = relocate.mended(payload.data, found, base)
    table = kallsyms.read(data, base)
    if table is None:
        raise no_symbols(payload.path)
    types = btf.find(data)
    if types is None:
        raise no_types(payload.path)
    first = next((s.value for s in table.symbols if s.name == start), base)
    symbols = named(table, base - first if abs(base - first) < len(data) else 0)
    size = int.from_bytes(data[_IMAGE_SIZE : _IMAGE_SIZE + 8], "little")
    whole = max(len(data), min(size, 1 << 30)) + PAGE - 1 & -PAGE
    facts = (f"linked at {base:#x}, relocations: {found.kind}", f"kallsyms: {len(table.symbols)} symbols, {table.layout}")
    return Parts((Segment(base, data, whole, True, True),), symbols, FromBtf(types), "kallsyms", facts)
