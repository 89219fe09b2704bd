"""The fields of an image's structs of registers, by the names that readers know them by."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...build.dwarf import Struct
from ...emulate.image import Image
from ...errors import unknown

#: The structs that hold registers. Where a ftrace_regs embeds a pt_regs, its fields are that one's.
PT_REGS, FTRACE_REGS = KINDS = ("pt_regs", "ftrace_regs")
_EMBEDDED = "regs"
#: ISA -> array of one of these structs -> what its elements are called; elements of others are name[n].
_ARRAYS = {"x86_64": {}, "arm64": {"regs": "x"}, "riscv64": {"args": "a"}}
#: Bytes of a register's place in either struct.
WORD = 8


@dataclass(frozen=True)
class Place:
    """A field: where it begins and how long it is, in bytes, and what it is called."""

    offset: int
    size: int
    name: str


@functools.lru_cache(maxsize=64)
def places(image: Image, kind: str) -> tuple[Place, ...]:
    """All fields of a struct of registers, in order, an array's elements each for itself.

    Raises TramplabError, with near matches, for a kind that is none of KINDS.
    """
    if kind not in KINDS:
        raise unknown("structure of registers", kind, KINDS)
    return tuple(_of(image, image.struct(kind), 0))


def _of(image: Image, struct: Struct, base: int) -> list[Place]:
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


def named(image: Image, kind: str, name: str) -> Place:
    """A field by its name; raises TramplabError with near matches."""
    found = {place.name: place for place in places(image, kind)}
    if name not in found:
        raise unknown(f"field of {image.isa.name}'s {kind}", name, found)
    return found[name]


def touched(image: Image, kind: str, offset: int, size: int) -> tuple[str, ...]:
    """The names of the fields that so many bytes from an offset on are part of."""
    return tuple(p.name for p in places(image, kind) if p.offset < offset + size and offset < p.offset + p.size)
