"""Struct layouts and function prototypes as the guest's compiler decided them, read from DWARF, so that none is ever typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

_STRUCTS = ("DW_TAG_structure_type", "DW_TAG_union_type")
_THROUGH = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_atomic_type")
_DEEP, _MOST, _LARGE = 100, 1 << 16, 1 << 32  # types behind a type; members of a struct with all within; bytes of a type


@dataclass(frozen=True)
class Field:
    """A struct member: byte offset, size in bytes, and the number of elements if it is an array (else 0)."""

    offset: int
    size: int
    elements: int = 0


@dataclass(frozen=True)
class Struct:
    """A struct's size in bytes and its members by name."""

    name: str
    size: int
    fields: dict[str, Field]


@dataclass(frozen=True)
class Value:
    """A parameter or a result of a function: its size in bytes (0: none), whether it is a struct or a union, by value, and whether
    it is a union."""

    size: int
    struct: bool = False
    union: bool = False


@dataclass(frozen=True)
class Prototype:
    """A function's parameters, in order, and its result, as its source declares them."""

    name: str
    parameters: tuple[Value, ...]
    result: Value = Value(8)


def types(elf: ELFFile) -> tuple[dict[str, Struct], dict[str, Prototype]]:
    """Every named, complete struct in the file's debug info, and every function defined in the file that it knows.

    Both in one pass: what takes time is to read the entries.
    """
    structs: dict[str, Struct] = {}
    prototypes: dict[str, Prototype] = {}
    for unit in elf.get_dwarf_info().iter_CUs() if elf.has_dwarf_info() else ():
        described, functions, _ = of_unit(unit)
        structs |= {name: struct(die) for name, die in described.items() if name not in structs}
        prototypes |= {name: prototype(die) for name, die in functions.items() if "DW_AT_low_pc" in die.attributes}
    return structs, prototypes


def of_unit(unit: CompileUnit) -> tuple[dict[str, DIE], dict[str, DIE], dict[str, DIE]]:
    """The entries of one compilation unit, by name: of complete structs, of functions that it does not only declare, and of
    enumerators."""
    structs: dict[str, DIE] = {}
    functions: dict[str, DIE] = {}
    enumerators: dict[str, DIE] = {}
    last = -1
    for die in unit.get_top_DIE().iter_children():
        if die.offset <= last:
            raise ValueError("an entry is behind itself")
        last = die.offset
        if die.tag == "DW_TAG_enumeration_type":
            for one in die.iter_children():
                enumerators.setdefault(one.attributes["DW_AT_name"].value.decode(), one)
        if "DW_AT_name" not in die.attributes:
            continue
        name = die.attributes["DW_AT_name"].value.decode()
        if die.tag == "DW_TAG_structure_type" and "DW_AT_byte_size" in die.attributes:
            structs.setdefault(name, die)
        elif die.tag == "DW_TAG_subprogram" and "DW_AT_declaration" not in die.attributes:
            functions.setdefault(name, die)
    return structs, functions, enumerators


def asm_offsets(path: Path) -> str:
    """A C header with SIZEOF_struct and OFF_struct_member for every struct in an object file."""
    with path.open("rb") as f:
        structs, _ = types(ELFFile(f))
    lines = ["/* Generated from the C compiler's debug info. */"]
    for s in sorted(structs.values(), key=lambda s: s.name):
        lines.append(f"#define SIZEOF_{s.name} {s.size}")
        lines += [f"#define OFF_{s.name}_{name} {f.offset}" for name, f in s.fields.items()]
    return "\n".join(lines) + "\n"


def struct(die: DIE) -> Struct:
    """The struct that an entry describes, members of its anonymous ones among its own; of a bit field the byte it begins in."""
    fields: dict[str, Field] = {}
    todo, room = [(die, 0)], _MOST  # the last one is the next
    while todo:
        one, base = todo.pop()
        of = _bare(one.get_DIE_from_attribute("DW_AT_type")) if one.tag == "DW_TAG_member" else one
        if one.tag == "DW_TAG_member" and "DW_AT_name" in one.attributes:
            fields[one.attributes["DW_AT_name"].value.decode()] = Field(base, *_size(of))
        elif of.tag in _STRUCTS:
            members = [(m, base + _offset(m)) for m in of.iter_children() if m.tag == "DW_TAG_member"]
            room -= 1 + len(members)
            if room < 0:
                raise ValueError("a struct has no end")
            todo += reversed(members)
    return Struct(die.attributes["DW_AT_name"].value.decode(), die.attributes["DW_AT_byte_size"].value, fields)


def prototype(die: DIE) -> Prototype:
    """The prototype of the function that an entry describes."""
    taken = tuple(_value(c) for c in die.iter_children() if c.tag == "DW_TAG_formal_parameter")
    return Prototype(die.attributes["DW_AT_name"].value.decode(), taken, _value(die))


def enumerator(die: DIE) -> int:
    """The value of the enumerator that an entry describes, without a sign."""
    value = die.attributes["DW_AT_const_value"].value
    return value % (1 << (32 if value >= -1 << 31 else 64)) if value < 0 else value


def _offset(member: DIE) -> int:
    """The offset of a member in bytes; members of a union have none, and DWARF 4 gives that of a bit field in bits."""
    if "DW_AT_data_bit_offset" in member.attributes:
        return member.attributes["DW_AT_data_bit_offset"].value // 8
    return member.attributes["DW_AT_data_member_location"].value if "DW_AT_data_member_location" in member.attributes else 0


def _bare(die: DIE) -> DIE:
    """A type without its typedefs and qualifiers."""
    for _ in range(_DEEP):
        if die.tag not in _THROUGH or "DW_AT_type" not in die.attributes:
            return die
        die = die.get_DIE_from_attribute("DW_AT_type")
    raise ValueError("a type stands for itself")


def _value(die: DIE) -> Value:
    """The parameter or result with the type of a DIE."""
    if "DW_AT_type" not in die.attributes:
        return Value(0)
    of = _bare(die.get_DIE_from_attribute("DW_AT_type"))
    return Value(_size(of)[0], of.tag in _STRUCTS, of.tag == "DW_TAG_union_type")


def _size(die: DIE) -> tuple[int, int]:
    """(bytes, elements) of a type, through typedefs and qualifiers; elements of what is no array are 0."""
    elements, array = 1, False
    for _ in range(_DEEP):
        if "DW_AT_byte_size" in die.attributes or die.tag == "DW_TAG_pointer_type":
            one = die.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in die.attributes else 8
            if one * elements >= _LARGE:
                raise ValueError("an array has no end")
            return one * elements, elements if array else 0
        if die.tag == "DW_TAG_array_type":
            array = True
            for sub in die.iter_children():
                if sub.tag == "DW_TAG_subrange_type":
                    elements *= _bound(sub)
        if "DW_AT_type" not in die.attributes:
            return 0, 0
        die = die.get_DIE_from_attribute("DW_AT_type")
    raise ValueError("a type stands for itself")


def _bound(sub: DIE) -> int:
    """How many elements a dimension has; 0 of one without end, such as a flexible array's, whose last index may be -1."""
    if "DW_AT_count" in sub.attributes:
        return sub.attributes["DW_AT_count"].value
    return sub.attributes["DW_AT_upper_bound"].value + 1 & (1 << 64) - 1 if "DW_AT_upper_bound" in sub.attributes else 0
