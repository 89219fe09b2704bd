"""The symbols of an ELF file of 64 bits, read all at once: a corpus has ten thousand, and taking them apart one by one takes
longer than to boot a kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.elf.sections import SymbolTableSection

#: Elf64_Sym, little-endian: name, info, other, section, value, size.
_ENTRY = struct.Struct("<IBBHQQ")
#: Numbers of sections that are none: SHN_UNDEF, SHN_ABS.
NOWHERE, ABSOLUTE = 0, 0xFFF1
#: STT_FUNC
FUNCTION = 2


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """A symbol of an ELF file.

    value: an address, or in an object an offset in its section.
    size: bytes.
    kind: the lower half of st_info.
    section: its number.
    """

    name: str
    value: int
    size: int
    kind: int
    section: int


def symbols(table: SymbolTableSection) -> Iterator[ElfSymbol]:
    """The symbols of a table, in its order. Raises ValueError where the table, or one of its names, does not end."""
    names, raw = table.stringtable.data(), table.data()
    if len(raw) % _ENTRY.size:
        raise ValueError("a table of symbols is cut short")
    for at, info, _, section, value, size in _ENTRY.iter_unpack(raw):
        end = names.find(b"\0", at)
        if end < 0:
            raise ValueError("a symbol's name has no end")
        yield ElfSymbol(names[at:end].decode(), value, size, info & 15, section)
