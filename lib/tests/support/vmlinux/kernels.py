"""Small kernels made by hand: tables of symbols in each layout that is known, BTF, relocations, and the images they lie in;
long because the package writes none of these."""

from __future__ import annotations

import functools
import itertools
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from .containers import MACHINES, flat

#: Where the small images are linked: text, then data, then per-CPU data.
BASES = {"x86_64": 0xFFFFFFFF81000000, "arm64": 0xFFFF800080000000, "riscv64": 0xFFFFFFFF80000000}
BANNER = b"Linux version 6.12.7-small (who@where) (gcc) #1 SMP\n\0"
#: What RELA calls "add the distance moved".
RELATIVE = {"arm64": 1027, "riscv64": 3}

# Tables of symbols

#: A token for each character that stands for itself, and some longer ones where no character does.
_LONGER = ("ftrace_", "trampoline", "_function_", "sys", "number_")
TOKENS = [chr(c) if 32 < c < 127 else "" for c in range(128)] + list(_LONGER) + [""] * (128 - len(_LONGER))
_NUMBERS = {token: n for n, token in enumerate(TOKENS) if token}
_ANY = re.compile("|".join((*_LONGER, ".")))


@dataclass(frozen=True)
class Layout:
    """How scripts/kallsyms.c of some version writes its table.

    values: "base", "percpu", "own" or "addresses". early: do they stand in front of the names? seqs: bytes for each symbol of the
    index by name, between the markers and the tokens where the values are early, and else at the end. align: of each part.
    """

    values: str
    early: bool
    seqs: int = 0
    align: int = 8


LAYOUTS = {
    "v5.10: base, early": Layout("base", True),
    "v5.10: per-CPU, early": Layout("percpu", True),
    "v5.10: addresses, early": Layout("addresses", True),
    "v6.1.16: base, early, three bytes of index": Layout("base", True, 3),
    "v6.1.16: per-CPU, early, three bytes of index": Layout("percpu", True, 3),
    "v6.2: base, early, four bytes of index": Layout("base", True, 4),
    "v6.12: base": Layout("base", False, 3),
    "v6.12: per-CPU": Layout("percpu", False, 3),
    "v6.10: addresses": Layout("addresses", False, 3),
    "v7.2: own places": Layout("own", False, 3, 4),
}


