"""Entries of data files as types: what a file may say is the type that its reader has, and a mistake in it is one sentence.

A type says what one entry is like; what entries owe each other, such as a name that another one must have, is checked by the code
that reads the file.
"""

from __future__ import annotations

import reprlib
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from . import documents
from .errors import TramplabError, unknown
from .paths import PACKAGE

T = TypeVar("T")
Text = Annotated[str, Meta(min_length=1)]
IsaName = Literal["x86_64", "arm64", "riscv64"]
Release = Annotated[str, Meta(pattern=r"^v\d+\.\d+$", description="a release is written like v6.16")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", description="a SHA-256 has 64 hexadecimal digits in small letters")]
Message = Annotated[str, Meta(pattern=r"^[^<>@\s]+@[^<>@\s]+$", description="a message-id stands without < and >")]
#: What the address of a mail begins with.
LORE = "https://lore.kernel.org/r/"


def mail_address(message: str) -> str:
    """The address at which a mail can be read."""
    return f"{LORE}{message}/"


_COMMITS = "a commit is written with 12 digits, several with commas"
Commits = Annotated[str, Meta(pattern="^[0-9a-f]{12}(, [0-9a-f]{12})*$", description=_COMMITS)]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
#: A field that no file may have: the code that reads the file fills in the file's name or the entry's key.
Unsaid = Annotated[str, Meta(max_length=0, description="the file's name or the entry's key tells it")]
#: How well a release is known.
Sure = Literal["read", "inferred", "recalled"]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping in a data file, with these keys and no others."""


class OfIsas(Entry, Generic[T], frozen=True):
    """One value of the same type for each ISA."""

    x86_64: T
    arm64: T
    riscv64: T

    def __getitem__(self, isa: str) -> T:
        return getattr(self, isa)


class Source(Entry, frozen=True):
    """What a fact rests on: in words, as commits with commas between them, and as the message-id of a mail."""

    text: Text
    commit: Commits = ""
    message: Message = ""


def facts(file: str, kind: type[T], strict: bool = True, package: Path = PACKAGE) -> T:
    """The content of a file of data/, see data_file(); raises TramplabError that names the file and the mistake. strict: see
    checked()."""
    return checked(file, documents.read(file, package), kind, strict)


def checked(file: str, data: object, kind: type[T], strict: bool = True) -> T:
    """The data as this type; raises TramplabError that names the file, the entry and what is wrong. Where it is not strict, text
    that says a number is one.

    >>> checked("sizes.yml", {"small": [1, "2"]}, dict[str, list[int]])
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: sizes.yml: small, number 2: expected `int`, got `str`.
    """
    try:
        return msgspec.convert(data, kind, strict=strict)
    except ValueError as e:
        raise TramplabError(f"{file}: {_mistake(data, kind, strict, [], e)}") from None


def _mistake(data: Any, kind: Any, strict: bool, place: list[str], error: ValueError) -> str:
    """The innermost mistake, and its place."""
    for name, part, of in _parts(data, kind):
        try:
            msgspec.convert(part, of, strict=strict)
        except ValueError as e:
            return _mistake(part, of, strict, [*place, name], e)
    where, (kind, said) = ", ".join(place) or "the file", _plain(data, kind)
    if isinstance(data, dict) and (fields := _fields(kind)):
        config = (typing.get_origin(kind) or kind).__struct_config__
        known = {*fields, config.tag_field}
        if strange := [key for key in data if key not in known and (config.forbid_unknown_fields or not isinstance(key, str))]:
            return f"{where}: {unknown('key', strange[0], fields)}"
        if missing := [name for name, field in fields.items() if field.required and name not in data]:
            return f"{where} has no {' and no '.join(missing)}."
    if typing.get_origin(kind) is Literal:
        return f"{where}: {unknown('value', data, typing.get_args(kind))}"
    what = said or str(error)[0].lower() + str(error)[1:]
    value = "" if ", got " in what or isinstance(data, dict) else f", not {reprlib.repr(data)}"
    quotes = "; put it in quotes" if kind is str and isinstance(data, (bool, int, float)) else ""
    return f"{where}: {what}{value}{quotes}."


def _parts(data: Any, kind: Any) -> Iterator[tuple[str, object, Any]]:
    """The name, value and type of each part of data of a type; none where the data is of another."""
    kind, _ = _plain(data, kind)
    args, of = typing.get_args(kind), typing.get_origin(kind)
    if isinstance(data, list) and of in (list, tuple):
        kinds = args if of is tuple and args[-1] is not ... else args[:1] * len(data)
        for number, (part, one) in enumerate(zip(data, kinds, strict=False), 1):
            name = part.get("id", part.get("name")) if isinstance(part, dict) else None
            yield name if isinstance(name, str) else f"number {number}", part, one
    elif isinstance(data, dict) and of is dict:
        for key, part in data.items():
            yield from ((str(key), key, args[0]), (str(key), part, args[1]))
    elif isinstance(data, dict):
        yield from ((name, data[name], field.type) for name, field in _fields(kind).items() if name in data)


def _fields(kind: Any) -> dict[str, msgspec.structs.FieldInfo]:
    """The keys that a mapping of a type may have; empty for what is none of an Entry's."""
    of = typing.get_origin(kind) or kind
    return {field.encode_name: field for field in msgspec.structs.fields(kind)} if isinstance(of, type(Entry)) else {}


def _tagged(kind: Any, data: dict[Any, Any]) -> bool:
    """Is a mapping one of this type, by its tag?"""
    config = getattr(kind, "__struct_config__", None)
    return config is not None and config.tag is not None and data.get(config.tag_field) == config.tag


def _plain(data: object, kind: Any) -> tuple[Any, str]:
    """A type without its constraints, and what these say in words; of a union the part that the data may be meant for."""
    said = ""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        several = [part for part in typing.get_args(kind) if part is not type(None)]
        meant = [part for part in several if isinstance(data, dict) and _tagged(part, data)]
        kind = (meant or several)[-1 if isinstance(data, (list, dict)) else 0]
    if typing.get_origin(kind) is Annotated:
        kind, *metas = typing.get_args(kind)
        said = next((m.description for m in metas if isinstance(m, Meta) and m.description), "")
    return kind, said
