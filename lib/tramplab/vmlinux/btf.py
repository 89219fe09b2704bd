"""Struct layouts and prototypes from BTF, the compact type data that a kernel carries with it.

The format is described in Documentation/bpf/btf.rst: a header, the types one behind the other, numbered from 1, and their names.
"""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Iterator

from ..build.dwarf import Field, Prototype, Struct, Value
from ..errors import TramplabError, unknown

_HEADER = struct.Struct("<HBBIIIII")
MAGIC = bytes.fromhex("9feb0100") + _HEADER.size.to_bytes(4, "little")
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, PROTO, VAR, DATASEC, FLOAT, DECL, TAG, ENUM64 = range(
    1, 20
)
_THROUGH = {TYPEDEF, VOLATILE, CONST, RESTRICT, TAG}
#: Bytes behind the 12 that each type has, for each kind: fixed, and for each of its members.
_MORE = {INT: (4, 0), ARRAY: (12, 0), STRUCT: (0, 12), UNION: (0, 12), ENUM: (0, 8), PROTO: (0, 8), VAR: (4, 0), DATASEC: (0, 12)}
_MORE |= {DECL: (4, 0), ENUM64: (0, 12)}


class Btf:
    """The types in some bytes that begin with a BTF header. Raises TramplabError where they are not whole."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER.size or data[:8] != MAGIC:
            raise TramplabError("its BTF does not begin as BTF does.")
        *_, head, types, types_size, names, names_size = _HEADER.unpack_from(data)
        if max(head + types + types_size, head + names + names_size) > len(data):
            raise TramplabError("its BTF is cut short.")
        self._data = data[head + types : head + types + types_size]
        self._strings = data[head + names : head + names + names_size]
        self._at = array("I", [0])
        try:
            self._at.extend(self._index())
        except struct.error:
            raise TramplabError("its BTF is cut short.") from None

    @property
    def size(self) -> int:
        """How many types there are."""
        return len(self._at) - 1

    def struct(self, name: str) -> Struct:
        """A struct's layout, members of its anonymous ones among its own; raises TramplabError with near matches."""
        found = self._by_name.get((STRUCT, name))
        if found is None:
            raise unknown("struct in its BTF", name, sorted(n for kind, n in self._by_name if kind == STRUCT))
        return Struct(name, self._size(found), dict(self._members(found, 0)))

    def has(self, struct_name: str, member: str = "") -> bool:
        """Is there such a struct, with such a member?"""
        found = self._by_name.get((STRUCT, struct_name))
        return found is not None and (not member or member in dict(self._members(found, 0)))

    def prototype(self, name: str) -> Prototype | None:
        """A function's parameters and result; None where nothing is said of it."""
        found = self._by_name.get((FUNC, name))
        if found is None:
            return None
        proto = self._type(found)[2]
        at, _, result = self._type(proto)
        count = self._count(proto)
        parameters = [struct.unpack_from("<II", self._data, at + 12 + 8 * n)[1] for n in range(count)]
        return Prototype(name, tuple(map(self._value, parameters)), self._value(result))

    def enum(self, constant: str) -> int | None:
        """The value of a constant of some enum; None if there is none of that name."""
        wanted = self._strings.find(b"\0" + constant.encode() + b"\0") + 1
        if not wanted:
            return None
        for number in range(1, len(self._at)):
            at, kind, _ = self._type(number)
            if kind == ENUM:
                for n in range(self._count(number)):
                    name, value = struct.unpack_from("<Ii", self._data, at + 12 + 8 * n)
                    if name == wanted:
                        return value
        return None

    # inside

    def _index(self) -> Iterator[int]:
        at, data, unpack = 0, self._data, struct.Struct("<I").unpack_from
        while at < len(data):
            (info,) = unpack(data, at + 4)
            fixed, each = _MORE.get(info >> 24 & 31, (0, 0))
            yield at
            at += 12 + fixed + each * (info & 0xFFFF)

    @functools.cached_property
    def _by_name(self) -> dict[tuple[int, str], int]:
        out: dict[tuple[int, str], int] = {}
        unpack, data = struct.Struct("<II").unpack_from, self._data
        for number in range(1, len(self._at)):
            name, info = unpack(data, self._at[number])
            kind = info >> 24 & 31
            if name and kind in (STRUCT, FUNC):
                out.setdefault((kind, self._name(name)), number)
        return out

    def _type(self, number: int) -> tuple[int, int, int]:
        """Where a type lies, its kind, and its size or the type it refers to."""
        if not 0 < number < len(self._at):
            raise TramplabError(f"its BTF refers to a type {number}, and there are {self.size}.")
        at = self._at[number]
        _, info, what = struct.unpack_from("<III", self._data, at)
        return at, info >> 24 & 31, what

    def _count(self, number: int) -> int:
        return struct.unpack_from("<I", self._data, self._at[number] + 4)[0] & 0xFFFF

    def _name(self, offset: int) -> str:
        return self._strings[offset : self._strings.find(b"\0", offset)].decode("latin-1")

    def _bare(self, number: int) -> int:
        """A type without its typedefs and qualifiers; 0 is void."""
        for _ in range(100):
            if not number:
                return 0
            _, kind, what = self._type(number)
            if kind not in _THROUGH:
                return number
            number = what
        raise TramplabError("its BTF has a type that stands for itself.")

    def _size(self, number: int) -> int:
        return self._sized(number)[0]

    def _sized(self, number: int) -> tuple[int, int]:
        """(bytes, elements) of a type; elements of what is no array are 0."""
        number = self._bare(number)
        if not number:
            return 0, 0
        at, kind, what = self._type(number)
        if kind == PTR:
            return 8, 0
        if kind == ARRAY:
            of, _, elements = struct.unpack_from("<III", self._data, at + 12)
            return self._size(of) * elements, elements
        return (0, 0) if kind in (FUNC, PROTO, FWD) else (what, 0)

    def _value(self, number: int) -> Value:
        bare = self._bare(number)
        return Value(self._size(bare), bool(bare) and self._type(bare)[1] in (STRUCT, UNION))

    def _members(self, number: int, base: int) -> Iterator[tuple[str, Field]]:
        """(name, field) of each member, offset counted from the outermost struct; of bit fields the byte they begin in."""
        at, _, _ = self._type(number)
        bits = struct.unpack_from("<I", self._data, at + 4)[0] >> 31
        for n in range(self._count(number)):
            name, of, offset = struct.unpack_from("<III", self._data, at + 12 + 12 * n)
            where = base + ((offset & 0xFFFFFF) if bits else offset) // 8
            bare = self._bare(of)
            if name:
                yield self._name(name), Field(where, *self._sized(of))
            elif bare and self._type(bare)[1] in (STRUCT, UNION):
                yield from self._members(bare, where)


def find(data: bytes) -> Btf | None:
    """The largest BTF in these bytes; None if there is none."""
    found: list[Btf] = []
    at = data.find(MAGIC)
    while at >= 0:
        try:
            found.append(Btf(data[at : at + _extent(data, at)]))
        except TramplabError:
            pass
        at = data.find(MAGIC, at + 1)
    return max(found, key=lambda b: b.size, default=None)


def _extent(data: bytes, at: int) -> int:
    *_, head, types, types_size, names, names_size = _HEADER.unpack_from(data.ljust(at + _HEADER.size, b"\0"), at)
    return max(head + types + types_size, head + names + names_size)
