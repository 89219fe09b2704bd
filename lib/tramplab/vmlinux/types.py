"""Where an image's struct layouts and prototypes come from: BTF, or DWARF where somebody's own build has only that."""

from __future__ import annotations

import io
from typing import Protocol

from elftools.elf.elffile import ELFFile

from ..build import dwarf
from ..build.dwarf import Prototype, Struct
from ..errors import unknown
from .btf import Btf

#: The compilation units that have what is asked for: ftrace, BPF's trampolines, fprobe, kprobes, and tasks.
_UNITS = (
    "kernel/trace/ftrace.c",
    "kernel/trace/fgraph.c",
    "kernel/trace/fprobe.c",
    "kernel/trace/rethook.c",
    "kernel/bpf/trampoline.c",
    "kernel/kprobes.c",
    "net/bpf/test_run.c",
)


class Types(Protocol):
    """What knows layouts and prototypes."""

    @property
    def origin(self) -> str:
        """What they were read from, for the reader."""

    def struct(self, name: str) -> Struct:
        """A struct's layout; raises TramplabError with near matches."""

    def has(self, struct_name: str, member: str = "") -> bool:
        """Is there such a struct, with such a member?"""

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result; None where nothing is said of it."""


class FromBtf:
    """Of an image with BTF."""

    origin = "BTF"

    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self.struct, self.has, self.prototype = btf.struct, btf.has, btf.prototype


class FromDwarf:
    """Of an ELF file with debug info; only the units are read that know what is asked for."""

    origin = "DWARF"

    def __init__(self, data: bytes) -> None:
        info = ELFFile(io.BytesIO(data)).get_dwarf_info()
        self._structs: dict[str, Struct] = {}
        self._prototypes: dict[str, Prototype] = {}
        for unit in info.iter_CUs():
            top = unit.get_top_DIE()
            name = top.attributes["DW_AT_name"].value.decode() if "DW_AT_name" in top.attributes else ""
            if name.endswith(_UNITS):
                structs, prototypes = dwarf.of_unit(unit)
                self._structs = {**structs, **self._structs}
                self._prototypes |= prototypes

    def struct(self, name: str) -> Struct:
        """A struct's layout; raises TramplabError with near matches."""
        try:
            return self._structs[name]
        except KeyError:
            raise unknown("struct in its DWARF", name, sorted(self._structs)) from None

    def has(self, struct_name: str, member: str = "") -> bool:
        """Is there such a struct, with such a member?"""
        found = self._structs.get(struct_name)
        return found is not None and (not member or member in found.fields)

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result; None where nothing is said of it."""
        return self._prototypes.get(name)
