"""Struct layouts and prototypes from BTF, the compact type data that a kernel carries with it.

The format is described in Documentation/bpf/btf.rst: a header, the types one behind the other, numbered from 1, and their names.
"""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from ....base.errors import TramplabError
from ....build.dwarf import Field, Prototype, Struct, Value
from ..kallsyms import LONGEST
from ..missing import absent

_HEADER = struct.Struct("<HBBIIIII")
_MAGIC = b"\x9f\xeb\1\0"  # with the version, and no flags
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, PROTO = range(1, 14)
VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(14, 20)
_THROUGH = {TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG}
#: Bytes behind the 12 that each type has, for each kind that has any: fixed, and for each of its members.
_FIXED = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
_EACH = {STRUCT: 12, UNION: 12, ENUM: 8, PROTO: 8, DATASEC: 12, ENUM64: 12}
_DEEP, _MANY, _LARGE = 100, 1 << 16, 1 << 32  # types behind a type; members of a struct with all within; bytes of a type
_TRIES = 10  # places that look like BTF


class Btf:
    """The types in some bytes that begin with a BTF header. path: the file they are from.

    Whatever is asked raises TramplabError where the types contradict themselves, as those of a damaged file do.
    """

    origin = "BTF"

    def __init__(self, data: bytes, path: Path) -> None:
        self._path = path
        found = _parts(data)
        if found is None:
            raise self._garbled("its header does not fit it")
        self._data, self._strings = found
        self._at = array("I", [0])
        try:
            self._at.extend(self._index())
        except struct.error:
            raise self._garbled("its last type is cut short") from None

    def struct(self, name: str) -> Struct:
        """A struct's layout, members of its anonymous ones among its own; raises TramplabError with near matches."""
        if name not in self._structs:
            numbers = self._by_name.get((STRUCT, name))
            if numbers is None:
                raise absent(self._path, "struct", name, (n for kind, n in self._by_name if kind == STRUCT))
            self._structs[name] = Struct(name, self._type(numbers)[2], dict(self._members(numbers)))
        return self._structs[name]

    def has(self, struct_name: str, member: str = "") -> bool:
        """Is there such a struct, with such a member?"""
        return (STRUCT, struct_name) in self._by_name and (not member or member in self.struct(struct_name).fields)

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result; None where nothing is said of it."""
        found = self._by_name.get((FUNC, name))
        if found is None:
            return None
        at, kind, result = self._type(self._type(found)[2])
        if kind != PROTO:
            raise self._garbled(f"the function {name} has no prototype")
        parameters = [of for _, of in self._each(at, "<II")]
        if parameters and not parameters[-1]:  # an ellipsis
            parameters.pop()
        return Prototype(name, tuple(map(self._value, parameters)), self._value(result))

    def number(self, function: str) -> int:
        """The number of a function's type, which tells the kernel what to attach to; raises TramplabError with near matches."""
        numbers = self._by_name.get((FUNC, function))
        if numbers is None:
            raise absent(self._path, "function", function, (n for kind, n in self._by_name if kind == FUNC))
        return numbers

    def enumerator(self, name: str) -> int | None:
        """The value of an enumeration's constant, without a sign; None where there is none of that name."""
        at = self._strings.find(b"\0" + name.encode("latin-1", "replace") + b"\0") + 1
        return self._enumerators.get(at) if at else None

    # inside

    @functools.cached_property
    def _structs(self) -> dict[str, Struct]:
        return {}

    def _garbled(self, how: str) -> TramplabError:
        return TramplabError(f"the BTF in {self._path} is garbled ({how}): get the file again, and compare its checksum.")

    def _index(self) -> Iterator[int]:
        """The place of each type."""
        at, data, unpack = 0, self._data, struct.Struct("<I").unpack_from
        while at < len(data):
            (info,) = unpack(data, at + 4)
            kind = info >> 24 & 0x7F
            if not INT <= kind <= ENUM64:
                raise self._garbled(f"it has a type of kind {kind}, of which nothing is known here")
            yield at
            at += 12 + _FIXED.get(kind, 0) + _EACH.get(kind, 0) * (info & 0xFFFFFF)
        if at > len(data):
            raise self._garbled("its last type is cut short")

    @functools.cached_property
    def _by_name(self) -> dict[tuple[int, str], int]:
        """(kind, name) -> the number of the first such struct or function."""
        out: dict[tuple[int, str], int] = {}
        unpack, data = struct.Struct("<II").unpack_from, self._data
        room = 2 * len(self._strings)  # a struct and a function may share a name
        for number in range(1, len(self._at)):
            name, info = unpack(data, self._at[number])
            kind = info >> 24 & 0x7F
            if name and kind in (STRUCT, FUNC) and (key := (kind, self._name(name))) not in out:
                out[key] = number
                room -= len(key[1])
                if room < 0:
                    raise self._garbled("it has more names than bytes of them")
        return out

    @functools.cached_property
    def _enumerators(self) -> dict[int, int]:
        """Offset of an enumerator's name -> its value, the first of each name."""
        values: dict[int, int] = {}
        for at in self._at[1:]:
            kind = self._info(at) >> 24 & 0x7F
            if kind in (ENUM, ENUM64):
                for name, low, *high in self._each(at, "<II" if kind == ENUM else "<III"):
                    values.setdefault(name, low | sum(high) << 32)
        return values

    def _type(self, number: int) -> tuple[int, int, int]:
        """A type's place, its kind, and its size or the number of the type that it refers to."""
        if not 0 < number < len(self._at):
            raise self._garbled(f"it refers to type {number}, and there are {len(self._at) - 1}")
        at = self._at[number]
        _, info, what = struct.unpack_from("<III", self._data, at)
        return at, info >> 24 & 0x7F, what

    def _each(self, at: int, layout: str) -> Iterable[tuple[int, ...]]:
        """The records after the type at this place, one for each of its members."""
        return struct.iter_unpack(layout, self._data[at + 12 : at + 12 + struct.calcsize(layout) * (self._info(at) & 0xFFFFFF)])

    def _info(self, at: int) -> int:
        """The word of a type that has its kind, how many members it has, and a flag."""
        return int.from_bytes(self._data[at + 4 : at + 8], "little")

    def _name(self, offset: int) -> str:
        if offset >= len(self._strings):
            raise self._garbled("a name lies beyond the names")
        name, end, _ = self._strings[offset : offset + LONGEST].partition(b"\0")
        if not end:  # kernel/bpf/btf.c takes none that is longer
            raise self._garbled("a name is too long")
        return name.decode("latin-1")

    def _bare(self, number: int) -> int:
        """A type without its typedefs and qualifiers; 0 is void."""
        for _ in range(_DEEP):
            if not number:
                return 0
            _, kind, what = self._type(number)
            if kind not in _THROUGH:
                return number
            number = what
        raise self._garbled("a type stands for itself")

    def _sized(self, number: int) -> tuple[int, int]:
        """(bytes, elements) of a type; elements of what is no array are 0."""
        size, all_elements = 1, 0
        for depth in range(_DEEP):
            number = self._bare(number)
            at, kind, what = self._type(number) if number else (0, FWD, 0)
            if kind != ARRAY:
                size *= 8 if kind == PTR else 0 if kind in (FUNC, PROTO, FWD) else what
                if size >= _LARGE:
                    break
                return size, all_elements
            number, _, elements = struct.unpack_from("<III", self._data, at + 12)
            size, all_elements = size * elements, elements * (all_elements if depth else 1)
        raise self._garbled("an array has no end")

    def _value(self, number: int) -> Value:
        bare = self._bare(number)
        kind = self._type(bare)[1] if bare else None
        return Value(self._sized(bare)[0], kind in (STRUCT, UNION), kind == UNION)

    def _members(self, number: int) -> Iterator[tuple[str, Field]]:
        """(name, field) of each member, offset counted from the outermost struct; of bit fields the byte they begin in."""
        todo, room = [(0, number, 0)], _MANY  # the last one is the next
        while todo:
            name, of, where = todo.pop()
            bare = self._bare(of)
            if name:
                yield self._name(name), Field(where, *self._sized(of))
            elif bare and self._type(bare)[1] in (STRUCT, UNION):
                at = self._type(bare)[0]
                room -= 1 + (self._info(at) & 0xFFFFFF)
                if room < 0:
                    raise self._garbled("a struct has no end")
                bits = 0xFFFFFF if self._info(at) >> 31 else 0xFFFFFFFF  # of a bit field, how many it has stands above
                todo += [(n, t, where + (offset & bits) // 8) for n, t, offset in self._each(at, "<III")][::-1]


def find(data: bytes | bytearray, path: Path) -> Btf | None:
    """The largest BTF in these bytes; None if there is none. Raises TramplabError where it is garbled."""
    places: list[tuple[int, int]] = []
    at = data.find(_MAGIC)
    while at >= 0 and len(places) < _TRIES:
        size = _extent(data, at)
        if size and at + size <= len(data):
            places.append((size, at))
        at = data.find(_MAGIC, at + 1)
    failed: TramplabError | None = None
    for size, at in sorted(places, reverse=True):
        try:
            return Btf(bytes(data[at : at + size]), path)
        except TramplabError as e:
            failed = failed or e
    if failed:
        raise failed
    return None


def _extent(data: bytes | bytearray, at: int) -> int:
    """How many bytes a BTF takes, as its header says; 0 where that is none."""
    if at + _HEADER.size > len(data) or data[at : at + len(_MAGIC)] != _MAGIC:
        return 0
    *_, head, types, types_size, names, names_size = _HEADER.unpack_from(data, at)
    whole = _HEADER.size <= head and not types % 4 and types_size and names_size
    return max(head + types + types_size, head + names + names_size) if whole else 0


def _parts(data: bytes) -> tuple[bytes, bytes] | None:
    """The types and the names; None where the header does not fit."""
    if not 0 < _extent(data, 0) <= len(data):
        return None
    *_, head, types, types_size, names, names_size = _HEADER.unpack_from(data)
    strings = data[head + names : head + names + names_size]
    return (data[head + types : head + types + types_size], strings) if strings[:1] == strings[-1:] == b"\0" else None
