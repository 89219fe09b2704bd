"""What opening an ELF file and opening a flat image both come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..emulate.image import Segment
from ..errors import TramplabError
from . import kallsyms
from .types import Types


@dataclass(frozen=True)
class Parts:
    """segments: at their addresses as linked. symbols: (kind, name, address, size in bytes or 0). types: layouts and prototypes.
    symbols_from, facts: for the reader. sections, section_at: an ELF file's tables for patching at boot, by name, and where they
    lie."""

    segments: tuple[Segment, ...]
    symbols: tuple[tuple[str, str, int, int], ...]
    types: Types
    symbols_from: str
    facts: tuple[str, ...] = ()
    sections: dict[str, bytes] = field(default_factory=dict)
    section_at: dict[str, int] = field(default_factory=dict)


def no_symbols(path: Path) -> TramplabError:
    """For an image that names nothing."""
    return TramplabError(
        f"{path} has no table of symbols (kallsyms): give the vmlinux of its build, or a kernel with CONFIG_KALLSYMS=y."
    )


def no_types(path: Path) -> TramplabError:
    """For an image that says nothing of its structs."""
    return TramplabError(
        f"{path} has neither BTF nor DWARF, so the layout of its structs is unknown: give a kernel with CONFIG_DEBUG_INFO_BTF=y, or "
        f"the vmlinux of its build with debug info."
    )


def named(table: kallsyms.Table, shift: int = 0) -> tuple[tuple[str, str, int, int], ...]:
    """A kallsyms table's symbols, moved by so many bytes; their sizes it does not say."""
    return tuple((s.kind, s.name, s.value + shift & (1 << 64) - 1, 0) for s in table.symbols)
