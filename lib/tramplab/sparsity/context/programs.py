"""The programs of data/context-programs.yml: examples of what could be rewritten, and of what could not."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta

from ...base.entries import Entry, OfIsas, Text, facts
from ...base.errors import TramplabError, unknown
from ...build.dwarf import Struct
from ...isa import ISAS, Isa
from .encoding import Program
from .layout import slots
from .text import assembled

FILE = "context-programs.yml"
#: The name in programs for the size of a pt_regs.
_SIZE = "size"


class Written(Entry, frozen=True):
    """A program as it is written: its name, what it does, what it is an example of, and its text, the same for all ISAs."""

    name: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", description="a program's name is words with hyphens")]
    title: Text
    shows: Text
    text: Text

    def on(self, isa: Isa, pt_regs: Struct) -> Program:
        """The program for one ISA's struct pt_regs; raises TramplabError where that has no such field."""
        return assembled(self.text, offsets(isa, pt_regs))


class _File(Entry, frozen=True):
    registers: OfIsas[dict[str, Text]]
    renamed: OfIsas[dict[str, Text]]
    programs: Annotated[tuple[Written, ...], Meta(min_length=1)]


class _Programs(Mapping[str, Written]):
    """Programs by name, read when they are first asked for."""

    def __getitem__(self, name: str) -> Written:
        return _read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_read())

    def __len__(self) -> int:
        return len(_read())


#: All of them, by name, in the file's order.
PROGRAMS: Mapping[str, Written] = _Programs()


def program(name: str) -> Written:
    """The program of this name; raises TramplabError with near matches."""
    if name not in PROGRAMS:
        raise unknown("context program", name, PROGRAMS)
    return PROGRAMS[name]


def offsets(isa: Isa, pt_regs: Struct) -> dict[str, int]:
    """Name in programs -> its number on an ISA: offsets in its pt_regs, and the size of that."""
    offset_of = {s.name: s.offset for s in slots(pt_regs)}
    named = registers(isa)
    for slot in named.values():
        if slot not in offset_of:
            raise unknown(f"slot of {isa.name}'s pt_regs", slot, offset_of)
    return {_SIZE: pt_regs.size} | {name: offset_of[slot] for name, slot in named.items()}


def registers(isa: Isa) -> dict[str, str]:
    """The names in programs, and which slot of pt_regs each stands for."""
    return dict(_data().registers[isa.name])


def renamed(isa: Isa) -> dict[str, str]:
    """Slots of pt_regs that ftrace_regs calls otherwise, and how."""
    return dict(_data().renamed[isa.name])


@functools.cache
def _data() -> _File:
    """What the file says, whose entries owe each other that every ISA has every name, and that a name is one program's."""
    found = facts(FILE, _File)
    named = found.registers
    for isa, other in itertools.combinations(ISAS, 2):
        for name in sorted(set(named[isa]) ^ set(named[other])):
            raise TramplabError(f"{FILE}: registers: {name} is not there on {isa if name in named[other] else other}.")
    names = [entry.name for entry in found.programs]
    for name in names:
        if names.count(name) > 1:
            raise TramplabError(f"{FILE}: the name {name} is given twice; a name is for one program.")
    return found


@functools.cache
def _read() -> dict[str, Written]:
    return {entry.name: entry for entry in _data().programs}
