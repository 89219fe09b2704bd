"""An ELF vmlinux: as linked, or as an x86-64 bzImage unpacks to, without its table of symbols."""

from __future__ import annotations

import numpy as np

from ..errors import TramplabError
from . import btf, kallsyms, relocate
from .dwarf import FromDwarf
from .parts import KERNEL, LIMIT, Load, Parts, Symbols, named, no_symbols, no_types, too_large
from .payload import Payload
from .sections import ALLOCATED, NOBITS, RELA, Section, damaged, sections, segments
from .types import Types

#: Tables for what is patched at boot.
_TABLES = (
    ".altinstructions",
    ".altinstr_replacement",
    ".return_sites",
    ".retpoline_sites",
    ".parainstructions",
    ".static_call_sites",
)
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
_UNDEFINED, _SECTION, _FILE = 0, 3, 4  # a section's number, and kinds of symbols


def parts(payload: Payload) -> Parts:
    """All that is in an ELF file. Raises TramplabError where it is damaged, no kernel, or lacks symbols or types."""
    found = {s.name: s for s in reversed(sections(payload.data, payload.path)) if s.kind != NOBITS}  # the first of each name
    symbols, source, layout = _listed(payload, found), ".symtab", ""
    loads = _mended(payload, found, _loads(payload), symbols)
    if not symbols:
        table = next(filter(None, (kallsyms.read(bytes(load.data), load.address) for load in loads)), None)
        if table is None:
            raise no_symbols(payload.path)
        symbols, source, layout = named(table), "kallsyms", f", {table.layout}"
    tables = {name: found[name] for name in _TABLES if name in found}
    return Parts(
        loads,
        symbols,
        _types(payload, found),
        source,
        (f"{source}: {len(symbols)} symbols{layout}",),
        {name: s.of(payload.data) for name, s in tables.items()},
        {name: s.address for name, s in tables.items()},
    )


def _loads(payload: Payload) -> tuple[Load, ...]:
    """What is to be loaded, at its address, in order."""
    data, path = payload.data, payload.path
    headers = segments(data, path)
    kernel = next((s for s in headers if s.address >= KERNEL), None)
    if kernel is None:
        raise TramplabError(f"{path} is an ELF file, but no kernel: nothing of it lies where kernels do: give a vmlinux.")
    if (size := sum(s.size for s in headers)) > LIMIT:
        raise too_large(path, size)
    # per-CPU data linked at zero lies, until each CPU has a copy, where its physical address says
    distance = kernel.address - kernel.physical
    view = memoryview(data)
    addresses = [s.address if s.address >= KERNEL else s.physical + distance for s in headers]
    loads = [Load(a, view[s.at : s.at + s.length], s.size) for a, s in zip(addresses, headers, strict=True)]
    loads.sort(key=lambda load: load.address)
    ends = [KERNEL, *(load.address + load.size for load in loads)]
    if ends[-1] > 1 << 64 or any(end > load.address for end, load in zip(ends, loads, strict=False)):
        raise damaged(path, "its segments lie upon each other, or where no kernel lies")
    return tuple(loads)


def _mended(payload: Payload, found: dict[str, Section], loads: tuple[Load, ...], symbols: Symbols) -> tuple[Load, ...]:
    """The same with the pointers in place that a kernel which can be moved mends at boot. Raises TramplabError where the list of
    them was taken out, as older builds do with the vmlinux for riscv64 (arch/riscv/Makefile.postlink)."""
    rela = found.get(".rela.dyn")
    if rela and rela.kind == RELA and rela.flags & ALLOCATED:
        listed = relocate.listed(rela.of(payload.data), payload.isa.name)
        return tuple(Load(load.address, memoryview(relocate.mended(load.data, listed, load.address)), load.size) for load in loads)
    if len({address for name, address, _ in symbols if name in ("__rela_dyn_start", "__rela_dyn_end")}) > 1:
        raise TramplabError(f"{payload.path} has lost its relocations (.rela.dyn) when it was built: give the Image of its build.")
    return loads


def _listed(payload: Payload, found: dict[str, Section]) -> Symbols:
    """The symbols of .symtab; none where there is no such table."""
    table, names = found.get(".symtab"), found.get(".strtab")
    if not table or not names:
        return []
    rows = np.frombuffer(payload.data, _SYMBOL, table.size // _SYMBOL.itemsize, table.at)
    rows = rows[(rows["section"] != _UNDEFINED) & ~np.isin(rows["info"] & 15, (_SECTION, _FILE)) & (rows["name"] != 0)]
    strings = names.of(payload.data) + b"\0"
    if len(rows) and int(rows["name"].max()) >= len(strings):
        raise damaged(payload.path, "the name of a symbol lies beyond the names")
    starts, values, sizes = (rows[field].tolist() for field in ("name", "value", "size"))
    return [
        (strings[at : strings.index(b"\0", at)].decode("latin-1"), value, size)
        for at, value, size in zip(starts, values, sizes, strict=True)
    ]


def _types(payload: Payload, found: dict[str, Section]) -> Types:
    if ".BTF" in found:
        return btf.Btf(found[".BTF"].of(payload.data), payload.path)
    types = btf.find(payload.data, payload.path)
    if types is not None:
        return types
    if ".debug_info" in found:
        return FromDwarf(payload.data, found, payload.path)
    raise no_types(payload.path)
