"""The source files of DWARF's compilation units, of units made by hand in each way that a name can be kept."""

import random
import struct

import pytest

from tramplab.vmlinux.open.debuginfo.units import units

NAME = "kernel/trace/ftrace.c"
#: Attributes in front of the name, with the forms that compilers give them: producer, language.
PRODUCER, LANGUAGE, HERE, STRING_OFFSETS_BASE, LOW = 0x25, 0x13, 0x03, 0x72, 0x11


def leb(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def abbreviations(*attributes: tuple[int, int], code: int = 1, tag: int = 0x11, constants: bytes = b"") -> bytes:
    """A table with another entry in front of the one asked for."""
    other = leb(code + 1) + leb(0x34) + b"\1" + leb(HERE) + leb(8) + leb(0x3F) + leb(0x21) + leb(300) + b"\0\0"
    specs = b"".join(leb(a) + leb(f) + (constants if f == 0x21 else b"") for a, f in attributes)
    return other + leb(code) + leb(tag) + b"\1" + specs + b"\0\0" + b"\0"


def unit(values: bytes, version: int = 5, code: int = 1, at: int = 0, kind: int = 1) -> bytes:
    head = struct.pack("<HBBI", version, kind, 8, at) if version == 5 else struct.pack("<HIB", version, at, 8)
    body = head + leb(code) + values
    return struct.pack("<I", len(body)) + body


def found(info: bytes, abbrev: bytes, **more: bytes) -> list[tuple[int, str]]:
    sections = {"debug_info": info, "debug_abbrev": abbrev, **more}
    return list(units({name: memoryview(data) for name, data in sections.items()}))


TEXT = b"a producer\0" + NAME.encode() + b"\0"
OFFSETS = bytes(8) + struct.pack("<300I", *([0] * 299), 11)
WAYS = {
    "in the entry": ([(PRODUCER, 8), (HERE, 8)], TEXT),
    "in .debug_str": ([(PRODUCER, 14), (LANGUAGE, 5), (HERE, 14)], struct.pack("<IHI", 0, 12, 11)),
    "in .debug_line_str": ([(PRODUCER, 14), (LANGUAGE, 11), (HERE, 0x1F)], struct.pack("<IBI", 0, 12, 11)),
    "by its number": ([(HERE, 0x1A), (LOW, 0x1B), (STRING_OFFSETS_BASE, 0x17)], leb(299) + leb(500) + struct.pack("<I", 8)),
    "by its number, of two bytes": ([(PRODUCER, 0x25), (HERE, 0x26), (STRING_OFFSETS_BASE, 0x17)], struct.pack("<BHI", 0, 299, 8)),
    "by its number, of the first table": ([(PRODUCER, 0x25), (HERE, 0x26)], struct.pack("<BH", 0, 299)),
    "behind a constant": ([(LANGUAGE, 0x21), (HERE, 8)], TEXT[11:]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("code", [1, 200])
def test_a_name(way, version, code):
    attributes, values = WAYS[way]
    abbrev = b"\xff" * 7 + abbreviations(*attributes, code=code, constants=leb(0x8001))
    info = unit(values, version, code, 7)
    more = {"debug_str": TEXT, "debug_line_str": TEXT, "debug_str_offsets": OFFSETS}
    assert found(info * 2, abbrev, **more) == [(0, NAME), (len(info), NAME)]


def test_a_unit_without_a_name():
    """One that has none, one whose name is behind a form that is not known, and one whose first entry is of another kind."""
    assert found(unit(b"\5"), abbreviations((LANGUAGE, 11))) == [(0, "")]
    assert found(unit(b"\5" + TEXT), abbreviations((LANGUAGE, 0x7F), (HERE, 8))) == [(0, "")]
    assert found(unit(TEXT), abbreviations((HERE, 8), tag=0x3C)) == [(0, "")]
    assert found(unit(TEXT, code=77), abbreviations((HERE, 8))) == [(0, "")]


def test_units_of_types_are_left_out():
    info = unit(TEXT, kind=2)
    assert found(info + unit(TEXT[11:]), abbreviations((HERE, 8))) == [(len(info), NAME)]


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (struct.pack("<IQ", 0xFFFFFFFF, 100) + bytes(200), "it is 64-bit DWARF"),
        (unit(TEXT, version=6), "it is DWARF of version 6"),
        (unit(TEXT, version=1), "it is DWARF of version 1"),
        (unit(b"", code=1 << 70), "a number has no end"),
    ],
)
def test_a_unit_that_cannot_be_read(info, said):
    with pytest.raises(ValueError, match=said):
        found(info, abbreviations((HERE, 8)))


def test_cut_and_garbled_units():
    """They end, and with nothing but what is foreseen."""
    rng, ends = random.Random(7), 0
    attributes, values = WAYS["in .debug_str"]
    info, abbrev = unit(values) * 3, abbreviations(*attributes)
    for n in range(600):
        parts = [bytearray(info), bytearray(abbrev), bytearray(TEXT)]
        part = parts[n % 3]
        if n % 2:
            part[rng.randrange(len(part))] = rng.randrange(256)
        else:
            del part[rng.randrange(len(part)) :]
        try:
            assert len(found(*map(bytes, parts[:2]), debug_str=bytes(parts[2]))) <= 3
        except (ValueError, IndexError):
            ends += 1
    assert 100 < ends < 500
