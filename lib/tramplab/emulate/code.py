"""The code in a guest's memory: decoded once, and available later as it was at the end of a call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

from ..base.errors import TramplabError
from ..isa import Isa
from . import decode
from .engine import PAGE

#: Reads memory: address, size -> bytes; raises TramplabError where nothing is mapped.
Read = Callable[[int, int], bytes]


class Code:
    """The decoded instructions of stretches of text, (address, size) each. changing() is called before any of it changes."""

    def __init__(self, isa: Isa, text: list[tuple[int, int]], read: Read) -> None:
        self._isa, self._spans, self._read = isa, text, read
        self._decoded: dict[int, decode.Instruction] = {}  # as text is now
        self._pages: dict[int, bytes] = {}  # likewise
        self.pending: weakref.WeakSet[Later] = weakref.WeakSet()  # of text as it is now; see settle()

    @property
    def asked(self) -> bool:
        """Has decoded text been asked for? Not while a kernel boots, which writes all its sites."""
        return bool(self._decoded or self._pages or self.pending)

    def changing(self, first: int, last: int) -> None:
        """Bytes from one address to another are about to become others; what is the same byte by byte stays decoded."""
        settle(self.pending)
        for pc in range(first - self._isa.max_insn + 1, last + 1):
            self._decoded.pop(pc, None)
        for page in range(first & -PAGE, last + 1, PAGE):
            self._pages.pop(page, None)

    def at(self, pc: int) -> decode.Instruction:
        """The instruction in memory at pc now, in text or not."""
        found = self._decoded.get(pc)
        if found is None:
            end = next((b + n for b, n in self._spans if b <= pc < b + n), None)
            size = min(self._isa.max_insn, end - pc if end else self._isa.max_insn)
            data = self._bytes(pc, size) if end else self._read(pc, size)
            found = decode.at(self._isa, pc, data)
            if end:
                self._decoded[pc] = found
        return found

    def all(self, addresses: Iterable[int]) -> dict[int, decode.Instruction]:
        """Address -> the instruction in memory there now."""
        decoded = self._decoded
        return {pc: decoded.get(pc) or self.at(pc) for pc in addresses}

    def later(self, addresses: Callable[[], Iterable[int]]) -> Callable[[], dict[int, decode.Instruction]]:
        """A function that gives the instructions at these addresses as they are now, whenever it is called. They are decoded when
        it is called, or when text is about to change: most callers never ask what was executed."""
        pending = Later(self, addresses)
        self.pending.add(pending)
        return pending

    def _bytes(self, address: int, size: int) -> bytes:
        """Bytes of text; whole pages are read, so that many instructions take a few reads."""
        page = address & -PAGE
        if address + size > page + PAGE:
            return self._read(address, size)
        if page not in self._pages:
            self._pages[page] = self._read(page, PAGE)
        return self._pages[page][address - page : address - page + size]


class Later:
    """The instructions at some addresses as they were when Code.later() made this."""

    def __init__(self, code: Code, addresses: Callable[[], Iterable[int]]) -> None:
        self._how: tuple[Code, Callable[[], Iterable[int]]] | None = (code, addresses)
        self._found: dict[int, decode.Instruction] | TramplabError = {}

    def __call__(self) -> dict[int, decode.Instruction]:
        """The instructions as they were, decoded; raises TramplabError for bytes that are no instruction."""
        self.settle()
        if isinstance(self._found, TramplabError):
            raise self._found
        return self._found

    def settle(self) -> None:
        """Decode now, unless that was done."""
        if self._how is None:
            return
        code, addresses = self._how
        try:
            self._found = code.all(addresses())
        except TramplabError as e:  # the error is for the caller to raise
            self._found = e
        self._how = None


def settle(these: weakref.WeakSet[Later]) -> None:
    """Decode now what is pending, before the memory changes; the memory is not needed for it after that."""
    for one in these:
        one.settle()
    these.clear()
