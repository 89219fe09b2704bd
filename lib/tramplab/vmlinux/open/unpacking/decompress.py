"""Unpacking: the compressions that a kernel is packed with, known by their first bytes, and unpacked up to a limit.

A stream that has ended may be followed by anything, such as the unpacked size that the kernel's build appends. Where another
stream of the same kind follows, as some packers for several cores write them, it is unpacked, too.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import lz4.block
import lz4.frame
import zstandard

from ....base.errors import TramplabError

#: How many bytes are read, and how many unpacked, at most.
LIMIT = 1 << 30
#: How many bytes a decompressor may take for itself, besides what it makes. The kernel's build has it take up to 128 MiB.
WORKSPACE = 1 << 28
#: Bytes that are unpacked at a time, and bytes that are given to do it.
_CHUNK, _PIECE = 1 << 20, 1 << 16
#: Bytes that zstd is given at a time, as its chunks have no limit: four make at most a block of 128 KiB (RFC 8878), so these 8 MiB.
_ZSTD_PIECE = 256
#: Unpacked bytes of a block of lz4, except the last; its most packed bytes; bytes of the unpacked size that may be appended.
_BLOCK, _PACKED_BLOCK, _SIZE = 8 << 20, (8 << 20) + (8 << 20) // 255 + 16, 4


class _Stream(Protocol):
    """The interface of the decompressors for bzip2, xz and lz4's newer frames, to which the others are adapted."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Brought:
    """The members that both decompressors have in common."""

    needs_input = True

    def __init__(self, decompressor: Any) -> None:
        self._d = decompressor

    @property
    def eof(self) -> bool:
        return self._d.eof

    @property
    def unused_data(self) -> bytes:
        return self._d.unused_data


class _Gzip(_Brought):
    """zlib's decompressor as a _Stream."""

    def __init__(self) -> None:
        super().__init__(zlib.decompressobj(wbits=31))  # with gzip's header and checksum

    def decompress(self, data: bytes, max_length: int) -> bytes:
        made = self._d.decompress(self._d.unconsumed_tail + data, max_length)
        self.needs_input = len(made) < max_length
        return made


class _Zstd(_Brought):
    """zstandard's decompressor as a _Stream. It has no limit of length, so it is given little at a time."""

    def __init__(self) -> None:
        super().__init__(zstandard.ZstdDecompressor(max_window_size=WORKSPACE).decompressobj())

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._d.decompress(data)


def _xz() -> _Stream:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=WORKSPACE)


def _lzma() -> _Stream:
    return lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=WORKSPACE)


def _goes_on(packed: memoryview, at: int, magic: bytes) -> bool:
    """Does another stream begin here? It does not where only a size is left, whatever that looks like."""
    return len(packed) - at > _SIZE and packed[at : at + len(magic)] == magic


def _streams(make: Callable[[], _Stream], piece: int = _PIECE) -> Callable[[memoryview, bytes], Iterator[bytes]]:
    """A function that unpacks streams that mark their end, in chunks. It raises EOFError where one is cut short."""

    def chunks(packed: memoryview, magic: bytes) -> Iterator[bytes]:
        at = 0
        while True:
            stream = make()
            while not stream.eof:
                fed = bytes(packed[at : at + piece]) if stream.needs_input else b""
                if stream.needs_input and not fed:
                    raise EOFError
                at += len(fed)
                yield stream.decompress(fed, _CHUNK)
            at -= len(stream.unused_data or b"")
            if not _goes_on(packed, at, magic):
                return

    return chunks


def _lz4(packed: memoryview, magic: bytes) -> Iterator[bytes]:
    """The blocks of lz4's legacy frames (lz4_Frame_format.md), which have no checksum and end with a block that is not full, or
    with the file. Raises EOFError where one is cut short, ValueError where a block is larger than any can be."""
    at = made = 0
    while _goes_on(packed, at, magic):
        at, full = at + len(magic), True
        while full and at < len(packed) and not _goes_on(packed, at, magic):
            size = int.from_bytes(packed[at : at + _SIZE], "little")
            if made and len(packed) - at == _SIZE and size == made & 0xFFFFFFFF:
                return
            if size > _PACKED_BLOCK:
                raise ValueError
            at += _SIZE
            if len(packed) - at < size:
                raise EOFError
            block = lz4.block.decompress(packed[at : at + size], uncompressed_size=_BLOCK)
            at, made, full = at + size, made + len(block), len(block) == _BLOCK
            yield block
    if not made:
        raise EOFError


