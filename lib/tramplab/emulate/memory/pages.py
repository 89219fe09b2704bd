"""Pages as they were: each is copied before it is first written to, by the guest or from Python."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..compiled import library
from .ram import Ram

SOURCE = Path(__file__).with_name("pages.c")
#: Bytes of a page, as pages.c has them.
SIZE = 4096


class _Block(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("now", ctypes.c_void_p),
        ("before", ctypes.c_void_p),
        ("kept", ctypes.c_void_p),
    ]


class _Pages(ctypes.Structure):
    _fields_ = [("blocks", ctypes.c_void_p), ("nr_blocks", ctypes.c_uint64)]


class Pages:
    """Copies of the pages of a memory that were written to since it was made, or since forget(). They take room for what is
    written, not for what there is."""

    def __init__(self, ram: Ram) -> None:
        self._ram, blocks = ram, ram.blocks
        self._spans = [(address, size) for address, size, _ in blocks]
        self._copies = [mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _, size in self._spans]
        self._kept = [np.zeros(size // SIZE, np.uint8) for _, size in self._spans]
        self._blocks = (_Block * len(blocks))(
            *(
                _Block(address, size, at, ctypes.addressof(ctypes.c_char.from_buffer(copy)), kept.ctypes.data)
                for (address, size, at), copy, kept in zip(blocks, self._copies, self._kept, strict=True)
            )
        )
        self._state = _Pages(ctypes.addressof(self._blocks), len(self._blocks))
        ram.writing = self.keep

    def hook(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """The compiled hook and its state, for the engine to call at each store, before memory changes."""
        keep = ctypes.cast(library(SOURCE).tramplab_keep, ctypes.c_void_p)
        return keep, ctypes.c_void_p(ctypes.addressof(self._state))

    def keep(self, address: int, size: int) -> None:
        """Copy the pages that are about to be written to, those that have no copy."""
        for n, (start, length) in enumerate(self._spans):
            first, last = max(address, start), min(address + size, start + length) - 1
            for page in range((first - start) // SIZE, (last - start) // SIZE + 1) if first <= last else ():
                if not self._kept[n][page]:
                    self._copies[n][page * SIZE : (page + 1) * SIZE] = self._ram.read(start + page * SIZE, SIZE)
                    self._kept[n][page] = 1

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """(address, bytes as they were) of each page that was written to."""
        for (start, _), copy, kept in zip(self._spans, self._copies, self._kept, strict=True):
            for page in np.flatnonzero(kept).tolist():
                yield start + page * SIZE, copy[page * SIZE : (page + 1) * SIZE]

    def forget(self) -> None:
        """Drop all copies: from now on the pages as they are now are kept."""
        for kept in self._kept:
            kept[:] = 0
