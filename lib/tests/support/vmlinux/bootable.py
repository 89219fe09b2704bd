"""A small x86-64 kernel with one of each thing that is patched at boot, and the tables that list them, each between its symbols."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping

from .kernels import LAYOUTS, Part, Types, content, many, vmlinux
from .small_kernels import X86

#: Where its tables lie, and what a static call and a paravirt call lead to.
TABLES, KEY = X86 + 0x20000, X86 + 0x30000
FEATURE, ALWAYS = 5, 3 * 32 + 21
NOT, DIRECT_CALL = 1, 2
_NAMES = {5: "T__fentry__", 6: "T__x86_return_thunk", 7: "T__x86_indirect_thunk_rax", 8: "tcalled"}


def at(number: int) -> int:
    """Where a function begins, by its number."""
    return X86 + 4096 + 16 * (number + 1)


def _near(opcode: str, site: int, target: int, size: int = 5) -> bytes:
    return bytes.fromhex(opcode) + struct.pack("<i", target - site - size)


#: What each function has behind its call of __fentry__, as linked, and what it is once booted without mitigations.
LINKED = {
    0: bytes.fromhex("9090909090"),
    1: _near("e9", at(1) + 5, at(6)),
    2: _near("e8", at(2) + 5, at(7)),
    3: _near("e8", at(3) + 5, at(9)),
    4: _near("ff15", at(4) + 5, KEY, 6),
}
BOOTED = {
    0: bytes.fromhex("31c00f1f00"),
    1: bytes.fromhex("c3cccccccc"),
    2: bytes.fromhex("ffd00f1f00"),
    3: _near("e8", at(3) + 5, at(8)),
    4: _near("e8", at(4) + 5, at(8)) + b"\x90",
}


def _alternatives(start: int) -> bytes:
    """Two: one for a CPU without a feature, and a call through a pointer that becomes direct."""
    replacement, out = start + 64, b""
    for number, flags, size, feature in ((0, NOT, 5, FEATURE), (4, DIRECT_CALL, 6, ALWAYS)):
        here = start + len(out)
        length = 2 if number == 0 else 5
        out += struct.pack("<iiHHBB", at(number) + 5 - here, replacement - here - 4, feature, flags, size, length)
    return out


def _site(number: int) -> Callable[[int], bytes]:
    return lambda start: struct.pack("<i", at(number) + 5 - start)


def _static_calls(start: int) -> bytes:
    return struct.pack("<ii", at(3) + 5 - start, KEY - start - 4)


#: Symbol in front of a table and the one behind it -> what makes its bytes, for an address.
_TABLES: dict[tuple[str, str], Callable[[int], bytes]] = {
    ("__alt_instructions", "__alt_instructions_end"): _alternatives,
    ("__return_sites", "__return_sites_end"): _site(1),
    ("__retpoline_sites", "__retpoline_sites_end"): _site(2),
    ("__start_static_call_sites", "__stop_static_call_sites"): _static_calls,
}


def _types() -> bytes:
    t = Types()
    half, byte, word = t.int("u16", 2), t.int("u8", 1), t.int("s32", 4)
    unsigned = t.int("u32", 4)
    either = [("cpuid", unsigned, 16 << 24 | 64), ("flags", unsigned, 16 << 24 | 80)]
    ends = [("instrlen", byte, 96), ("replacementlen", byte, 104)]
    t.struct("alt_instr", 14, [("instr_offset", word, 0), ("repl_offset", word, 32), *either, *ends], bits=True)
    t.struct("ftrace_ops", 2, [("flags", half, 0)])
    return t.built()


def kernel(*, sections: bool = True, without: str = "", empty: str = "", patches: Mapping[int, bytes] | None = None) -> bytes:
    """The file. sections: has it section headers? without, empty: the table whose symbols it lacks, or in which nothing lies.
    patches: bytes at addresses of its tables and data."""
    known = [(_NAMES.get(n - 2, name), address) for n, (name, address) in enumerate(many(X86))]
    tables, symbols = bytearray(), []
    for (start, end), make in _TABLES.items():
        tables += bytes(-len(tables) % 8)
        begin = TABLES + len(tables)
        made = b"" if start == empty else make(begin)
        tables += made
        symbols += [] if start == without else [(f"D{start}", begin), (f"D{end}", begin + len(made))]
        if start == "__alt_instructions":
            tables += bytes(64 - len(made)) + bytes.fromhex("31c0")  # xor eax, eax
    data = bytes(tables).ljust(KEY - TABLES, b"\0") + struct.pack("<Q", at(8))
    made = content(X86, LAYOUTS["v6.12: base"], after=symbols, known=known, btf=_types())
    for number, code in LINKED.items():
        offset = at(number) - X86
        whole = _near("e8", at(number), at(5)) + code
        made.data[offset : offset + len(whole)] = whole
    image = bytearray(data)
    for address, new in (patches or {}).items():
        image[address - TABLES : address - TABLES + len(new)] = new
    assert len(made.data) <= TABLES - X86
    loads = [(X86, 0, bytes(made.data), 0), (TABLES, 0, bytes(image), 0)]
    return vmlinux("x86_64", loads, [Part(".text", b"", address=X86)] if sections else [])


def table(name: str) -> int:
    """Where a table of it lies, by the symbol in front."""
    sizes = itertools.accumulate((72, 8, 8, 8), initial=0)
    return TABLES + dict(zip((start for start, _ in _TABLES), sizes, strict=False))[name]
