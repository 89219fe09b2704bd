"""A kernel image as the machine can take it: segments at their link addresses, symbols, types, and which code is a trampoline."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..build.dwarf import Prototype, Struct
from ..emulate.image import Image, Origin, Segment, Symbol
from ..errors import TramplabError, unknown
from ..isa import Isa
from . import elffile, flat
from .payload import Payload, unpack
from .types import Types

#: Code that stands between a site and what it calls, by how its symbols begin.
TRAMPOLINES = re.compile(
    r"(ftrace_(regs_)?(caller|call)(\w*)|ftrace_(common|stub|epilogue|graph_call|graph_caller|regs_caller)\w*|return_to_handler"
    r"|arch_rethook_trampoline|__kretprobe_trampoline|arch_ftrace_\w*|ftrace_stub_direct_tramp)$"
)
_BANNER = re.compile(rb"Linux version (\d+)\.(\d+)(\S*) [^\0\n]{10,400}")
_NOT_CODE = re.compile(r"__pfx_|__cfi_|\$|\.L")


@dataclass(frozen=True, eq=False)
class Opened:
    """What is known of a kernel image before anything of it runs.

    payload: the file and its container. image: for the machine. types: struct layouts and prototypes. text: (start, end) of the
    kernel's text. version: as it says itself, "6.12.107+deb13-amd64"; release: "v6.12". facts: what was found out on the way,
    for the reader.
    """

    payload: Payload
    image: Image
    types: Types
    text: tuple[int, int]
    version: str
    facts: tuple[str, ...]
    sections: dict[str, bytes]
    section_at: dict[str, int]

    @property
    def isa(self) -> Isa:
        """Of the payload."""
        return self.payload.isa

    @functools.cached_property
    def release(self) -> str:
        """The mainline release it comes from, "v6.12"."""
        major, minor = self.version.split(".")[:2]
        return f"v{major}.{re.match(r'[0-9]*', minor)[0]}"  # type: ignore[index]

    def has(self, symbol: str) -> bool:
        """Is there such a symbol?"""
        return symbol in self.image.symbols

    def address(self, symbol: str) -> int:
        """Where a symbol lies; raises TramplabError with near matches."""
        try:
            return self.image.symbols[symbol].address
        except KeyError:
            raise unknown(f"symbol in {self.payload.path}", symbol, sorted(self.image.symbols)) from None

    def struct(self, name: str) -> Struct:
        """The layout of a struct; raises TramplabError with near matches."""
        return self.types.struct(name)

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result, None where nothing is said of it."""
        return self.types.prototype(name)


def open_image(path: Path) -> Opened:
    """Open a kernel image in any container. Raises TramplabError, one sentence with what to do, for what is none, or lacks
    symbols, types or dynamic ftrace."""
    payload = unpack(path)
    parts = (elffile if payload.elf else flat).parts(payload)
    banner = next((m for s in parts.segments if (m := _BANNER.search(s.data))), None)
    if banner is None:
        raise TramplabError(f"{path} holds no Linux kernel: its version is nowhere in it; give a vmlinuz, an Image or a vmlinux.")
    version = b"".join((banner[1], b".", banner[2], banner[3])).decode("latin-1")
    symbols = _sized(parts.symbols)
    for wanted in ("_stext", "_etext"):
        if wanted not in symbols:
            raise TramplabError(f"{path} has no symbol {wanted}, so its text cannot be told from its data; give the vmlinux of its build.")
    text = symbols["_stext"].address, symbols["_etext"].address
    segments = tuple(_split(parts.segments, text))
    image = Image(
        payload.isa,
        path,
        Origin(parts.symbols_from, parts.types.origin, "its functions' first bytes"),
        segments,
        symbols,
        {},
        {},
        (*((s.address, s.address + s.size, "core") for s in segments if s.executable),),
        (),
    )
    return Opened(payload, image, parts.types, text, version, parts.facts, parts.sections, parts.section_at)


def _split(segments: Iterable[Segment], text: tuple[int, int]) -> Iterable[Segment]:
    """Text is executable and everything else writable, each in whole pages: what is written as data at boot lies between."""
    first, last = text[0] & -4096, text[1] + 4095 & -4096
    for s in segments:
        cuts = sorted({s.address, s.address + s.size, *(c for c in (first, last) if s.address < c < s.address + s.size)})
        for start, end in zip(cuts, cuts[1:], strict=False):
            is_text = first <= start < last
            data = s.data[start - s.address : end - s.address]
            yield Segment(start, data, end - start, is_text, not is_text)


def _sized(found: Iterable[tuple[str, str, int, int]]) -> dict[str, Symbol]:
    """Symbols by name, the first of several; a size that the table does not say reaches to the next address that has a name."""
    ordered = sorted((f for f in found if not _NOT_CODE.match(f[1])), key=lambda f: f[2])
    following: dict[int, int] = {}
    later = 0
    for _, _, address, _ in reversed(ordered):
        if address != later and address not in following:
            following[address] = later
            later = address
    out: dict[str, Symbol] = {}
    for _, name, address, size in ordered:
        room = following[address] - address if following[address] > address else 0
        out.setdefault(name, Symbol(name, address, size or min(room, 1 << 20)))
    return out
