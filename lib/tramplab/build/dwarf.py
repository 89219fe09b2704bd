"""Struct layouts and function prototypes as the guest's compiler decided them, read from DWARF, so that none is ever typed."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile


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
    """What a function takes or returns: its size in bytes (0: nothing), and whether it is a struct, by value."""

    size: int
    struct: bool = False


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
        more, functions = of_unit(unit, structs)
        structs |= more
        prototypes |= functions
    return structs, prototypes


def of_unit(unit: CompileUnit, known: Container[str] = ()) -> tuple[dict[str, Struct], dict[str, Prototype]]:
    """The same of one compilation unit, without the structs that are known already."""
    structs: dict[str, Struct] = {}
    prototypes: dict[str, Prototype] = {}
    for die in unit.get_top_DIE().iter_children():
        if "DW_AT_name" not in die.attributes:
            continue
        name = die.attributes["DW_AT_name"].value.decode()
        if die.tag == "DW_TAG_structure_type" and "DW_AT_byte_size" in die.attributes and name not in known:
            structs.setdefault(name, _struct(die))
        elif die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes:
            taken = tuple(_value(c) for c in die.iter_children() if c.tag == "DW_TAG_formal_parameter")
            prototypes[name] = Prototype(name, taken, _value(die))
    return structs, prototypes


def asm_offsets(path: Path) -> str:
    """A C header with SIZEOF_struct and OFF_struct_member for every struct in an object file."""
    with path.open("rb") as f:
        known, _ = types(ELFFile(f))
    lines = ["/* Generated from the C compiler's debug info. */"]
    for s in sorted(known.values(), key=lambda s: s.name):
        lines.append(f"#define SIZEOF_{s.name} {s.size}")
        lines += [f"#define OFF_{s.name}_{name} {f.offset}" for name, f in s.fields.items()]
    return "\n".join(lines) + "\n"


def _struct(die: DIE) -> Struct:
    fields = {}
    for child in die.iter_children():
        if child.tag == "DW_TAG_member" and "DW_AT_name" in child.attributes:
            size, elements = _size(child.get_DIE_from_attribute("DW_AT_type"))
            name = child.attributes["DW_AT_name"].value.decode()
            fields[name] = Field(child.attributes["DW_AT_data_member_location"].value, size, elements)
    return Struct(die.attributes["DW_AT_name"].value.decode(), die.attributes["DW_AT_byte_size"].value, fields)


def _value(die: DIE) -> Value:
    """What the type of a DIE makes of a parameter or result."""
    if "DW_AT_type" not in die.attributes:
        return Value(0)
    of = die.get_DIE_from_attribute("DW_AT_type")
    size = _size(of)[0]
    while of.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type") and "DW_AT_type" in of.attributes:
        of = of.get_DIE_from_attribute("DW_AT_type")
    return Value(size, of.tag in ("DW_TAG_structure_type", "DW_TAG_union_type"))


def _size(die: DIE) -> tuple[int, int]:
    """(bytes, elements) of a type, through typedefs and qualifiers."""
    if "DW_AT_byte_size" in die.attributes:
        return die.attributes["DW_AT_byte_size"].value, 0
    if die.tag == "DW_TAG_pointer_type":
        return 8, 0
    if die.tag == "DW_TAG_array_type":
        one, _ = _size(die.get_DIE_from_attribute("DW_AT_type"))
        count = 1
        for sub in die.iter_children():
            if sub.tag == "DW_TAG_subrange_type":
                if "DW_AT_count" in sub.attributes:
                    count *= sub.attributes["DW_AT_count"].value
                else:
                    count *= sub.attributes["DW_AT_upper_bound"].value + 1
        return one * count, count
    if "DW_AT_type" in die.attributes:
        return _size(die.get_DIE_from_attribute("DW_AT_type"))
    return 0, 0
