"""Code put together from pieces: assembly that may lie anywhere, and calls, addresses and jumps that depend on where."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from ...base.errors import TramplabError
from ...build.assemble import assemble
from ...isa import Isa


@dataclass(frozen=True)
class Text:
    """Assembly, one instruction a line, that does not depend on its address."""

    source: str


@dataclass(frozen=True)
class Raw:
    """Bytes, for what an assembler does not know."""

    data: bytes


@dataclass(frozen=True)
class Call:
    """A call of an absolute address."""

    target: int


@dataclass(frozen=True)
class Address:
    """An absolute address into a register."""

    register: str
    value: int


@dataclass(frozen=True)
class Jump:
    """A conditional jump to a label further on; condition as the ISA's module names it."""

    condition: str
    label: str


@dataclass(frozen=True)
class Label:
    """A place for jumps."""

    name: str


@dataclass(frozen=True)
class Align:
    """NOPs up to a multiple of so many bytes."""

    to: int


Item = Text | Raw | Call | Address | Jump | Label | Align


class Branches(Hashable, Protocol):
    """Branches to an address, as an ISA encodes them: each of the same size wherever it is. They raise TramplabError for a target
    out of reach."""

    def call(self, pc: int, target: int) -> bytes:
        """A call of an absolute address."""

    def address(self, register: str, pc: int, value: int) -> bytes:
        """An absolute address into a register."""

    def jump(self, condition: str, pc: int, target: int) -> bytes:
        """A jump if a condition, by its name, is true."""

    def nops(self, count: int) -> bytes:
        """No-operations of this many bytes."""


def size_of(isa: Isa, own: Branches, items: Iterable[Item]) -> int:
    """The bytes that lay_out() makes of these items, which do not depend on where they lie if that is aligned."""
    return _starts(isa, own, items, 0)[-1]


def lay_out(isa: Isa, own: Branches, items: Iterable[Item], base: int) -> bytes:
    """The bytes of all items, one behind the other, as lying at base; raises TramplabError for a target out of reach."""
    items = list(items)
    starts = _starts(isa, own, items, base)
    labels = {item.name: at for item, at in zip(items, starts, strict=False) if isinstance(item, Label)}
    return b"".join(_bytes(isa, own, item, at, labels) for item, at in zip(items, starts, strict=False))


def _starts(isa: Isa, own: Branches, items: Iterable[Item], base: int) -> list[int]:
    """The address of each item, and the end of the last one."""
    starts = [base]
    for item in items:
        starts.append(starts[-1] + (-starts[-1] % item.to if isinstance(item, Align) else _size(isa, own, item)))
    return starts


def _bytes(isa: Isa, own: Branches, item: Item, pc: int, labels: dict[str, int]) -> bytes:
    """The bytes of one item at pc."""
    match item:
        case Text(source):
            return _assembled(isa, source)
        case Raw(data):
            return data
        case Call(target):
            return own.call(pc, target)
        case Address(register, value):
            return own.address(register, pc, value)
        case Jump(condition, label):
            return own.jump(condition, pc, labels[label])
        case Align(to):
            return own.nops(-pc % to)
    return b""


def _size(isa: Isa, own: Branches, item: Item) -> int:
    """The size of one item in bytes, which no distance changes."""
    match item:
        case Text(source):
            return len(_assembled(isa, source))
        case Call(_):
            return _plain_size(isa, own, Call(0))
        case Address(register, value):
            return len(own.address(register, 0, value))
        case Jump(condition, _):
            return _plain_size(isa, own, Jump(condition, ""))
        case Raw(data):
            return len(data)
    return 0


@functools.cache
def _plain_size(isa: Isa, own: Branches, item: Item) -> int:
    return len(_bytes(isa, own, item, 0, {"": 0}))


@functools.cache
def _assembled(isa: Isa, source: str) -> bytes:
    return assemble(isa, source)


def require_reach(what: str, reaches: bool, pc: int, target: int) -> None:
    """Raise TramplabError if a branch of the trampoline does not reach."""
    if not reaches:
        raise TramplabError(f"the {what} at {pc:#x} of a BPF trampoline does not reach {target:#x}.")
