"""Programs of EFI, which may have a kernel in them, and ELF files that are no kernel."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .kernels import Part, vmlinux

#: The PE machine of a program for each ISA.
_PE = {"x86_64": 0x8664, "arm64": 0xAA64, "riscv64": 0x5064}


def efi(isa: str, sections: Sequence[tuple[str, bytes]], padding: int = 512) -> bytes:
    """A program of EFI with these sections, (name, bytes), as systemd-stub has them; each is padded in the file."""
    head, table = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64), b""
    start = -(-(64 + 24 + 240 + 40 * len(sections)) // 512) * 512
    body = b""
    for name, data in sections:
        raw = -(-len(data) // padding) * padding
        table += struct.pack("<8sIIII16x", name.encode(), len(data), 0x10000 + start + len(body), raw, start + len(body))
        body += data.ljust(raw, b"\0")
    header = b"PE\0\0" + struct.pack("<HH12xHH", _PE[isa], len(sections), 240, 0x206) + bytes(240)
    return (head + header + table).ljust(start, b"\0") + body


def program(isa: str, parts: Sequence[tuple[str, bytes]], address: int = 0x10000) -> bytes:
    """An ELF file that is linked where programs are, with these sections."""
    loads = [(address + 0x1000000 * n, 0, data, 0) for n, (_, data) in enumerate(parts)]
    return vmlinux(isa, loads, [Part(name, data) for name, data in parts])
