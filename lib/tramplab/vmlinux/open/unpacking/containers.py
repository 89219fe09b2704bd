"""Containers of a kernel: images that unpack themselves, and unified kernel images."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ....base.errors import TramplabError
from .formats import FLAT

#: The name of x86's container, which boots itself.
BZIMAGE = "bzImage"


@dataclass(frozen=True)
class Box:
    """A container with a kernel in it.

    name: of the container.
    content: the kernel in it.
    packed: must the kernel be compressed?
    said: the container's name for the compression, "" where it has none.
    """

    name: str
    content: memoryview
    packed: bool = False
    said: str = ""


def box(data: bytes, path: Path) -> Box | None:
    """The container that the file is, with its content; None for a container that is not known here.

    Raises TramplabError where its header does not fit the file, or is of a kernel that cannot be run here.
    """
    if data[56:60] in FLAT:  # which is an EFI program, too
        return None
    return next((read(data, path) for at, magic, read in _BOXES if data[at : at + len(magic)] == magic), None)


def _part(data: bytes, start: int, length: int, path: Path) -> memoryview:
    if not length:
        raise TramplabError(f"the header of {path} says that no kernel is in it: give a Linux kernel's vmlinuz, bzImage or Image.")
    if start + length > len(data):
        raise TramplabError(
            f"the header of {path} says that {length} bytes of kernel lie at {start}, "
            f"but the file has {len(data)} bytes: get the whole file again."
        )
    return memoryview(data)[start : start + length]


def _header(data: bytes, size: int, path: Path) -> None:
    if len(data) < size:
        raise TramplabError(f"{path} is truncated within its header: get the whole file again.")


def _bzimage(data: bytes, path: Path) -> Box:
    """The packed kernel in a bzImage: behind the real-mode setup, whose header is in the kernel's Documentation/arch/x86/boot.rst,
    comes the code that unpacks, with the kernel in it. The header tells of that since protocol 2.08, of 64 bits since 2.12."""
    _header(data, 0x250, path)
    version, flags = (int.from_bytes(data[at : at + 2], "little") for at in (0x206, 0x236))
    if version < 0x208:
        raise TramplabError(
            f"the boot protocol of {path} is {version >> 8}.{version & 255:02}, which does not tell where the kernel lies: "
            f"give the vmlinux, or an image of protocol 2.08 (Linux 2.6.26) or later."
        )
    if version >= 0x20C and not flags & 1:
        raise TramplabError(f"{path} is a 32-bit x86 kernel: give one for x86-64, arm64 or riscv64.")
    offset, length = struct.unpack_from("<II", data, 0x248)
    return Box(BZIMAGE, _part(data, ((data[0x1F1] or 4) + 1) * 512 + offset, length, path), True)


def _zboot(data: bytes, path: Path) -> Box:
    """The flat image in an EFI program that unpacks and starts it (drivers/firmware/efi/libstub/zboot-header.S)."""
    _header(data, 0x40, path)
    start, length = struct.unpack_from("<II", data, 8)
    compression = data[24:56].partition(b"\0")[0].decode("ascii", "replace")
    readable = compression.isascii() and compression.isprintable()
    return Box("EFI zboot", _part(data, start, length, path), True, compression if readable else "")


def _efi(data: bytes, path: Path) -> Box | None:
    """The kernel in the section .linux of a unified kernel image, which is a program of EFI with a PE header (the UAPI Group's
    specification); None for another program."""
    at = int.from_bytes(data[60:64], "little")
    if data[at : at + 4] != b"PE\0\0" or at + 24 > len(data):
        return None
    number, optional = struct.unpack_from("<6xH12xH", data, at)
    table = at + 24 + optional
    _header(data, table + 40 * number, path)
    for name, size, raw, start in (struct.unpack_from("<8sI4xII", data, table + 40 * n) for n in range(number)):
        if name.rstrip(b"\0") == b".linux":
            return Box("EFI program", _part(data, start, min(size or raw, raw), path))
    return None


#: Where a magic number lies, the number, and what reads the header.
_BOXES: tuple[tuple[int, bytes, Callable[[bytes, Path], Box | None]], ...] = (
    (0x202, b"HdrS", _bzimage),
    (0, b"MZ\0\0zimg", _zboot),
    (0, b"MZ", _efi),
)
