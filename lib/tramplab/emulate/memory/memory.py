"""A guest's memory: what lies where, which of it is code, and what that code is.

Text is written through poke() alone, which drops the engine's translations of it and what was decoded from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...base.errors import TramplabError
from ..code import Code
from ..engine import PAGE, Engine
from ..image import Segment
from .pages import Pages

#: Unchanged bytes between two changed ones that are not worth another stretch.
GAP = 16


@dataclass(frozen=True)
class Area:
    """A stretch of memory that no image fills: address, and bytes, in whole pages. Code may lie there, or data."""

    address: int
    size: int
    executable: bool = False

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size


class Memory:
    """Segments and areas, mapped. text: (address, size) of what can be executed. code: what that is, decoded."""

    def __init__(self, engine: Engine, segments: Iterable[Segment], areas: Iterable[Area]) -> None:
        self._engine, self.isa = engine, engine.isa
        segments, areas = list(segments), list(areas)
        for start, pages, writable, executable in runs(segments):
            engine.map(start, pages * PAGE, writable=writable, executable=executable)
        for s in segments:
            for start, end in s.filled:
                engine.write(s.address + start, s.data[start:end])
        for a in areas:
            engine.map(a.address, a.size, writable=not a.executable, executable=a.executable)
        self.text = [(s.address, s.size) for s in segments if s.executable]
        self.text += [(a.address, a.size) for a in areas if a.executable]
        self.code = Code(self.isa, self.text, engine.reader())
        self._pages: Pages | None = None

    def is_text(self, address: int) -> bool:
        """Does an address lie in executable memory?"""
        for base, size in self.text:  # noqa: SIM110 - asked for at each write, and any() takes three times as long
            if base <= address < base + size:
                return True
        return False

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address; raises TramplabError where nothing is mapped."""
        return self._engine.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Write data; refuses text, which must go through poke()."""
        if self.is_text(address):
            raise TramplabError(f"{address:#x} is text; it must be written through poke().")
        self._engine.write(address, data)

    def poke(self, address: int, data: bytes) -> None:
        """Write text, and drop every translation of what was there."""
        if not data:
            return
        bits = int.from_bytes(self.read(address, len(data)), "little") ^ int.from_bytes(data, "little") if self.code.asked else 0
        if bits:  # from the first byte that changes to the last
            first, last = address + ((bits & -bits).bit_length() - 1) // 8, address + (bits.bit_length() - 1) // 8
            self.code.changing(first, last)
        self._engine.write(address, data)
        self._engine.forget(address, len(data))

    def keep(self) -> None:
        """Keep memory as it is now, for put_back()."""
        if self._pages:
            self._pages.forget()
        else:
            self._pages = self._engine.keep()

    def put_back(self) -> None:
        """Make memory what it was at keep(): all that the guest and Python have written since."""
        pages = self._pages or ()
        for address, before in pages:
            if self.is_text(address):
                for start, end in differences(self.read(address, len(before)), before):
                    self.poke(address + start, before[start:end])
            else:
                self._engine.write(address, before)
        if self._pages:
            self._pages.forget()


def runs(segments: Iterable[Segment]) -> list[tuple[int, int, bool, bool]]:
    """Pages to map, as few and as long stretches as will do: (address, pages, writable, executable) of each.

    A page that two segments share has the rights of both. One mapping of 16,000 pages takes a millisecond; each for itself,
    minutes.
    """
    rights: dict[int, tuple[bool, bool]] = {}
    for s in segments:
        for page in range(s.address // PAGE, -(-(s.address + s.size) // PAGE)):
            writable, executable = rights.get(page, (False, False))
            rights[page] = (writable or s.writable, executable or s.executable)
    pages = sorted(rights)
    stretches = []
    for (_, (writable, executable)), group in itertools.groupby(
        enumerate(pages), lambda numbered: (numbered[1] - numbered[0], rights[numbered[1]])
    ):
        numbers = [page for _, page in group]
        stretches.append((numbers[0] * PAGE, len(numbers), writable, executable))
    return stretches


def differences(one: bytes, other: bytes) -> Iterator[tuple[int, int]]:
    """Where two stretches of the same length differ: start and end of each stretch, short gaps included.

    >>> list(differences(bytes(100), bytes([1, 0, 1, *bytes(96), 1])))
    [(0, 3), (99, 100)]
    """
    changed = np.flatnonzero(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8))
    for run in np.split(changed, np.flatnonzero(np.diff(changed) > GAP) + 1):
        if len(run):
            yield int(run[0]), int(run[-1]) + 1
