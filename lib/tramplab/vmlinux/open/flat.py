"""A flat image, as arm64 and riscv64 boot it: its link address, its relocations, and its tables."""

from __future__ import annotations

from ...base.errors import TramplabError
from ...emulate.engine import PAGE
from . import kallsyms, relocate
from .debuginfo import btf
from .parts import KERNEL, LIMIT, Load, Parts, named, no_symbols, no_types, too_large
from .unpacking.payload import Payload

#: The link address is a multiple of this, and the offset that the header has.
_ALIGN = 1 << 21
#: The link address where nothing in the image tells it (the kernel's KERNEL_LINK_ADDR).
_USUAL = {"riscv64": 0xFFFFFFFF80000000}


def parts(payload: Payload) -> Parts:
    """The parts of a flat image. Raises TramplabError where its link address, symbols or types cannot be found."""
    path, isa, data = payload.path, payload.isa.name, payload.data
    # Documentation/arch/arm64/booting.rst, Documentation/arch/riscv/boot-image-header.rst
    offset, size = (int.from_bytes(data[at : at + 8], "little") for at in (8, 16))
    offset %= _ALIGN
    if size > LIMIT:
        raise too_large(path, size)
    relocations = relocate.find(data, isa)
    base = relocate.linked(data, relocations, _ALIGN, offset) if relocations else None
    content = relocate.adjust(data, relocations, base) if relocations and base else data
    table = kallsyms.read(content, base or 0)
    if table is None:
        raise no_symbols(path)
    moved = 0
    if relocations is None and table.based:
        base = (min(v for v in table.values if v >= KERNEL) - offset) // _ALIGN * _ALIGN + offset
    elif relocations is None:
        base = moved = _USUAL.get(isa) or relocate.pointed(data, table.values, _ALIGN, offset) or 0
    whole = max(len(data), size) + PAGE - 1 & -PAGE
    if not base or base + whole > 1 << 64:
        raise TramplabError(f"{path} does not tell the address that it was linked for: give the vmlinux of its build.")
    types = btf.find(content, path)
    if types is None:
        raise no_types(path)
    facts = (
        f"linked at {base:#x}, relocations: {relocations.kind if relocations else 'none'}",
        f"kallsyms: {len(table.names)} symbols, {table.layout}",
    )
    return Parts((Load(base, memoryview(content), whole),), named(table, moved), types, "kallsyms", facts)
