"""The form of an unpacked kernel: an ELF file or a flat Image, its ISA, and whether it is whole; or what the file is instead."""

from __future__ import annotations

import struct
from pathlib import Path

from ....base.errors import TramplabError
from ....isa import ISAS, Isa

_WANTED = "give one for x86-64, arm64 or riscv64"
_SOURCES = "a package's boot/vmlinuz-*, or your own build's vmlinux, bzImage or Image"

#: ELF's e_machine -> ISA, and the name of those that there is no lab for.
_MACHINES = {62: "x86_64", 183: "arm64", 243: "riscv64"}
_OTHER_MACHINES = {
    2: "SPARC", 3: "32-bit x86", 4: "m68k", 8: "MIPS", 15: "PA-RISC", 20: "32-bit PowerPC", 21: "PowerPC", 22: "s390",
    40: "32-bit ARM", 43: "SPARC64", 93: "ARC", 94: "Xtensa", 195: "ARC", 247: "BPF", 252: "C-SKY", 258: "LoongArch",
}  # fmt: skip

#: The magic number at 56 of a flat image -> ISA (the kernel's Documentation/arch/arm64/booting.rst, riscv/boot-image-header.rst).
FLAT = {b"ARM\x64": "arm64", b"RSC\x05": "riscv64"}

#: Kernels that there is no lab for: where their magic number lies, the number, whose it is.
_OTHERS = (
    (0x24, b"\x18\x28\x6f\x01", "32-bit ARM"),
    (0x24, b"\x01\x6f\x28\x18", "32-bit ARM"),  # big-endian
    (0x38, b"\xcd\x23\x82\x81", "LoongArch"),
    (0x10008, b"S390EP", "s390"),
)
#: Files that a user may take for a kernel: first bytes, what the file is, and what to do.
_NO_KERNELS = (
    (b"0707", "an initrd (a cpio archive)", "give the vmlinuz that lies beside it"),
    (b"!<arch>\ndebian", "a Debian package", "unpack it with `dpkg-deb -x FILE OUT` and give the vmlinuz in it"),
    (b"\xed\xab\xee\xdb", "an RPM package", "unpack it with `rpm2cpio FILE | cpio -id` and give the vmlinuz in it"),
    (b"\x27\x05\x19\x56", "a U-Boot image", "give the Image that it was made of"),
    (b"ANDROID!", "an Android boot image", "give the Image that it was made of"),
    (b"\xd0\x0d\xfe\xed", "a device tree or a FIT image", "give the vmlinuz or Image that is started with it"),
    (b"MZ", "an EFI program without a section .linux", "give the vmlinuz that it loads"),
)


def form(data: bytes, path: Path) -> tuple[Isa, str]:
    """The ISA of an unpacked kernel, and "ELF" or "Image". path: the file it is from.

    Raises TramplabError where it is for another machine, is cut short, or is no kernel.
    """
    if data.startswith(b"\x7fELF"):
        return _elf(data, path), "ELF"
    if data[56:60] in FLAT:
        return _flat(data, path), "Image"
    for at, magic, machine in _OTHERS:
        if data[at : at + len(magic)] == magic:
            raise TramplabError(f"{path} is a {machine} kernel: {_WANTED}.")
    for magic, what, advice in _NO_KERNELS:
        if data.startswith(magic):
            raise TramplabError(f"{path} is {what}, and no kernel: {advice}.")
    raise TramplabError(f"{path} is no kernel image: give {_SOURCES}.")


def _whole(data: bytes, end: int, path: Path) -> None:
    if end > len(data):
        raise TramplabError(f"the kernel in {path} is truncated: {len(data)} of {end} bytes are there; get the whole file again.")


def _elf(data: bytes, path: Path) -> Isa:
    """The ISA of an ELF file, by its header; its tables and segments have to lie in the file."""
    _whole(data, 64, path)
    wide, big = data[4] == 2, data[5] == 2
    machine = int.from_bytes(data[18:20], "big" if big else "little")
    isa = ISAS.get(_MACHINES.get(machine, ""))
    if isa is None:
        name = _OTHER_MACHINES.get(machine, f"an unknown machine (e_machine {machine})")
        raise TramplabError(f"{path} is for {name}: {_WANTED}.")
    if big:
        raise TramplabError(f"{path} is a big-endian {isa.name} kernel: give a little-endian one.")
    if not wide:
        raise TramplabError(f"{path} is a 32-bit ELF file for {isa.name}: give a 64-bit kernel.")
    segments, sections = struct.unpack_from("<QQ", data, 32)
    per_segment, number, per_section, headers = struct.unpack_from("<HHHH", data, 54)
    _whole(data, max(64, number and segments + number * per_segment, headers and sections + headers * per_section), path)
    if number and per_segment != 56:
        raise TramplabError(f"the segments of {path} are described in {per_segment} bytes each, not in 56: get the file again.")
    for segment in range(number):
        kind, start, size = struct.unpack_from("<I4xQ16xQ", data, segments + 56 * segment)
        if kind == 1:  # PT_LOAD
            _whole(data, start + size, path)
    return isa


def _flat(data: bytes, path: Path) -> Isa:
    """The ISA of a flat image, by its header; a header for EFI says what lies where in the file, which has to be there."""
    _whole(data, 64, path)
    isa = ISAS[FLAT[data[56:60]]]
    if data[24] & 1:
        raise TramplabError(f"{path} is a big-endian {isa.name} kernel: give a little-endian one.")
    at = int.from_bytes(data[60:64], "little")
    if at:
        _whole(data, at + 24, path)
    if data[at : at + 4] == b"PE\0\0":
        sections, optional = struct.unpack_from("<6xH12xH", data, at)
        table = at + 24 + optional
        _whole(data, table + 40 * sections, path)
        for section in range(table, table + 40 * sections, 40):
            _whole(data, sum(struct.unpack_from("<16xII", data, section)), path)
    return isa
