"""The sections and segments of an ELF file, each checked against the file's length."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import TramplabError

NOBITS, RELA, COMPRESSED = 8, 4, 0x800
_SECTION, _SEGMENT = struct.Struct("<IIQQQQI20x"), struct.Struct("<IIQQQQQ8x")
_MANY_SECTIONS, _LOAD = 0xFFFF, 1
#: Sections of a file, and bytes of a section's name, at most: a kernel linked with a section for each function has 50,000.
_MOST, _LONGEST = 1 << 17, 512


@dataclass(frozen=True)
class Section:
    """A section of an ELF file.

    kind, flags: the numbers that ELF has for them.
    at: where its bytes begin in the file.
    """

    name: str
    kind: int
    flags: int
    address: int
    at: int
    size: int

    def of(self, data: bytes) -> bytes:
        """The bytes of the section in its file's data."""
        return data[self.at : self.at + self.size]


@dataclass(frozen=True)
class Segment:
    """A segment to load: where its bytes begin in the file, its address as linked, its bytes, and its size with the zeros after
    them."""

    at: int
    address: int
    length: int
    size: int


def damaged(path: Path, what: str) -> TramplabError:
    """The error for an ELF file that contradicts itself."""
    return TramplabError(f"{path} is damaged, {what}: get the whole file again.")


def sections(data: bytes, path: Path) -> list[Section]:
    """The sections of a 64-bit little-endian ELF file, in order; none where they have no names. Raises TramplabError where one
    does not lie in the file."""
    (start,) = struct.unpack_from("<Q", data, 0x28)
    each, number, names = struct.unpack_from("<HHH", data, 0x3A)
    if not start:
        return []
    if each != _SECTION.size or start + each > len(data):
        raise damaged(path, "its table of sections is not where its header says")
    first = _SECTION.unpack_from(data, start)
    number, names = number or first[5], first[6] if names == _MANY_SECTIONS else names
    if start + number * each > len(data):
        raise damaged(path, "its table of sections goes on beyond its end")
    if number > _MOST:
        raise damaged(path, f"it says that it has {number} sections")
    headers = [_SECTION.unpack_from(data, start + n * each) for n in range(number)]
    for _, kind, _, _, at, size, _ in headers[1:]:
        if kind != NOBITS and at + size > len(data):
            raise damaged(path, "a section of it goes on beyond its end")
    if not 0 < names < number or headers[names][1] == NOBITS:
        return []
    at, size = headers[names][4:6]
    strings = data[at : at + size]
    return [Section(_name(strings, name), *header) for name, *header, _ in headers]


def segments(data: bytes, path: Path) -> list[Segment]:
    """The segments to load of a 64-bit little-endian ELF file. Raises TramplabError where some of them are not in the file."""
    (start,) = struct.unpack_from("<Q", data, 0x20)
    each, number = struct.unpack_from("<HH", data, 0x36)
    if number and (each != _SEGMENT.size or start + number * each > len(data)):
        raise damaged(path, "its table of segments is not where its header says")
    found = [_SEGMENT.unpack_from(data, start + n * each) for n in range(number)]
    loads = [Segment(at, address, length, size) for kind, _, at, address, _, length, size in found if kind == _LOAD and size]
    if any(s.at + s.length > len(data) or s.length > s.size or s.address + s.size > 1 << 64 for s in loads):
        raise damaged(path, "a segment of it goes on beyond its end")
    return loads


def _name(strings: bytes, at: int) -> str:
    return strings[at : at + _LONGEST].partition(b"\0")[0].decode("latin-1")