@functools.cache
def packed(name: str) -> bytes:
    """A name's tokens, with their number in front: in two bytes if need be."""
    out = bytes(_NUMBERS[token] for token in _ANY.findall(name))
    size = len(out)
    return (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + out


def kallsyms(symbols: Sequence[tuple[str, int]], layout: Layout, at: int, index: bytes | None = None) -> bytes:
    """The table of these symbols, (kind and name, address), in order of address, for bytes that lie at `at`.

    index: what stands for the index by name, where it is another one.
    """
    names, markers = bytearray(), []
    for n, (name, _) in enumerate(symbols):
        if n % 256 == 0:
            markers.append(len(names))
        names += packed(name)
    tokens = b"".join(t.encode() + b"\0" for t in TOKENS)
    starts = list(itertools.accumulate((len(t) + 1 for t in TOKENS[:-1]), initial=0))
    order = sorted(range(len(symbols)), key=lambda n: symbols[n][0][1:])
    width, order_of_bytes = layout.seqs, "big" if layout.seqs == 3 else "little"
    seqs = b"".join(n.to_bytes(width, order_of_bytes) for n in order) if width and index is None else index or b""
    table = [struct.pack("<I", len(symbols)), bytes(names), struct.pack(f"<{len(markers)}I", *markers)]
    out = bytearray()

    def add(part: bytes) -> None:
        out.extend(bytes(-(at + len(out)) % layout.align) + part)

    def values() -> None:
        start = at + len(out) + -(at + len(out)) % layout.align
        for part in _values([a for _, a in symbols], layout.values, start):
            add(part)

    if layout.early:
        values()
    for part in (*table, *([seqs] if layout.early else []), tokens, struct.pack("<256H", *starts)):
        add(part)
    if not layout.early:
        values()
        add(seqs)
    return bytes(out)


def _values(addresses: list[int], kind: str, at: int) -> list[bytes]:
    base = min(a for a in addresses if a >> 63)
    if kind == "addresses":
        return [struct.pack(f"<{len(addresses)}Q", *addresses)]
    if kind == "own":
        return [struct.pack(f"<{len(addresses)}i", *(a - (at + 4 * n) for n, a in enumerate(addresses)))]
    if kind == "base":
        return [struct.pack(f"<{len(addresses)}I", *(a - base for a in addresses)), struct.pack("<Q", base)]
    return [struct.pack(f"<{len(addresses)}i", *(base - 1 - a if a >> 63 else a for a in addresses)), struct.pack("<Q", base)]


def many(base: int, number: int = 1100, step: int = 16) -> list[tuple[str, int]]:
    """Symbols of an image: _text, and a page behind it small functions, one behind the other, between _stext and _etext."""
    names = ["T_stext", *(f"tfunction_number_{n}_of_ftrace_" for n in range(number - 3)), "T_etext"]
    return [("T_text", base), *((name, base + 4096 + step * n) for n, name in enumerate(names))]


# BTF

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, PROTO = range(1, 14)
VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(14, 20)


@dataclass
class Types:
    """BTF in the making: each method adds a type, and gives its number."""

    data: bytearray = field(default_factory=bytearray)
    strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    number: int = 0

    def name(self, text: str) -> int:
        """The offset of a name; the same one each time."""
        if not text:
            return 0
        at = self.strings.find(b"\0" + text.encode() + b"\0") + 1
        if not at:
            at = len(self.strings)
            self.strings += text.encode() + b"\0"
        return at

    def add(self, kind: int, name: str, what: int, members: int = 0, more: bytes = b"", flag: bool = False) -> int:
        """A type. what: its size, or the type it refers to. more: what stands behind it."""
        self.data += struct.pack("<III", self.name(name), flag << 31 | kind << 24 | members, what) + more
        self.number += 1
        return self.number

    def int(self, name: str, size: int) -> int:
        """A whole number."""
        return self.add(INT, name, size, more=struct.pack("<I", 8 * size))

    def array(self, of: int, elements: int) -> int:
        """An array; its index has the type it is of."""
        return self.add(ARRAY, "", 0, more=struct.pack("<III", of, of, elements))

    def struct(self, name: str, size: int, members: Sequence[tuple[str, int, int]], kind: int = STRUCT, bits: bool = False) -> int:
        """A struct, or by its kind a union, of (name, type, offset in bits); bits: of bit fields, too, whose width stands above."""
        more = b"".join(struct.pack("<III", self.name(n), of, offset) for n, of, offset in members)
        return self.add(kind, name, size, len(members), more, bits)

    def function(self, name: str, result: int, parameters: Sequence[int]) -> int:
        """A function and, in front of it, its prototype."""
        more = b"".join(struct.pack("<II", self.name(f"p{n}") if of else 0, of) for n, of in enumerate(parameters))
        return self.add(FUNC, name, self.add(PROTO, "", result, len(parameters), more), 1)

    def built(self, head: int = 24) -> bytes:
        """All of it with its header, of so many bytes."""
        fields = (head, 0, len(self.data), len(self.data), len(self.strings))
        return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, *fields).ljust(head, b"\0") + bytes(self.data) + bytes(self.strings)


def types() -> Types:
    """A few: struct ftrace_ops {long flags; int x:3, :8, y:5; struct {char *name; union {int a; char b[6];};}; int grid[2][3];},
    and int bpf_fentry_test1(int a)."""
    t = Types()
    char, number, long = t.int("char", 1), t.int("int", 4), t.int("long unsigned int", 8)
    pointer = t.add(PTR, "", t.add(CONST, "", char))
    either = t.struct("", 8, [("a", number, 0), ("b", t.array(char, 6), 0)], UNION)
    inner = t.struct("", 16, [("name", pointer, 0), ("", either, 64)])
    grid = t.array(t.array(number, 3), 2)
    fields = [("x", number, 3 << 24 | 64), ("", number, 8 << 24 | 67), ("y", number, 5 << 24 | 75)]
    flags = ("flags", t.add(TYPEDEF, "ulong", long), 0)
    t.struct("ftrace_ops", 56, [flags, *fields, ("", inner, 128), ("grid", grid, 256)], bits=True)
    t.function("bpf_fentry_test1", number, [number])
    return t


# Relocations


def rela(pointers: dict[int, int], kind: int) -> bytes:
    """A table of RELA: place -> pointer."""
    return b"".join(struct.pack("<QQQ", place, kind, pointer) for place, pointer in sorted(pointers.items()))


def relr(places: Sequence[int]) -> bytes:
    """A list of RELR, as GNU ld writes it: an address, and bitmaps for what lies on words behind it."""
    rest, out = sorted(places), []
    while rest:
        at = rest.pop(0)
        out.append(at)
        at += 8
        while True:
            bits = 0
            while rest and rest[0] < at + 8 * 63 and not (rest[0] - at) % 8:
                bits |= 1 << (rest.pop(0) - at) // 8
            if not bits:
                break
            out.append(bits << 1 | 1)
            at += 8 * 63
    return struct.pack(f"<{len(out)}Q", *out)


# Images


@dataclass
class Content:
    """What lies in an image: parts at the offsets that they get, and the symbols of its text."""

    base: int
    data: bytearray = field(default_factory=bytearray)

    def add(self, part: bytes, align: int = 8) -> int:
        """A part; gives its address."""
        self.data += bytes(-len(self.data) % align) + part
        return self.base + len(self.data) - len(part)


