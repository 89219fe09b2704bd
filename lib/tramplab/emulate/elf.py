"""Reading an ELF file into an image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ..build.symbols import ABSOLUTE, NOWHERE, symbols
from ..build.types import types
from ..isa import Isa
from .image import Image, Origin, Segment, Symbol

SYMBOLS, TYPES = ".symtab", "DWARF"


def read(path: Path, isa: Isa, components: Mapping[str, str], patch_sites: str) -> Image:
    """The image in a file. components: section -> what its code counts as. patch_sites: the section that lists them.

    Raises FileNotFoundError, and whatever the reader trips over in a damaged file, which is not to be foreseen.
    """
    with path.open("rb") as f:
        return _parse(ELFFile(f), path, isa, components, patch_sites)


def _parse(elf: ELFFile, path: Path, isa: Isa, components: Mapping[str, str], patch_sites: str) -> Image:
    segments = []
    for seg in elf.iter_segments():
        if seg["p_type"] == "PT_LOAD" and seg["p_memsz"]:
            data = seg.data()
            if len(data) != seg["p_filesz"]:
                raise ValueError("a segment is cut short")
            flags = seg["p_flags"]
            segments.append(Segment(seg["p_vaddr"], data, seg["p_memsz"], bool(flags & 1), bool(flags & 2)))
    table = elf.get_section_by_name(SYMBOLS)
    if not isinstance(table, SymbolTableSection):
        raise ValueError("there is no table of symbols")
    wanted = {
        s.name: Symbol(s.name, s.value, s.size)
        for s in symbols(table)
        if s.name and not s.name.startswith(("$", ".L")) and s.section not in (NOWHERE, ABSOLUTE)
    }
    code = []
    for section in elf.iter_sections():
        component = components.get(section.name)
        if component and section["sh_size"]:
            code.append((section["sh_addr"], section["sh_addr"] + section["sh_size"], component))
    listed = elf.get_section_by_name(patch_sites)
    raw = listed.data() if listed else b""
    sites = tuple(int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8))
    if not segments or not code:
        raise ValueError("no code in it")
    origin = Origin(SYMBOLS, TYPES, patch_sites)
    return Image(isa, path, origin, tuple(segments), wanted, *types(elf), tuple(sorted(code)), sites)
