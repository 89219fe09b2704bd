"""Which compilation units of an ELF file's DWARF are of which source files: a kernel has thousands, and to read the first entry of
each with all that can be in it takes ten seconds and most of a gigabyte."""

from __future__ import annotations

from collections.abc import Iterator

_COMPILE_UNIT, _NAME, _STRING_OFFSETS_BASE = 0x11, 0x03, 0x72  # DW_TAG_compile_unit, DW_AT_name, DW_AT_str_offsets_base
_IMPLICIT = 0x21  # DW_FORM_implicit_const, whose value is in the abbreviation
_TEXT, _NUMBER = 0x08, (0x0D, 0x0F, 0x1A, 0x1B, 0x22, 0x23)  # a string; sdata, udata, strx, addrx, loclistx, rnglistx
#: Forms that have a fixed size in 32-bit DWARF: their bytes.
_FIXED = {
    0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4, 0x19: 0, 0x1E: 16,
    0x1F: 4, 0x21: 0, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
_IN_TABLE = {0x0E: "debug_str", 0x1F: "debug_line_str"}  # strp, line_strp: where the offset of a string leads
_INDEXED = (0x1A, 0x25, 0x26, 0x27, 0x28)  # strx, strx1 to strx4: the number of an offset


def units(sections: dict[str, memoryview]) -> Iterator[tuple[int, str]]:
    """(where it begins in .debug_info, its source file) of each compilation unit; "" where no name can be found. sections: name
    without the dot -> its bytes.

    The numbers are those of the DWARF 5 standard, chapter 7. Raises ValueError and IndexError where a unit contradicts itself.
    """
    info, at = sections["debug_info"], 0
    while at < len(info):
        length = _word(info, at, 4)
        if length >= 0xFFFFFFF0:
            raise ValueError("it is 64-bit DWARF")
        version = _word(info, at + 4, 2)
        if not 2 <= version <= 5:
            raise ValueError(f"it is DWARF of version {version}")
        abbreviations, first = (_word(info, at + 8, 4), at + 12) if version == 5 else (_word(info, at + 6, 4), at + 11)
        if version < 5 or info[at + 6] == 1:  # DW_UT_compile
            yield at, _name(sections, abbreviations, first)
        at += 4 + length


def _name(sections: dict[str, memoryview], abbreviations: int, at: int) -> str:
    """The name of the first entry of a unit, by its abbreviation."""
    info = sections["debug_info"]
    code, at = _leb(info, at)
    values: dict[int, tuple[int, int]] = {}
    for attribute, form in _abbreviation(sections["debug_abbrev"], abbreviations, code):
        start = at
        if form in _NUMBER:
            value, at = _leb(info, at)
        elif form == _TEXT:
            value, at = at, at + len(_text(info, at)) + 1
        elif form in _FIXED:
            value, at = _word(info, start, _FIXED[form]), start + _FIXED[form]
        else:
            break
        values[attribute] = form, value
    form, value = values.get(_NAME, (_TEXT, len(info)))
    if form in _INDEXED:
        _, base = values.get(_STRING_OFFSETS_BASE, (0, 8))
        form, value = 0x0E, _word(sections["debug_str_offsets"], base + 4 * value, 4)
    return _text(sections[_IN_TABLE[form]] if form in _IN_TABLE else info, value)


def _abbreviation(table: memoryview, at: int, wanted: int) -> Iterator[tuple[int, int]]:
    """(attribute, form) of each attribute of the entries that this number stands for."""
    while True:
        code, at = _leb(table, at)
        if not code:
            return
        tag, at = _leb(table, at)
        at += 1  # whether it has children
        if code == wanted and tag != _COMPILE_UNIT:
            return
        while True:
            attribute, at = _leb(table, at)
            form, at = _leb(table, at)
            if form == _IMPLICIT:
                _, at = _leb(table, at)
            if not attribute:
                break
            if code == wanted:
                yield attribute, form
        if code == wanted:
            return


def _word(data: memoryview, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "little")


def _leb(data: memoryview, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = data[at]
    if value < 0x80:  # as nearly all are
        return value, at + 1
    value &= 0x7F
    for n in range(1, 10):
        value |= (data[at + n] & 0x7F) << 7 * n
        if data[at + n] < 0x80:
            return value, at + n + 1
    raise ValueError("a number has no end")


def _text(data: memoryview, at: int) -> str:
    """The text there, up to a zero; names of files are not longer than this."""
    return bytes(data[at : at + 4096]).partition(b"\0")[0].decode("utf-8", "replace")
