"""Small kernel images that hold no kernel: flat images, ELF files, and whatever either may be packed in."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
from collections.abc import Callable

import lz4.block
import lz4.frame
import zstandard

#: ISA -> ELF's e_machine, and the magic number at 56 of its flat image; x86 has none.
MACHINES = {"x86_64": 62, "arm64": 183, "riscv64": 243}
FLAT = {"arm64": b"ARM\x64", "riscv64": b"RSC\x05"}

#: What a small kernel consists of behind its header: bytes that cannot be packed, and bytes that can.
BODY = random.Random(1).randbytes(300) + bytes(500)
#: What lies behind the ELF file in an x86 payload.
RELOCATIONS = struct.pack("<5I", 0, 0x81000010, 0, 0x81000020, 0x81000030)


def flat(isa: str, body: bytes = BODY, flags: int = 0, efi: bool = True) -> bytes:
    """A flat image: its header, one for EFI with two sections that cover the body, and the body."""
    size = 64 + 24 + 2 * 40
    old = b"RISCV" if isa == "riscv64" else b""  # its first magic number, which still stands there
    header = struct.pack("<8xQQQ16x8s4sI", 0x200000, size + len(body) + 4096, flags, old, FLAT[isa], 64 if efi else 0)
    parts = ((len(body) // 2, size), (len(body) - len(body) // 2, size + len(body) // 2))
    sections = b"".join(struct.pack("<8s8xII16x", b".part", length, start) for length, start in parts)
    return header + b"PE\0\0" + struct.pack("<HH12xHH", 0xAA64, 2, 0, 0x206) + sections + body


def elf(machine: int, body: bytes = BODY, bits: int = 64, order: str = "little") -> bytes:
    """An ELF file: its header, one segment with the body in it, and a table of sections with nothing in it."""
    mark = b"\x7fELF" + bytes((bits // 32, 1 if order == "little" else 2, 1)) + bytes(9)
    end = 64 + 56 + len(body)
    fields = (2, machine, 1, 0xFFFFFFFF81000000, 64, end, 0, 64, 56, 1, 64, 1, 0)
    header = mark + struct.pack("<HHIQQQIHHHHHH" if order == "little" else ">HHIQQQIHHHHHH", *fields)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 64 + 56, 0xFFFFFFFF81000000, 0x1000000, len(body), len(body), 4096)
    return header + segment + body + bytes(64)


def bzimage(
    packed: bytes, *, sectors: int = 2, version: int = 0x20F, flags: int = 1, offset: int = 96, length: int | None = None
) -> bytes:
    """An x86 bzImage; with sectors of 0, of which the header means 4. length: what it says, where that is not true."""
    setup = bytearray(((sectors or 4) + 1) * 512)
    setup[0x1F1], setup[0x1FE:0x206] = sectors, b"\x55\xaa\xeb\x66HdrS"
    struct.pack_into("<H", setup, 0x206, version)
    struct.pack_into("<H", setup, 0x236, flags)
    struct.pack_into("<II", setup, 0x248, offset, len(packed) if length is None else length)
    return bytes(setup) + bytes([0x90]) * 96 + packed + bytes([0xCC]) * 64


def zboot(packed: bytes, name: str, *, start: int = 128, length: int | None = None) -> bytes:
    """An EFI zboot image. name: of the compression. start, length: what it says of where the packed kernel lies."""
    length = len(packed) if length is None else length
    header = b"MZ\0\0zimg" + struct.pack("<II8x32sII", start, length, name.encode(), 0x818223CD, 64)
    return header.ljust(128, b"\0") + packed + bytes(32)


def with_size(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """What packs as the kernel's build does: the unpacked size stands behind the stream."""
    return lambda data: pack(data) + struct.pack("<I", len(data))


def _lzma(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_ALONE, preset=0)


def _xz(data: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 0}]
    return lzma.compress(data, lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=filters)


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(data)


def lz4_legacy(data: bytes, block: int = 8 << 20) -> bytes:
    """lz4's legacy frame: its magic number, and each block with its size."""
    blocks = [lz4.block.compress(data[at : at + block], store_size=False) for at in range(0, len(data), block)]
    return b"\x02\x21\x4c\x18" + b"".join(struct.pack("<I", len(b)) + b for b in blocks)


def lz4_frame(data: bytes) -> bytes:
    """lz4's newer frame, as the program writes it."""
    return lz4.frame.compress(data, content_checksum=True)


#: Name -> what packs, without anything behind it.
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "bzip2": bz2.compress,
    "lzma": _lzma,
    "xz": _xz,
    "zstd": _zstd,
    "lz4": lz4_legacy,
}
#: Those with a checksum of what is packed.
CHECKED = frozenset({"gzip", "bzip2", "xz", "zstd"})


def every() -> dict[str, tuple[bytes, bytes]]:
    """Each container with each compression -> the file, and what is in it. The name is "ISA: " and what `Payload.packed` says."""
    made: dict[str, tuple[bytes, bytes]] = {}
    x86 = elf(MACHINES["x86_64"]) + RELOCATIONS
    for name, pack in PACKERS.items():
        made[f"x86_64: bzImage, {name}"] = bzimage((pack if name == "gzip" else with_size(pack))(x86)), x86
    for isa, machine in MACHINES.items():
        kernels = {"ELF": elf(machine), **({"Image": flat(isa)} if isa in FLAT else {})}
        for form, data in kernels.items():
            made[f"{isa}: {form}"] = data, data
            for name, pack in PACKERS.items():
                made[f"{isa}: {form}, {name}"] = pack(data), data
                if form == "Image":
                    made[f"{isa}: EFI zboot, {name}"] = zboot(pack(data), name), data
    return made
