"""Struct layouts and prototypes from the DWARF of an ELF file, read when they are asked for."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

from ....base.errors import TramplabError
from ....build import dwarf
from ....build.dwarf import Prototype, Struct
from ..missing import absent
from ..sections import COMPRESSED, Section
from .units import units

#: The source files whose units have what is asked for: ftrace, BPF's trampolines, fprobe, kprobes, tasks, and x86-64's
#: alternatives.
_SOURCES = (
    "kernel/trace/ftrace.c",
    "kernel/trace/fgraph.c",
    "kernel/trace/fprobe.c",
    "kernel/trace/rethook.c",
    "kernel/bpf/trampoline.c",
    "kernel/kprobes.c",
    "net/bpf/test_run.c",
    "arch/x86/kernel/alternative.c",
)
#: All sections that the reader takes.
_SECTIONS = (
    "debug_info debug_abbrev debug_str debug_line_str debug_str_offsets debug_addr debug_types debug_loc debug_ranges "
    "debug_loclists debug_rnglists debug_line debug_frame eh_frame debug_aranges debug_pubtypes debug_pubnames debug_sup "
    "gnu_debugaltlink"
).split()

_T = TypeVar("_T")


class FromDwarf:
    """The types of an ELF file with debug info; only units that have what is asked for are read.

    found: the file's sections by name, those that have bytes.

    Raises TramplabError where they have none of these units; and later where one is damaged.
    """

    origin = "DWARF"

    def __init__(self, data: bytes, found: dict[str, Section], path: Path) -> None:
        self._path = path
        present = {name: found[f".{name}"] for name in _SECTIONS if f".{name}" in found}
        if any(s.flags & COMPRESSED for s in present.values()):
            raise TramplabError(
                f"the debug info of {path} is compressed: run `objcopy --decompress-debug-sections FILE OUT` and give what "
                f"comes out."
            )
        views = {name: memoryview(data)[s.at : s.at + s.size] for name, s in present.items()}
        wanted = self._whole(lambda: [at for at, name in units(views) if name.endswith(_SOURCES)])
        if not wanted:
            raise TramplabError(
                f"the debug info of {path} does not cover {_SOURCES[0]}: give a vmlinux with CONFIG_FUNCTION_TRACER=y and all of "
                f"its debug info."
            )
        info = _reader(views)
        self._unread = [info.get_CU_at(at) for at in reversed(wanted)]
        self._structs: dict[str, DIE] = {}
        self._functions: dict[str, DIE] = {}
        self._enumerators: dict[str, DIE] = {}
        self._known: dict[str, Struct] = {}

    def struct(self, name: str) -> Struct:
        """A struct's layout; raises TramplabError with near matches."""
        if name not in self._known:
            die = self._find(self._structs, name)
            if die is None:
                raise absent(self._path, "struct", name, self._structs)
            self._known[name] = self._whole(lambda: dwarf.struct(die))
        return self._known[name]

    def has(self, struct_name: str, member: str = "") -> bool:
        """Is there such a struct, with such a member?"""
        return self._find(self._structs, struct_name) is not None and (not member or member in self.struct(struct_name).fields)

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result; None where nothing is said of it."""
        die = self._find(self._functions, name)
        return None if die is None else self._whole(lambda: dwarf.prototype(die))

    def enumerator(self, name: str) -> int | None:
        """The value of an enumeration's constant, without a sign; None where there is none of that name."""
        die = self._find(self._enumerators, name)
        return None if die is None else self._whole(lambda: dwarf.enumerator(die))

    def _find(self, entries: dict[str, DIE], name: str) -> DIE | None:
        """What one of the units says of a name; further units are read until one knows it."""
        while name not in entries and self._unread:
            unit = self._unread.pop()
            entries_of = self._whole(functools.partial(dwarf.of_unit, unit))
            for names, more in zip((self._structs, self._functions, self._enumerators), entries_of, strict=True):
                names.update({**more, **names})
        return entries.get(name)

    def _whole(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except Exception as e:  # what the reader trips over in a damaged file is not to be foreseen
            message = str(e) if type(e) is ValueError else f"{type(e).__name__} {e}"
            why = " ".join(message.partition(". ")[0].split())[:200]
            raise TramplabError(f"the debug info of {self._path} is damaged ({why}): get the whole file again.") from None


class _Window(io.RawIOBase):
    """A part of a file that is in memory, as a file: it is not copied, for debug info has hundreds of megabytes."""

    def __init__(self, data: memoryview) -> None:
        self._size, self._data, self._at = len(data), data, 0

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or all that are left."""
        start = self._at
        self._at = self._size if size < 0 else min(start + size, self._size)
        return bytes(self._data[start : self._at])

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the place at which read() goes on, and return it."""
        self._at = min(max(0, offset + (0, self._at, self._size)[whence]), self._size)
        return self._at

    def tell(self) -> int:
        """The place at which read() goes on."""
        return self._at


def _reader(views: dict[str, memoryview]) -> DWARFInfo:
    sections = {name: DebugSectionDescriptor(cast(BinaryIO, _Window(view)), name, 0, len(view), 0) for name, view in views.items()}
    return DWARFInfo(DwarfConfig(True, "", 8), **{f"{name}_sec": sections.get(name) for name in _SECTIONS})
