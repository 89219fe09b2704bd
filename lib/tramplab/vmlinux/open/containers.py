"""Containers of a kernel: images that unpack themselves, programs of EFI and ELF files with a kernel in them, and boot loaders'
images."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import TramplabError
from . import loaders
from .formats import FLAT, form
from .parts import KERNEL
from .sections import NOBITS, sections, segments

#: Sections of a program that hold nothing but a kernel: systemd-stub's (the UAPI Group's specification of unified kernel images),
#: and of the kernel's own build those of arch/x86/boot/compressed/vmlinux and of the ELF file that an EFI zboot image is made of.
_SECTIONS = (".linux", ".rodata..compressed", ".gzdata")
#: How kernels begin: where a magic number lies, the number, and where what else lies that is the same in each (boot.rst,
#: booting.rst and boot-image-header.rst in the kernel's Documentation/arch).
_HEADS = (
    (0x202, b"HdrS", 0x1FE, b"\x55\xaa"),
    (56, b"ARM\x64", 32, bytes(24)),
    (56, b"RSC\x05", 48, b"RISCV\0\0\0"),
    (0, b"MZ\0\0zimg", 0, b"MZ"),
)


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
    if not length or start + length > len(data):
        raise TramplabError(
            f"the header of {path} says that {length} bytes of kernel lie at {start}, "
            f"but the file has {len(data)} bytes: get the whole file again."
        )
    return memoryview(data)[start : start + length]


def _header(data: bytes, size: int, path: Path) -> None:
    if len(data) < size:
        raise TramplabError(f"{path} is truncated within its header: get the whole file again.")


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
    return Box("bzImage", _part(data, ((data[0x1F1] or 4) + 1) * 512 + offset, length, path), True)


def _zboot(data: bytes, path: Path) -> Box:
    """An EFI program that unpacks and starts the flat image in it (drivers/firmware/efi/libstub/zboot-header.S)."""
    _header(data, 0x40, path)
    start, length = struct.unpack_from("<II", data, 8)
    compression = data[24:56].partition(b"\0")[0].decode("ascii", "replace")
    readable = compression.isascii() and compression.isprintable()
    return Box("EFI zboot", _part(data, start, length, path), True, compression if readable else "")


def _efi(data: bytes, path: Path) -> Box | None:
    """A program of EFI, by its PE header, with a kernel in it, such as a unified kernel image."""
    at = int.from_bytes(data[60:64], "little")
    if data[at : at + 4] != b"PE\0\0" or at + 24 > len(data):
        return None
    number, optional = struct.unpack_from("<6xH12xH", data, at)
    table = at + 24 + optional
    _header(data, table + 40 * number, path)
    found = [struct.unpack_from("<8sI4xII", data, table + 40 * n) for n in range(number)]
    parts = [(name.rstrip(b"\0").decode("latin-1"), start, min(size or raw, raw)) for name, size, raw, start in found]
    return _held("EFI program", data, path, parts)


def _elf(data: bytes, path: Path) -> Box | None:
    """An ELF file that is no kernel itself, with a kernel in it, such as a library, or the program that unpacks a kernel."""
    form(data, path)
    if any(s.address >= KERNEL for s in segments(data, path)):
        return None
    return _held("ELF file", data, path, [(s.name, s.at, s.size) for s in sections(data, path) if s.kind != NOBITS])


def _held(name: str, data: bytes, path: Path, parts: list[tuple[str, int, int]]) -> Box | None:
    """The content of a section that is known to have a kernel, or everything from a kernel's header on. parts: name, start and
    length of each section."""
    for of, start, size in parts:
        if of in _SECTIONS:
            return Box(name, _part(data, start, size, path))
    first = min(_kernels(data), default=None)
    return None if first is None else Box(name, memoryview(data)[first:])


def _kernels(data: bytes) -> Iterator[int]:
    """Where kernels begin, by their own headers."""
    for at, magic, where, offset in _HEADS:
        position = data.find(magic)
        while position >= 0:
            start = position - at
            if start >= 0 and data[start + where : start + where + len(offset)] == offset:
                yield start
            position = data.find(magic, position + 1)


def _loaded(name: str, find: Callable[[bytes], tuple[int, int] | None]) -> Callable[[bytes, Path], Box | None]:
    """A function that reads the image of a boot loader."""

    def read(data: bytes, path: Path) -> Box | None:
        content = find(data)
        return Box(name, _part(data, *content, path)) if content else None

    return read


#: Where a magic number lies, the number, and what reads the header.
_BOXES: tuple[tuple[int, bytes, Callable[[bytes, Path], Box | None]], ...] = (
    (0x202, b"HdrS", _bzimage),
    (0, b"MZ\0\0zimg", _zboot),
    (0, b"MZ", _efi),
    (0, b"\x7fELF", _elf),
    (0, b"ANDROID!", _loaded("Android boot image", loaders.android)),
    (0, b"\x27\x05\x19\x56", _loaded("U-Boot image", loaders.legacy)),
    (0, b"\xd0\x0d\xfe\xed", _loaded("FIT image", loaders.tree)),
)
