"""An ELF vmlinux: as linked, as an x86-64 bzImage unpacks to, without its table of symbols, or without section headers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...base.errors import TramplabError
from . import kallsyms, relocate
from .debuginfo import btf
from .debuginfo.dwarf import FromDwarf
from .debuginfo.types import Types
from .kallsyms import LONGEST
from .parts import KERNEL, LIMIT, Load, Parts, Symbols, named, no_symbols, no_types, too_large
from .sections import NOBITS, RELA, Section, damaged, sections, segments
from .unpacking.payload import Payload

_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
_UNDEFINED, _SECTION, _FILE = 0, 3, 4  # a section's number, and kinds of symbols


def parts(payload: Payload) -> Parts:
    """The parts of an ELF file. Raises TramplabError where it is damaged, no kernel, or lacks symbols or types."""
    found = {s.name: s for s in reversed(sections(payload.data, payload.path)) if s.kind != NOBITS}  # the first of each name
    symbols, source, layout = _listed(payload, found), ".symtab", ""
    loads = _adjusted(payload, found, _loads(payload), symbols)
    if not symbols:
        table = next(
            filter(None, (kallsyms.read(bytes(load.data), load.address) for load in loads if load.address >= KERNEL)), None
        )
        if table is None:
            raise no_symbols(payload.path)
        symbols, source, layout = named(table), "kallsyms", f", {table.layout}"
    facts = (f"{source}: {len(symbols)} symbols{layout}",)
    return Parts(_placed(loads, symbols, payload.path), symbols, _types(payload, found), source, facts)


def _loads(payload: Payload) -> list[Load]:
    """The segments to load, at the addresses they are linked for."""
    headers = segments(payload.data, payload.path)
    if not any(s.address >= KERNEL for s in headers):
        raise TramplabError(
            f"{payload.path} is an ELF file, but nothing of it lies where kernels do: give the vmlinux or bzImage of a build."
        )
    if (size := sum(s.size for s in headers)) > LIMIT:
        raise too_large(payload.path, size)
    view = memoryview(payload.data)
    return [Load(s.address, view[s.at : s.at + s.length], s.size) for s in headers]


def _placed(loads: list[Load], symbols: Symbols, path: Path) -> tuple[Load, ...]:
    """The segments in order, per-CPU data where it lies until each CPU has a copy. On x86-64 that is linked at zero up to v6.14,
    and the symbol __per_cpu_load says where it is loaded; the physical addresses would, too, but tools that rewrite a vmlinux lose
    them."""
    first = next((address for name, address, _ in symbols if name == "__per_cpu_load"), None)
    if first is None and any(load.address < KERNEL for load in loads):
        raise TramplabError(
            f"{path} has no symbol __per_cpu_load, so where its per-CPU data lies is unknown: give the vmlinux of its build."
        )
    placed = [load if load.address >= KERNEL else replace(load, address=load.address + (first or 0)) for load in loads]
    placed.sort(key=lambda load: load.address)
    ends = [KERNEL, *(load.address + load.size for load in placed)]
    if ends[-1] > 1 << 64 or any(end > load.address for end, load in zip(ends, placed, strict=False)):
        raise damaged(path, "its segments overlap, or are where no kernel is")
    return tuple(placed)


def _adjusted(payload: Payload, found: dict[str, Section], loads: list[Load], symbols: Symbols) -> list[Load]:
    """The segments with the pointers adjusted that a relocatable kernel adjusts at boot; x86-64's are already. Raises TramplabError
    where the list of them was taken out, as older builds do with the vmlinux for riscv64 (arch/riscv/Makefile.postlink)."""
    isa, rela = payload.isa.name, found.get(".rela.dyn")
    if isa == "x86_64":
        return loads
    if rela and rela.kind == RELA:
        listed: relocate.Relocations | None = relocate.listed(rela.of(payload.data), isa)
    else:  # as in a flat image
        listed = next(filter(None, (relocate.find(load.data, isa) for load in loads)), None)
    if listed:
        return [replace(load, data=memoryview(relocate.adjust(load.data, listed, load.address))) for load in loads]
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
    zeros = np.flatnonzero(np.frombuffer(strings, np.uint8) == 0)
    ends = zeros[np.searchsorted(zeros, rows["name"])]
    short = ends - rows["name"] < LONGEST  # scripts/kallsyms.c leaves out longer ones, too
    rows, ends = rows[short], ends[short]
    if int((ends - rows["name"]).sum()) > len(payload.data):  # names may share their ends, but not as many as that
        raise damaged(payload.path, "the names of its symbols are more than it has bytes")
    starts, values, sizes = (rows[field].tolist() for field in ("name", "value", "size"))
    return [
        (strings[at:end].decode("latin-1"), value, size)
        for at, end, value, size in zip(starts, ends.tolist(), values, sizes, strict=True)
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
