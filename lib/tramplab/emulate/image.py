"""A kernel to be run: its bytes at their addresses, symbols, patch sites, struct layouts, and which code is what."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import unknown
from ..build.dwarf import Prototype, Struct
from ..isa import Isa

#: Names of where sections begin and end, as linker scripts set them: no function's, though one may lie there.
_EDGE = re.compile(r"_+(\w+_)?(start|end)|_[se]?text")
#: Zeros are told from what is to be loaded by so many bytes.
_UNIT = 4096


@dataclass(frozen=True)
class Symbol:
    """A named place: address and size in bytes."""

    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Segment:
    """Bytes to load at an address; `size` includes zero-filled memory behind `data`."""

    address: int
    data: bytes
    size: int
    executable: bool
    writable: bool

    @functools.cached_property
    def filled(self) -> tuple[tuple[int, int], ...]:
        """The stretches of `data`, from offset to offset, outside which it is zero as fresh memory is: what there is to load."""
        ranges: list[tuple[int, int]] = []
        for start in range(0, len(self.data), _UNIT):
            unit = self.data[start : start + _UNIT]
            if unit.count(0) < len(unit):
                begin = ranges.pop()[0] if ranges and ranges[-1][1] == start else start
                ranges.append((begin, start + len(unit)))
        return tuple(ranges)


@dataclass(frozen=True)
class Origin:
    """The sources of an image's symbols, types and patch sites, for the reader."""

    symbols: str
    types: str
    patch_sites: str


@dataclass(frozen=True, eq=False)
class Image:
    """Everything that is known of one kernel, of the lab or a real one. Shared and never changed.

    symbols: by name.
    namesakes: symbols with the name of another one, which `symbols` has, as static functions of two files may have one name.
    """

    isa: Isa
    path: Path
    origin: Origin
    segments: tuple[Segment, ...]
    symbols: dict[str, Symbol]
    structs: dict[str, Struct]
    prototypes: dict[str, Prototype]  # of the functions written in C
    code: tuple[tuple[int, int, str], ...]  # (start, end, component), sorted
    patch_sites: tuple[int, ...]
    namesakes: tuple[Symbol, ...] = ()

    def symbol(self, name: str) -> Symbol:
        """A symbol by name; raises TramplabError with near matches."""
        try:
            return self.symbols[name]
        except KeyError:
            kind = f"symbol in the {self.isa.name} guest"
            raise unknown(kind, name, sorted(self.symbols), sorted(self.functions)) from None

    def address(self, name: str) -> int:
        """The address of a symbol; raises TramplabError with near matches."""
        return self.symbol(name).address

    def struct(self, name: str) -> Struct:
        """The layout of a struct; raises TramplabError with near matches."""
        try:
            return self.structs[name]
        except KeyError:
            raise unknown("guest struct", name, sorted(self.structs)) from None

    @functools.cached_property
    def functions(self) -> dict[str, Symbol]:
        """The traced functions, by name."""
        spans = [(lo, hi) for lo, hi, _ in self.code if any(lo <= site < hi for site in self.patch_sites)]
        return {n: s for n, s in self.symbols.items() if s.size and any(lo <= s.address < hi for lo, hi in spans)}

    @property
    def every(self) -> Iterator[Symbol]:
        """All symbols, also those whose names others have."""
        return itertools.chain(self.symbols.values(), self.namesakes)

    @functools.cached_property
    def _by_address(self) -> tuple[list[int], list[Symbol]]:
        kept = [s for s in self.every if s.size or any(lo <= s.address < hi for lo, hi, _ in self.code)]
        # of several names the shortest is taken that is no section's
        kept.sort(key=lambda s: (s.address, s.size, not _EDGE.fullmatch(s.name), -len(s.name), s.name))
        return [s.address for s in kept], kept

    def component_at(self, address: int) -> str | None:
        """The component of the code at an address; None outside all code of the image."""
        for lo, hi, component in self.code:
            if lo <= address < hi:
                return component
        return None

    def where(self, address: int) -> str | None:
        """symbol+offset of an address, preferring the enclosing function; None if nothing is near."""
        if address not in self._names:
            self._names[address] = self._where(address)
        return self._names[address]

    @functools.cached_property
    def _names(self) -> dict[int, str | None]:
        return {}

    def _where(self, address: int) -> str | None:
        starts, found = self._by_address
        i = bisect.bisect_right(starts, address) - 1
        while i >= 0 and address - starts[i] < 0x10000:
            s = found[i]
            if s.address <= address < s.address + s.size:
                offset = address - s.address
                return f"{s.name}+{offset:#x}" if offset else s.name
            i -= 1
        return None
