"""A guest's memory: what lies where, which of it is code, and what that code is.

Text is written through poke() alone, which drops the engine's translations of it and what was decoded from it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import TramplabError
from . import decode
from .engine import PAGE, Engine
from .image import Segment


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
    """Segments and areas, mapped. `text` are (address, size) of what can be executed."""

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
        self._decoded: dict[int, decode.Instruction] = {}  # of text as it is now; only poke() changes that
        self._pages: dict[int, bytes] = {}  # of text, likewise
        self._later: weakref.WeakSet[Later] = weakref.WeakSet()  # that are of text as it is now

    def is_text(self, address: int) -> bool:
        """Does an address lie in executable memory?"""
        for base, size in self.text:  # noqa: SIM110 - asked for at each write, and any() takes three times as long
            if base <= address < base + size:
                return True
        return False

    def read(self, address: int, size: int) -> bytes:
        """What is there; raises TramplabError where nothing is mapped."""
        return self._engine.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Write data; refuses text, which must go through poke()."""
        if self.is_text(address):
            raise TramplabError(f"{address:#x} is text; it must be written through poke().")
        self._engine.write(address, data)

    def poke(self, address: int, data: bytes) -> None:
        """Write text: the bytes, and away with every translation of what was there."""
        if not data:
            return
        known = self._decoded or self._pages or self._later  # nothing is while a kernel boots, which pokes all its sites
        bits = int.from_bytes(self.read(address, len(data)), "little") ^ int.from_bytes(data, "little") if known else 0
        if bits:
            self.settle()
        self._engine.write(address, data)
        self._engine.forget(address, len(data))
        if bits:  # from the first byte that changes to the last; what is the same byte by byte is decoded already
            first, last = address + ((bits & -bits).bit_length() - 1) // 8, address + (bits.bit_length() - 1) // 8
            for pc in range(first - self.isa.max_insn + 1, last + 1):
                self._decoded.pop(pc, None)
            for page in range(first & -PAGE, last + 1, PAGE):
                self._pages.pop(page, None)

    def later(self, addresses: Callable[[], Iterable[int]]) -> Callable[[], dict[int, decode.Instruction]]:
        """What gives what memory holds at these addresses now, decoded, at any time. Nothing is done unless it is asked, or text
        changes: of most calls nobody asks what was executed."""
        found = Later(self, addresses)
        self._later.add(found)
        return found

    def settle(self) -> None:
        """Have what is to be told later known from here on, whatever becomes of this memory."""
        for one in self._later:
            one.settle()
        self._later.clear()

    def instructions(self, addresses: Iterable[int]) -> dict[int, decode.Instruction]:
        """What memory holds at these addresses now, decoded."""
        known = self._decoded
        return {pc: known.get(pc) or self.instruction_at(pc) for pc in addresses}

    def instruction_at(self, pc: int) -> decode.Instruction:
        """Decode what memory holds at pc now."""
        found = self._decoded.get(pc)
        if found is None:
            end = next((b + n for b, n in self.text if b <= pc < b + n), None)
            size = min(self.isa.max_insn, end - pc if end else self.isa.max_insn)
            data = self._text(pc, size) if end else self.read(pc, size)
            found = decode.at(self.isa, pc, data)
            if end:
                self._decoded[pc] = found
        return found

    def _text(self, address: int, size: int) -> bytes:
        """Bytes of text; pages are read whole, which for many instructions is a few calls of the engine instead of many."""
        page = address & -PAGE
        if address + size > page + PAGE:
            return self.read(address, size)
        if page not in self._pages:
            self._pages[page] = self.read(page, PAGE)
        return self._pages[page][address - page : address - page + size]


class Later:
    """See Memory.later."""

    def __init__(self, memory: Memory, addresses: Callable[[], Iterable[int]]) -> None:
        self._how: tuple[Memory, Callable[[], Iterable[int]]] | None = (memory, addresses)
        self._found: dict[int, decode.Instruction] | TramplabError = {}

    def __call__(self) -> dict[int, decode.Instruction]:
        """What was there, decoded; raises TramplabError for bytes that are no instruction."""
        self.settle()
        if isinstance(self._found, TramplabError):
            raise self._found
        return self._found

    def settle(self) -> None:
        """Find out, if nobody has."""
        if self._how is None:
            return
        memory, addresses = self._how
        try:
            self._found = memory.instructions(addresses())
        except TramplabError as e:  # it is whoever asks that wants to know
            self._found = e
        self._how = None


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
    out = []
    for (_, (writable, executable)), group in itertools.groupby(
        enumerate(pages), lambda numbered: (numbered[1] - numbered[0], rights[numbered[1]])
    ):
        numbers = [page for _, page in group]
        out.append((numbers[0] * PAGE, len(numbers), writable, executable))
    return out
