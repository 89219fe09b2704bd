"""The common result of opening an ELF file and opening a flat image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ...base.errors import TramplabError
from .debuginfo.types import Types
from .kallsyms import Table

#: (name, address, size in bytes or 0) of each symbol.
Symbols: TypeAlias = list[tuple[str, int, int]]

#: A kernel's own line of its version, with three groups: "6", "12", ".107+deb13-amd64".
BANNER = re.compile(rb"Linux version (\d+)\.(\d+)(\S*) [^\0\n]{10,400}")
#: Addresses from here on are the kernel's.
KERNEL = 1 << 63
#: Bytes of memory that an image may take, with what is zero in it.
LIMIT = 1 << 30


@dataclass(frozen=True)
class Load:
    """Bytes at the address they are linked for; size: with the zeros behind them."""

    address: int
    data: memoryview
    size: int


@dataclass(frozen=True)
class Parts:
    """What is in an image. types: layouts and prototypes. symbols_from, facts: for the reader."""

    loads: tuple[Load, ...]
    symbols: Symbols
    types: Types
    symbols_from: str
    facts: tuple[str, ...] = ()


def named(table: Table, moved: int = 0) -> Symbols:
    """The symbols of a table, moved by so many bytes; a table does not say their sizes."""
    return [(name, value + moved, 0) for name, value in zip(table.names, table.values, strict=True)]


def no_symbols(path: Path) -> TramplabError:
    """The error for an image that names nothing."""
    return TramplabError(
        f"{path} has no table of symbols (kallsyms), or none that is whole: give the vmlinux of its build, or a kernel with "
        f"CONFIG_KALLSYMS=y."
    )


def no_types(path: Path) -> TramplabError:
    """The error for an image that says nothing of its structs."""
    return TramplabError(
        f"{path} has neither BTF nor DWARF, so the layout of its structs is unknown: give a kernel with "
        f"CONFIG_DEBUG_INFO_BTF=y, or the vmlinux of its build with debug info."
    )


def too_large(path: Path, size: int) -> TramplabError:
    """The error for an image that would take more memory than any kernel does."""
    return TramplabError(f"{path} says that it takes {size} bytes of memory, which is no kernel's size: get the whole file again.")
