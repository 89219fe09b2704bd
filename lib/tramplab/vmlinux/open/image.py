"""A kernel image as the machine can take it: segments at their link addresses, symbols, types, and which code is a trampoline."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.errors import TramplabError
from ...build.dwarf import Prototype, Struct
from ...emulate.engine import PAGE
from ...emulate.image import Image, Origin, Segment, Symbol
from ...isa import Isa
from . import elffile, flat
from .debuginfo.types import Types
from .missing import Members, absent
from .opening import opening
from .parts import BANNER, Load
from .unpacking.payload import Payload, unpack

#: Beginnings of the symbols of code that stands between a site and what it calls.
TRAMPOLINES = re.compile(
    r"(ftrace_(regs_)?call\w*|ftrace_(common|stub|epilogue|graph_call)\w*|return_to_handler"
    r"|arch_rethook_trampoline|__kretprobe_trampoline)$"
)
#: How symbols begin that stand within functions, and those for what lies in front of one.
_INSIDE, _IN_FRONT = ("$", ".L"), ("__pfx_", "__cfi_")
_LARGEST = 1 << 20  # bytes from a symbol to the next that are taken for its own
_ALIGNED = 1 << 21  # no kernel aligns the end of its text more


@dataclass(frozen=True, eq=False)
class Opened:
    """A kernel image before any of it runs.

    payload: the file and its container, without what was unpacked.
    image: for the machine.
    types: struct layouts and prototypes.
    text: (start, end) of the kernel's text.
    version: its own version string, "6.12.107+deb13-amd64".
    release: "v6.12".
    facts: further facts, for the reader.
    """

    payload: Payload
    image: Image
    types: Types
    text: tuple[int, int]
    version: str
    facts: tuple[str, ...]

    @property
    def isa(self) -> Isa:
        """The ISA that the kernel is for."""
        return self.payload.isa

    @functools.cached_property
    def release(self) -> str:
        """The mainline release it comes from, "v6.12"."""
        major, minor = self.version.split(".")[:2]
        return f"v{major}.{re.match(r'[0-9]*', minor)[0]}"  # type: ignore[index]

    @functools.cached_property
    def _structs(self) -> dict[str, Struct]:
        return {}

    def has(self, symbol: str) -> bool:
        """Is there such a symbol?"""
        return symbol in self.image.symbols

    def address(self, symbol: str) -> int:
        """The address of a symbol; raises TramplabError with near matches."""
        try:
            return self.image.symbols[symbol].address
        except KeyError:
            raise absent(self.payload.path, "symbol", symbol, self.image.symbols) from None

    def struct(self, name: str) -> Struct:
        """The layout of a struct; raises TramplabError with near matches, also when a member is looked up that it has not."""
        if name not in self._structs:
            layout = self.types.struct(name)
            self._structs[name] = replace(layout, fields=Members(self.payload.path, name, layout.fields))
        return self._structs[name]

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result, None where nothing is said of it."""
        return self.types.prototype(name)


def open_image(path: Path) -> Opened:
    """Open a kernel image in any container. Raises TramplabError, one sentence with what to do, for what is none, or lacks
    symbols, types or dynamic ftrace."""
    with opening(path):
        return _opened(path)


def _opened(path: Path) -> Opened:
    payload = unpack(path)
    parts = (elffile if payload.elf else flat).parts(payload)
    payload = replace(payload, data=b"")  # of what is loaded there will be a copy, and nobody asks for the rest
    banner = next((m for load in parts.loads if (m := BANNER.search(load.data))), None)
    if banner is None:
        raise TramplabError(f"{path} holds no Linux kernel: its version is nowhere in it: give a vmlinuz, an Image or a vmlinux.")
    version = b"".join((banner[1], b".", banner[2], banner[3])).decode("latin-1")
    symbols, namesakes = _sized(parts.symbols)
    for wanted in ("_stext", "_etext"):
        if wanted not in symbols:
            raise TramplabError(f"{path} has no symbol {wanted}, so where its text lies is unknown: give the vmlinux of its build.")
    text = _text(parts.loads, symbols["_stext"].address, symbols["_etext"].address)
    if text is None:
        where = symbols["_stext"].address
        raise TramplabError(f"{path} has nothing where its symbols say that its text is ({where:#x}): get the whole file again.")
    segments = tuple(_split(parts.loads, text))
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
        namesakes,
    )
    return Opened(payload, image, parts.types, text, version, parts.facts)


def _text(loads: Iterable[Load], start: int, end: int) -> tuple[int, int] | None:
    """The beginning and the end of the text: the end of its segment, if the symbol behind the text is only aligned further, as by
    LLD. None where no segment has it."""
    inside = next((load for load in loads if load.address <= start < load.address + load.size), None)
    last = inside.address + inside.size if inside else 0
    if start >= end or end - last >= _ALIGNED or any(last <= load.address < end for load in loads):
        return None
    return start, min(end, last)


def _split(loads: Iterable[Load], text: tuple[int, int]) -> Iterable[Segment]:
    """Text is executable and everything else writable, each in whole pages: what is written as data at boot lies between."""
    first, last = text[0] & -PAGE, text[1] + PAGE - 1 & -PAGE
    for s in loads:
        cuts = sorted({s.address, s.address + s.size, *(c for c in (first, last) if s.address < c < s.address + s.size)})
        for start, end in itertools.pairwise(cuts):
            is_text = first <= start < last
            yield Segment(start, bytes(s.data[start - s.address : end - s.address]), end - start, is_text, not is_text)


def _sized(found: Iterable[tuple[str, int, int]]) -> tuple[dict[str, Symbol], tuple[Symbol, ...]]:
    """Symbols by name, the first of several, and the others; a size that the table does not say reaches to the next address that
    has a name."""
    ordered = sorted((f for f in found if not f[0].startswith(_INSIDE)), key=lambda f: f[1])
    out: dict[str, Symbol] = {}
    namesakes = []
    following = later = 0
    for name, address, size in reversed(ordered):
        if address != later:
            following, later = later, address
        if not name.startswith(_IN_FRONT):
            if name in out:
                namesakes.append(out[name])
            out[name] = Symbol(name, address, size or max(0, min(following - address, _LARGEST)))
    return out, tuple(namesakes)
