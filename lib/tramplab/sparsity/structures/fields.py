"""The fields of an image's structs of registers, by the names that readers know them by."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...base.errors import unknown
from ...build.dwarf import Struct
from ...isa import Isa

#: The structs that hold registers. Where a ftrace_regs embeds a pt_regs, its fields are that one's.
PT_REGS, FTRACE_REGS = KINDS = ("pt_regs", "ftrace_regs")
_EMBEDDED = "regs"
#: ISA -> array of one of these structs -> what its elements are called; elements of others are name[n].
_ARRAYS = {"x86_64": {}, "arm64": {"regs": "x"}, "riscv64": {"args": "a"}}
#: Bytes of a register's place in either struct.
WORD = 8


class Layouts(Protocol):
    """The layouts of structs: those of an image of the lab's, or what a kernel image says of its own."""

    @property
    def isa(self) -> Isa:
        """The ISA whose registers the structs hold."""

    def struct(self, name: str) -> Struct:
        """The layout of a struct; raises TramplabError with near matches."""

    def __hash__(self) -> int:
        """A hash: layouts never change, and none equals another."""


@dataclass(frozen=True)
class Place:
    """A field: where it begins and how long it is, in bytes, and what it is called."""

    offset: int
    size: int
    name: str

    def of(self, data: bytes) -> int:
        """The field's value in the bytes of its struct.

        >>> Place(1, 2, "flags").of(bytes((9, 1, 2, 9))) == 0x201
        True
        """
        return int.from_bytes(data[self.offset : self.offset + self.size], "little")


@functools.lru_cache(maxsize=64)
def places(image: Layouts, kind: str) -> tuple[Place, ...]:
    """All fields of a struct of registers, in order, an array's elements each for itself. Of members that share their bytes, as
    those of a union do, the first that is no larger than a register is the one.

    Raises TramplabError, with near matches, for a kind that is none of KINDS.
    """
    if kind not in KINDS:
        raise unknown("structure of registers", kind, KINDS)
    return tuple(_apart(_of(image, image.struct(kind), 0)))


def _of(image: Layouts, struct: Struct, base: int) -> list[Place]:
    out: list[Place] = []
    for name, field in struct.fields.items():
        if name == _EMBEDDED and not field.elements:
            out += _of(image, image.struct(PT_REGS), base + field.offset)
        elif field.elements:
            each, called = field.size // field.elements, _ARRAYS[image.isa.name].get(name)
            for n in range(field.elements):
                element = f"{name}[{n}]" if called is None else f"{called}{n}"
                out.append(Place(base + field.offset + n * each, each, element))
        else:
            out.append(Place(base + field.offset, field.size, name))
    return sorted(out, key=lambda place: place.offset)


def _apart(found: Sequence[Place]) -> list[Place]:
    """The places without those that others cover: of several at one offset the first. A field larger than a register is the name of
    several others, or becomes its words."""
    small = [place for place in found if place.size <= WORD]
    by_offset = {place.offset: place for place in reversed(small)}
    for large in (place for place in found if place.size > WORD):
        words = [Place(large.offset + at, WORD, f"{large.name}[{at // WORD}]") for at in range(0, large.size, WORD)]
        whole = [w for w in words if not any(p.offset < w.offset + WORD and w.offset < p.offset + p.size for p in small)]
        by_offset |= {w.offset: w for w in whole}
    return sorted(by_offset.values(), key=lambda place: place.offset)


def embeds(image: Layouts) -> bool:
    """Is an image's ftrace_regs a pt_regs, field by field?"""
    return places(image, FTRACE_REGS) == places(image, PT_REGS)


def named(image: Layouts, kind: str, name: str) -> Place:
    """A field by its name; raises TramplabError with near matches."""
    by_name = {place.name: place for place in places(image, kind)}
    if name not in by_name:
        raise unknown(f"field of {image.isa.name}'s {kind}", name, by_name)
    return by_name[name]


def touched(image: Layouts, kind: str, offset: int, size: int) -> tuple[str, ...]:
    """The names of the fields that so many bytes from an offset on are part of."""
    return tuple(p.name for p in places(image, kind) if p.offset < offset + size and offset < p.offset + p.size)
