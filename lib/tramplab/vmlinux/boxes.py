"""Images that unpack themselves: where the packed kernel lies in a bzImage, and in an EFI zboot image."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import TramplabError


@dataclass(frozen=True)
class Box:
    """name: of the container. packed: the kernel in it. said: what the container calls the compression, "" where it does not."""

    name: str
    packed: memoryview
    said: str


def box(data: bytes, path: Path) -> Box | None:
    """What the file is a container of; None where it is none that is known here.

    Raises TramplabError where its header does not fit the file, or is of a kernel that cannot be run here.
    """
    found = next((name for name, (at, magic, _) in _BOXES.items() if data[at : at + len(magic)] == magic), None)
    return _BOXES[found][2](data, path) if found else None


def _part(data: bytes, start: int, length: int, path: Path) -> memoryview:
    if not length or start + length > len(data):
        raise TramplabError(
            f"the header of {path} says that {length} bytes of packed kernel lie at {start}, "
            f"but the file has {len(data)} bytes: get it anew, whole."
        )
    return memoryview(data)[start : start + length]


def _header(data: bytes, size: int, path: Path) -> None:
    if len(data) < size:
        raise TramplabError(f"{path} is truncated within its header: get the file anew, whole.")


def _bzimage(data: bytes, path: Path) -> Box:
    """x86: the real-mode setup, whose header is in the kernel's Documentation/arch/x86/boot.rst, and behind it the code that
    unpacks, with the packed kernel in it. The header tells of the packed kernel since protocol 2.08, of 64 bits since 2.12."""
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
    return Box("bzImage", _part(data, ((data[0x1F1] or 4) + 1) * 512 + offset, length, path), "")


def _zboot(data: bytes, path: Path) -> Box:
    """An EFI program that unpacks and starts the flat image in it (drivers/firmware/efi/libstub/zboot-header.S)."""
    _header(data, 0x40, path)
    start, length = struct.unpack_from("<II", data, 8)
    said = data[24:56].partition(b"\0")[0].decode("ascii", "replace")
    return Box("EFI zboot", _part(data, start, length, path), said if said.isascii() and said.isprintable() else "")


#: Name -> where its magic number lies, the number, and what reads its header.
_BOXES: dict[str, tuple[int, bytes, Callable[[bytes, Path], Box]]] = {
    "bzImage": (0x202, b"HdrS", _bzimage),
    "EFI zboot": (0, b"MZ\0\0zimg", _zboot),
}