@dataclass(frozen=True)
class _Packing:
    """A compression: its first bytes, and what makes chunks of a stream; None where nothing can."""

    name: str
    magic: bytes
    chunks: Callable[[memoryview, bytes], Iterator[bytes]] | None


#: First bytes are from the table at payload_offset in the kernel's Documentation/arch/x86/boot.rst; those of lz4's newer frames and
#: of lzop from their own formats.
_PACKINGS = (
    _Packing("gzip", b"\x1f\x8b", _streams(_Gzip)),
    _Packing("bzip2", b"BZh", _streams(bz2.BZ2Decompressor)),
    _Packing("lzma", b"\x5d\0\0", _streams(_lzma)),
    _Packing("xz", b"\xfd7zXZ\0", _streams(_xz)),
    _Packing("zstd", b"\x28\xb5\x2f\xfd", _streams(_Zstd, _ZSTD_PIECE)),
    _Packing("lz4", b"\x02\x21\x4c\x18", _lz4),
    _Packing("lz4", b"\x04\x22\x4d\x18", _streams(lz4.frame.LZ4FrameDecompressor)),
    _Packing("lzo", b"\x89LZO\0\r\n\x1a\n", None),
)
_FAILS = (zlib.error, OSError, lzma.LZMAError, zstandard.ZstdError, lz4.block.LZ4BlockError, RuntimeError, ValueError)


def _packing(data: bytes | memoryview) -> _Packing | None:
    return next((p for p in _PACKINGS if data[: len(p.magic)] == p.magic), None)


def known(data: bytes | memoryview) -> bool:
    """Does data begin as one of the compressions does?"""
    return _packing(data) is not None


def size(number: int) -> str:
    """A number of bytes, in GiB.

    >>> size(1 << 29)
    '0.5 GiB'
    """
    return f"{number / (1 << 30):g} GiB"


def unpacked(data: bytes | memoryview, path: Path, said: str = "") -> tuple[bytes, str]:
    """All that is packed in data, and the compression's name. path: the file it is from. said: what that calls the compression.

    Raises TramplabError where the compression is unknown, and where what is packed is cut short, garbled or beyond LIMIT.
    """
    packing = _packing(data)
    if packing is None:
        named = f", and its header calls it {said!r}" if said else ""
        raise TramplabError(
            f"the kernel in {path} is packed in a way not known here (it begins with {bytes(data[:4]).hex(' ')}{named}): "
            f"unpack it by other means and give the vmlinux or Image that comes out."
        )
    if packing.chunks is None:
        raise TramplabError(
            f"the kernel in {path} is packed with {packing.name}, which Tramplab does not unpack: "
            f"unpack it by other means and give the vmlinux or Image that comes out."
        )
    what, buffer = f"the {packing.name} stream in {path}", io.BytesIO()  # whose value is not copied when it is taken
    try:
        for chunk in packing.chunks(memoryview(data), packing.magic):
            if buffer.tell() + len(chunk) > LIMIT:
                raise TramplabError(
                    f"{what} makes more than {size(LIMIT)}, where unpacking stops: "
                    f"give another image, or one without debug information (`strip --strip-debug -o OUT FILE`)."
                )
            buffer.write(chunk)
    except EOFError:
        raise TramplabError(f"{what} is truncated: get the whole file again.") from None
    except _FAILS as e:
        if "memory" in str(e).lower():
            raise TramplabError(
                f"{what} needs more than {size(WORKSPACE)} to be unpacked in: unpack it by other means and give what comes out."
            ) from None
        raise TramplabError(f"{what} is garbled: get the file again, and compare its checksum.") from None
    return buffer.getvalue(), packing.name
