"""The bytes of an image, to be changed in place."""

from __future__ import annotations

from dataclasses import replace

from ...emulate.image import Image, Segment
from ..open.sections import damaged


class Text:
    """An image's segments, by address."""

    def __init__(self, image: Image) -> None:
        self._path = image.path
        self._parts = [(s, bytearray(s.data) if s.executable else s.data) for s in image.segments]
        self._last = 0

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, also from one segment to the next; raises TramplabError outside what the file holds."""
        at, data = self._at(address, min(size, 1))
        found = bytes(data[at : at + size])
        return found if len(found) == size else found + self.read(address + len(found), size - len(found))

    def write(self, address: int, data: bytes) -> None:
        """Change text."""
        at, segment = self._at(address, len(data))
        if not isinstance(segment, bytearray):
            raise damaged(self._path, f"one of its tables wants data at {address:#x} patched as text")
        segment[at : at + len(data)] = data

    def word(self, address: int) -> int:
        """Eight bytes as a number."""
        return int.from_bytes(self.read(address, 8), "little")

    def segments(self) -> tuple[Segment, ...]:
        """The segments as they are now."""
        return tuple(replace(s, data=bytes(data)) if isinstance(data, bytearray) else s for s, data in self._parts)

    def _at(self, address: int, size: int) -> tuple[int, bytes | bytearray]:
        for n in (self._last, *range(len(self._parts))):
            segment, data = self._parts[n]
            if segment.address <= address and address + size <= segment.address + len(data):
                self._last = n
                return address - segment.address, data
        raise damaged(self._path, f"it has nothing at {address:#x}, where one of its tables points")
