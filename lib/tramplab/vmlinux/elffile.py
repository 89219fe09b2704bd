"""An ELF vmlinux: as linked, or as an x86-64 bzImage unpacks to, without its table of symbols."""

from __future__ import annotations

import io

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ..emulate.image import Segment
from ..errors import TramplabError
from . import btf, kallsyms
from .parts import Parts, named, no_symbols, no_types
from .payload import Payload
from .types import FromBtf, FromDwarf, Types

#: Tables for what is patched at boot.
_TABLES = (".altinstructions", ".altinstr_replacement", ".return_sites", ".retpoline_sites", ".parainstructions", ".static_call_sites")
_KINDS = {("STT_FUNC", "STB_GLOBAL"): "T", ("STT_FUNC", "STB_LOCAL"): "t", ("STT_OBJECT", "STB_GLOBAL"): "D"}


def parts(payload: Payload) -> Parts:
    """All that is in an ELF file. Raises TramplabError where it is damaged, no kernel, or lacks symbols or types."""
    try:
        return _parts(payload, ELFFile(io.BytesIO(payload.data)))
    except TramplabError:
        raise
    except (ELFError, ValueError, KeyError, IndexError, AssertionError, OverflowError, UnicodeDecodeError, AttributeError, TypeError) as e:
        why = " ".join([type(e).__name__, *str(e).split()])
        raise TramplabError(f"{payload.path} is a damaged ELF file ({why}); build or fetch it again.") from None


def _parts(payload: Payload, elf: ELFFile) -> Parts:
    loads = [s.header for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_memsz"]]
    if not loads:
        raise TramplabError(f"{payload.path} is an ELF file with nothing to load, such as a module or an object; give a vmlinux.")
    # per-CPU data linked at zero lies, until each CPU has a copy, where its physical address says
    distance = next((s["p_vaddr"] - s["p_paddr"] for s in loads if s["p_vaddr"] >> 63), 0)
    segments, total = [], 0
    for s in loads:
        data = payload.data[s["p_offset"] : s["p_offset"] + s["p_filesz"]]
        if len(data) != s["p_filesz"] or (total := total + s["p_memsz"]) > 1 << 30:
            raise TramplabError(f"{payload.path} is cut short, or its segments are no kernel's; fetch it again.")
        address = s["p_vaddr"] if s["p_vaddr"] >> 63 else s["p_paddr"] + distance & (1 << 64) - 1
        flags = s["p_flags"]
        segments.append(Segment(address, data, s["p_memsz"], bool(flags & 1), bool(flags & 2)))
    symbols, symbols_from, facts = _symbols(payload, elf, segments)
    sections = {name: s for name in _TABLES if (s := elf.get_section_by_name(name)) is not None and s["sh_type"] != "SHT_NOBITS"}
    return Parts(
        tuple(segments),
        symbols,
        _types(payload, elf),
        symbols_from,
        facts,
        {name: s.data() for name, s in sections.items()},
        {name: s["sh_addr"] for name, s in sections.items()},
    )


def _symbols(payload: Payload, elf: ELFFile, segments: list[Segment]) -> tuple[tuple, str, tuple[str, ...]]:
    table = elf.get_section_by_name(".symtab")
    if isinstance(table, SymbolTableSection) and table.num_symbols() > 1:
        found = [
            (_KINDS.get((s["st_info"]["type"], s["st_info"]["bind"]), "d"), s.name, s["st_value"], s["st_size"])
            for s in table.iter_symbols()
            if s.name and s["st_shndx"] != "SHN_UNDEF"
        ]
        return tuple(found), ".symtab", (f".symtab: {len(found)} symbols",)
    for segment in segments:
        read = kallsyms.read(segment.data, segment.address)
        if read:
            return named(read), "kallsyms", (f"kallsyms: {len(read.symbols)} symbols, {read.layout}",)
    raise no_symbols(payload.path)


def _types(payload: Payload, elf: ELFFile) -> Types:
    section = elf.get_section_by_name(".BTF")
    if section is not None:
        return FromBtf(btf.Btf(section.data()))
    found = btf.find(payload.data)
    if found is not None:
        return FromBtf(found)
    if elf.has_dwarf_info():
        return FromDwarf(payload.data)
    raise no_types(payload.path)
