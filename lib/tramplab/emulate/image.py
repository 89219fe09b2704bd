"""A built lab kernel: its bytes at their addresses, symbols, patch sites, struct layouts, and which code is what."""

from __future__ import annotations

import bisect
import functools
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from ..build.dwarf import Prototype, Struct
from ..build.toolchain import GUEST, GuestConfig, build
from ..build.types import types
from ..errors import TramplabError, unknown
from ..isa import Isa

#: Component of the code in each output section of link.ld.
COMPONENT_OF_SECTION = {
    ".text.trampoline": "trampoline",
    ".far.trampoline": "trampoline",
    ".text.traced": "function",
    ".text.core": "core",
    ".text.callback": "callback",
    ".far.callback": "callback",
    ".text.caller": "caller",
    ".text.replacement": "function",
}


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


@dataclass(frozen=True, eq=False)
class Image:
    """Everything the lab needs to know of one ELF file. Shared and never changed."""

    isa: Isa
    config: GuestConfig
    path: Path
    segments: tuple[Segment, ...]
    symbols: dict[str, Symbol]
    structs: dict[str, Struct]
    prototypes: dict[str, Prototype]  # of the functions written in C
    code: tuple[tuple[int, int, str], ...]  # (start, end, component), sorted
    patch_sites: tuple[int, ...]  # as the compiler recorded them

    def symbol(self, name: str) -> Symbol:
        """A symbol by name; raises TramplabError with near matches."""
        try:
            return self.symbols[name]
        except KeyError:
            kind = f"symbol in the {self.isa.name} guest"
            raise unknown(kind, name, sorted(self.symbols), sorted(self.functions)) from None

    def address(self, name: str) -> int:
        return self.symbol(name).address

    def struct(self, name: str) -> Struct:
        try:
            return self.structs[name]
        except KeyError:
            raise unknown("guest struct", name, sorted(self.structs)) from None

    @functools.cached_property
    def functions(self) -> dict[str, Symbol]:
        """The traced functions, by name."""
        spans = [(lo, hi) for lo, hi, _ in self.code if any(lo <= site < hi for site in self.patch_sites)]
        return {n: s for n, s in self.symbols.items() if s.size and any(lo <= s.address < hi for lo, hi in spans)}

    @functools.cached_property
    def _by_address(self) -> tuple[list[int], list[Symbol]]:
        kept = [s for s in self.symbols.values() if s.size or any(lo <= s.address < hi for lo, hi, _ in self.code)]
        kept.sort(key=lambda s: (s.address, s.size))
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


def load(isa: Isa, config: GuestConfig, guest: Path = GUEST) -> Image:
    """The image of one ISA and configuration, built if need be."""
    return read(build(isa, config, guest), isa, config)


@functools.lru_cache(maxsize=64)
def read(path: Path, isa: Isa, config: GuestConfig) -> Image:
    """Read an ELF file into an Image; a damaged file is one clear error."""
    try:
        with path.open("rb") as f:
            return _parse(ELFFile(f), path, isa, config)
    except FileNotFoundError:
        raise TramplabError(f"there is no guest image {path}; run the command again to build it.") from None
    except Exception as e:  # what the ELF reader trips over in a damaged file is not to be foreseen
        why = " ".join([type(e).__name__, *str(e).split()])
        raise TramplabError(
            f"the guest image {path} is damaged ({why}); delete it and run the command again."
        ) from None


def _parse(elf: ELFFile, path: Path, isa: Isa, config: GuestConfig) -> Image:
    segments = []
    for seg in elf.iter_segments():
        if seg["p_type"] == "PT_LOAD" and seg["p_memsz"]:
            data = seg.data()
            if len(data) != seg["p_filesz"]:
                raise ValueError("a segment is cut short")
            flags = seg["p_flags"]
            segments.append(Segment(seg["p_vaddr"], data, seg["p_memsz"], bool(flags & 1), bool(flags & 2)))
    symbols = {
        s.name: Symbol(s.name, s["st_value"], s["st_size"])
        for s in elf.get_section_by_name(".symtab").iter_symbols()
        if s.name and not s.name.startswith(("$", ".L")) and s["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS")
    }
    code = []
    for section in elf.iter_sections():
        component = COMPONENT_OF_SECTION.get(section.name)
        if component and section["sh_size"]:
            code.append((section["sh_addr"], section["sh_addr"] + section["sh_size"], component))
    table = elf.get_section_by_name("__patchable_function_entries")
    raw = table.data() if table else b""
    sites = tuple(int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8))
    if not segments or not code:
        raise ValueError("no code in it")
    return Image(isa, config, path, tuple(segments), symbols, *types(path), tuple(sorted(code)), sites)