def content(
    base: int,
    layout: Layout = LAYOUTS["v6.12: base"],
    head: bytes = b"",
    symbols: Sequence[tuple[str, int]] = (),
    after: Sequence[tuple[str, int]] = (),
    known: Sequence[tuple[str, int]] = (),
    btf: bytes = b"",
) -> Content:
    """A kernel's parts, after the bytes of a header: its text, at a page, banner, table of symbols, and BTF.

    symbols, after: more of them, in front of those of the text, and after them. known: those of the text, if not many(). btf:
    another one.
    """
    made = Content(base, bytearray(head))
    known = known or many(base)
    made.add(bytes(range(1, 17)) * len(known), 4096)
    made.add(BANNER)
    made.add(btf or types().built())
    at = made.base + len(made.data) + -len(made.data) % 8
    made.add(kallsyms([*symbols, *known, *after], layout, at))
    return made


def image(isa: str, relocations: str = "none", layout: Layout = LAYOUTS["v6.12: base"], base: int = 0) -> bytes:
    """A flat image of a small kernel. relocations: "none", "RELA" or "RELR", of the pointers in its data."""
    base = base or BASES[isa]
    head = flat(isa, b"")
    made = content(base, layout, head)
    if relocations != "none":
        made.add(bytes(POINTERS * APART), 4096)
        pointers = pointed(made)
        if relocations == "RELA":
            if layout.values == "base":  # the table's base is a pointer, too
                at = made.data.index(struct.pack("<Q", base))
                made.data[at : at + 8], pointers[base + at] = bytes(8), base
            made.add(rela(pointers, RELATIVE[isa]))
        else:
            for place, pointer in pointers.items():
                struct.pack_into("<Q", made.data, place - base, pointer)
            made.add(relr(list(pointers)))
    return flat(isa, bytes(made.data[len(head) :]) + bytes(64))


#: How many groups of three pointers an image has, and their distance: RELR then has an address and a bitmap for each.
POINTERS, APART = 520, 1040


def pointed(made: Content) -> dict[int, int]:
    """place -> pointer of the groups of pointers at the end of what is made."""
    first = made.base + len(made.data) - POINTERS * APART
    groups = range(first, first + POINTERS * APART, APART)
    return {at + of: made.base + 4096 + 16 * (at + of & 511) for at in groups for of in (0, 8, 24)}


@dataclass(frozen=True)
class Part:
    """A section of an ELF file. kind, flags: sh_type, sh_flags."""

    name: str
    data: bytes
    kind: int = 1
    flags: int = 0
    address: int = 0


def vmlinux(isa: str, loads: Sequence[tuple[int, int, bytes, int]], parts: Sequence[Part] = ()) -> bytes:
    """An ELF file. loads: (address, physical address, bytes, zeros behind them) of each segment."""
    body, headers = bytearray(), []
    start = 64 + 56 * len(loads)
    for address, physical, data, zeros in loads:
        headers.append(struct.pack("<IIQQQQQQ", 1, 7, start + len(body), address, physical, len(data), len(data) + zeros, 4096))
        body += data + bytes(-len(data) % 8)
    names = b"\0" + b"".join(p.name.encode() + b"\0" for p in (*parts, Part(".shstrtab", b"")))
    sections = [bytes(64)]
    for p in (*parts, Part(".shstrtab", names, 3)):
        where = names.index(b"\0" + p.name.encode() + b"\0") + 1
        sections.append(struct.pack("<IIQQQQIIQQ", where, p.kind, p.flags, p.address, start + len(body), len(p.data), 0, 0, 8, 0))
        body += p.data + bytes(-len(p.data) % 8)
    table = start + len(body) if parts else 0
    fields = (2, MACHINES[isa], 1, 0, 64, table, 0, 64, 56, len(loads), 64, len(sections), len(sections) - 1)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *fields)
    return header + b"".join(headers) + bytes(body) + (b"".join(sections) if parts else b"")


def symtab(symbols: Sequence[tuple[str, int, int, int, int]]) -> tuple[Part, Part]:
    """.symtab and .strtab of (name, address, size, kind as STT_*, number of its section)."""
    names, rows = bytearray(b"\0"), [bytes(24)]
    for name, address, size, kind, section in symbols:
        rows.append(struct.pack("<IBBHQQ", len(names) if name else 0, kind, 0, section, address, size))
        names += name.encode() + b"\0" if name else b""
    return Part(".symtab", b"".join(rows), 2), Part(".strtab", bytes(names), 3)


def changed(data: bytes, at: int, layout: str, *values: int) -> bytes:
    """The same with these fields put over what is there."""
    out = bytearray(data)
    struct.pack_into(layout, out, at, *values)
    return bytes(out)
