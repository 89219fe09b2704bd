"""Small ELF kernels, what the layouts and symbols in all small kernels are, and opening them."""

from __future__ import annotations

import struct
from pathlib import Path

from tramplab.build.dwarf import Field, Struct
from tramplab.vmlinux.open.image import Opened, open_image

from ..complaints import complaint
from .kernels import APART, BASES, LAYOUTS, POINTERS, Part, content, many, pointed, rela, symtab, types, vmlinux

X86, ARM, RISCV = BASES["x86_64"], BASES["arm64"], BASES["riscv64"]
#: The physical address of X86.
LOADED = 0x1000000
#: Bytes from there to the per-CPU data of x86().
FIRST = 0x10000
#: How many symbols many() has.
NUMBER = 1100
PERCPU = [("A__per_cpu_start", 0), ("Acurrent_task", 0x40), ("A__per_cpu_end", 0x80)]
#: What kernels.types() has.
OPS = Struct(
    "ftrace_ops",
    56,
    {
        "flags": Field(0, 8),
        "x": Field(8, 4),
        "y": Field(9, 4),
        "name": Field(16, 8),
        "a": Field(24, 4),
        "b": Field(24, 6, 6),
        "grid": Field(32, 24, 6),
    },
)


def opened(place: Path, data: bytes) -> Opened:
    place.write_bytes(data)
    return open_image(place)


def refused(place: Path, data: bytes) -> str:
    """The sentence on a file with these bytes."""
    place.write_bytes(data)
    said = complaint(lambda: open_image(place))
    assert str(place) in said and ". " not in said
    return said.replace(str(place), "FILE")


def memory(kernel: Opened, address: int, size: int) -> bytes:
    """What lies there once it is loaded."""
    segment = next(s for s in kernel.image.segments if s.address <= address < s.address + s.size)
    return segment.data[address - segment.address :][:size].ljust(size, b"\0")


def x86(sections: bool = True, physical: bool = True) -> bytes:
    """As a bzImage unpacks to: its text and data, per-CPU data linked at zero, more data, and no table of symbols.

    physical: do segments say where they are loaded?"""
    percpu = b"percpu!!" * 16
    made = content(X86, LAYOUTS["v6.12: per-CPU"], symbols=PERCPU, after=[("D__per_cpu_load", X86 + FIRST)])
    assert len(made.data) <= FIRST
    loads = [
        (X86, LOADED, bytes(made.data), 0),
        (0, LOADED + FIRST, percpu, 4096 - len(percpu)),
        (X86 + FIRST + 4096, LOADED + FIRST + 4096, b"data" * 100, 0x5000),
    ]
    loads = loads if physical else [(address, 0, data, zeros) for address, _, data, zeros in loads]
    return vmlinux("x86_64", loads, [Part(".BTF", types().built())] if sections else [])


def listed(base: int) -> tuple[Part, Part]:
    """Symbols as a linker lists them: sections, files and what is undefined among them; in no order, some with sizes."""
    known = [(name[1:], a, 0, 2, 1) for name, a in many(base)]
    known[3] = (known[3][0], known[3][1], 9, 2, 1)
    odd = [("", base, 0, 3, 1), ("core.c", 0, 0, 4, 0xFFF1), ("missing", 0, 0, 0, 0), ("$x", base + 4096 + 40, 0, 0, 1)]
    inside = [(".Ltmp", base + 4096 + 44, 0, 0, 1), ("__pfx_function_number_5_of_ftrace_", base + 4096 + 16 * 6 - 5, 5, 2, 1)]
    return symtab([*odd, *reversed(known), *inside, ("_text", base + 8, 4, 2, 1)])


def arm64_elf(parts: list[Part], relocations: bool = True) -> tuple[bytes, dict[int, int]]:
    made = content(ARM)
    made.add(bytes(POINTERS * APART), 4096)
    pointers = pointed(made)
    table = rela(pointers, 1027) + rela({ARM + 4096: 1}, 257)  # the other kind is of a symbol
    section = [Part(".rela.dyn", table, 4, 2, ARM)] if relocations else []
    return vmlinux("arm64", [(ARM, ARM, bytes(made.data), 0)], [*parts, *section]), pointers


def section(data: bytes, name: str) -> tuple[int, int, int]:
    """Where the header of a section lies, where its bytes do, and how many."""
    start, number, names = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 60)
    strings = struct.unpack_from("<Q", data, start + 64 * names + 24)[0]
    for at in range(start, start + 64 * number, 64):
        text = strings + int.from_bytes(data[at : at + 4], "little")
        if data[text : data.index(b"\0", text)] == name.encode():
            return at, *struct.unpack_from("<QQ", data, at + 24)
    raise AssertionError(name)
