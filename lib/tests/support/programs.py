"""Files with a kernel in them that are no kernel: programs of EFI, ELF files, and images of boot loaders."""

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


def android(kernel: bytes, version: int, page: int = 2048) -> bytes:
    """Android's boot image, of this version, with a ramdisk after the kernel."""
    page = 4096 if version >= 3 else page
    head = struct.pack("<8sI24xII", b"ANDROID!", len(kernel), 0 if version >= 3 else page, version)
    return head.ljust(page, b"\0") + kernel + bytes(-len(kernel) % page) + b"ramdisk"


def legacy(kernel: bytes, several: bool = False) -> bytes:
    """U-Boot's legacy image of a kernel, or of several things of which the kernel is the first."""
    body = struct.pack(">III", len(kernel), 7, 0) + kernel + b"ramdisk" if several else kernel
    head = struct.pack(">I8xI14xBB32s", 0x27051956, len(body), 4 if several else 2, 0, b"Linux")
    return head + body


def tree(nodes: Sequence[tuple[str, str, bytes]], external: str = "") -> bytes:
    """A FIT image of (name, type, bytes). external: are the bytes after the tree, and how is that said: "offset" or "position"?"""
    names = bytearray()

    def text(data: bytes) -> bytes:
        return data + b"\0" * (4 - len(data) % 4)

    def value(name: str, data: bytes) -> bytes:
        at = len(names)
        names.extend(name.encode() + b"\0")
        return struct.pack(">III", 3, len(data), at) + data + bytes(-len(data) % 4)

    def begin(name: str) -> bytes:
        return struct.pack(">I", 1) + text(name.encode())

    end, behind = struct.pack(">I", 2), b""

    def built(start: int) -> bytes:
        nonlocal behind
        names.clear()
        behind, out = b"", begin("") + value("timestamp", bytes(4)) + begin("images")
        for name, kind, data in nodes:
            out += begin(name) + value("type", kind.encode() + b"\0") + struct.pack(">I", 4)
            if external:
                out += value(f"data-{external}", struct.pack(">I", len(behind) + (start if external == "position" else 0)))
                out += value("data-size", struct.pack(">I", len(data)))
                behind += data + bytes(-len(data) % 4)
            else:
                out += value("data", data)
            out += end
        return out + end + begin("configurations") + end + end + struct.pack(">I", 9)

    size = 40 + len(built(0)) + len(names)
    structure = built(size + 3 & ~3)
    header = struct.pack(">10I", 0xD00DFEED, size, 40, 40 + len(structure), 40, 17, 16, 0, len(names), len(structure))
    return (header + structure + bytes(names)).ljust(size + 3 & ~3, b"\0") + behind
