"""Which function of the source an instruction was written in, where the compiler put one function into another: from DWARF."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import elftools
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

from ..base import cache

_INLINED, _BLOCK, _FUNCTION = "DW_TAG_inlined_subroutine", "DW_TAG_lexical_block", "DW_TAG_subprogram"


class Written:
    """The functions of one image, and what was inlined into each."""

    def __init__(self, spans: list[tuple[int, int, int, str]]) -> None:
        self._spans = spans
        self._known: dict[int, tuple[str, ...]] = {}

    def chain(self, pc: int) -> tuple[str, ...]:
        """The names of the functions that the instruction at an address is part of, the one that was called first; empty for
        assembly, and for code made at run time. Where the compiler mixed the instructions of two, its own word is taken."""
        if pc not in self._known:
            spans = sorted((depth, name) for low, high, depth, name in self._spans if low <= pc < high)
            self._known[pc] = tuple(name for _, name in spans)
        return self._known[pc]


@functools.lru_cache(maxsize=64)
def written(path: Path) -> Written:
    """The functions that each instruction of a guest image was written in, from its debug info; cached, as that takes longer to
    read than most hooks to run."""

    def read(folder: Path) -> Path:
        (folder / "spans").write_text(json.dumps(_all_spans(path)), "utf-8")
        return folder / "spans"

    readers = Path(__file__).read_bytes() + elftools.__version__.encode()
    name = f"inlined-{hashlib.sha256(path.read_bytes() + readers).hexdigest()[:24]}.json"
    return Written([(low, high, depth, name) for low, high, depth, name in json.loads(cache.made(read, name))])


def _all_spans(path: Path) -> list[tuple[int, int, int, str]]:
    with path.open("rb") as f:
        dwarf = ELFFile(f).get_dwarf_info()
        spans: list[tuple[int, int, int, str]] = []
        for unit in dwarf.iter_CUs():
            for die in unit.get_top_DIE().iter_children():
                if die.tag == _FUNCTION and "DW_AT_low_pc" in die.attributes:
                    spans += list(_spans(die, 0, unit, dwarf))
    return spans


def _spans(die: DIE, depth: int, unit: CompileUnit, dwarf: DWARFInfo) -> Iterator[tuple[int, int, int, str]]:
    """(first address, address behind, depth, name) of a function and of all that is inlined into it."""
    if die.tag != _BLOCK:
        name = _name(die)
        yield from ((low, high, depth, name) for low, high in _stretches(die, unit, dwarf))
        depth += 1
    for child in die.iter_children():
        if child.tag in (_INLINED, _BLOCK):
            yield from _spans(child, depth, unit, dwarf)


def _name(die: DIE) -> str:
    while "DW_AT_name" not in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_abstract_origin")
    return die.attributes["DW_AT_name"].value.decode()


def _stretches(die: DIE, unit: CompileUnit, dwarf: DWARFInfo) -> Iterator[tuple[int, int]]:
    """The addresses of an entry: one stretch, or a list of them, as DWARF 4 writes it."""
    if "DW_AT_low_pc" in die.attributes:
        low, size = (die.attributes[name].value for name in ("DW_AT_low_pc", "DW_AT_high_pc"))
        yield low, low + size
    elif "DW_AT_ranges" in die.attributes:
        lists: Any = dwarf.range_lists()  # which of its kinds that is depends on the version of DWARF
        top = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = top.value if top else 0
        for entry in lists.get_range_list_at_offset(die.attributes["DW_AT_ranges"].value, unit):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            else:
                yield base + entry.begin_offset, base + entry.end_offset
