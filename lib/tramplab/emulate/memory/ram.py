"""Memory that the emulator and Python share: what the guest stores is read here, and what is written here it loads.

Through the engine a word of text takes ten times as long to write: it makes the memory writable for that, and again what it
looks addresses up in.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
from collections.abc import Callable


class Ram:
    """Blocks of zeros, at the addresses that the guest has them at."""

    def __init__(self) -> None:
        self._starts: list[int] = []  # sorted
        self._blocks: list[mmap.mmap] = []
        #: Called before each write with its address and size, if there is one; see pages.
        self.writing: Callable[[int, int], None] | None = None

    def add(self, address: int, size: int) -> int:
        """Add a block of zeros; gives its address in this process."""
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        at = bisect.bisect(self._starts, address)
        self._starts.insert(at, address)
        self._blocks.insert(at, block)
        return _place(block)

    @property
    def blocks(self) -> list[tuple[int, int, int]]:
        """The address, size, and address in this process of each block."""
        return [(start, len(block), _place(block)) for start, block in zip(self._starts, self._blocks, strict=True)]

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address; raises LookupError where nothing is mapped."""
        pieces = self._pieces(address, size)
        if len(pieces) == 1:
            block, start, end = pieces[0]
            return block[start:end]
        return b"".join(block[start:end] for block, start, end in pieces)

    def write(self, address: int, data: bytes) -> None:
        """Write bytes, all of them or none; raises LookupError where nothing is mapped."""
        pieces, done = self._pieces(address, len(data)), 0
        if self.writing:
            self.writing(address, len(data))
        for block, start, end in pieces:
            block[start:end] = data[done : done + end - start]
            done += end - start

    def _pieces(self, address: int, size: int) -> list[tuple[mmap.mmap, int, int]]:
        """(block, start, end) of each stretch that holds some of so many bytes from an address on."""
        at = bisect.bisect(self._starts, address) - 1
        if at >= 0 and (end := address - self._starts[at] + size) <= len(self._blocks[at]):  # as nearly always
            return [(self._blocks[at], end - size, end)]
        found = []
        while size:
            if not (0 <= at < len(self._blocks) and 0 <= address - self._starts[at] < len(self._blocks[at])):
                raise LookupError(address)
            start = address - self._starts[at]
            end = min(start + size, len(self._blocks[at]))
            found.append((self._blocks[at], start, end))
            address, size, at = address + end - start, size - end + start, at + 1
        return found


def _place(block: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(block))
