"""x86-64's alternatives, for a CPU that has POPCNT and none of the other features they ask for.

An entry names an instruction and what takes its place if the CPU has a feature, or if it has not. Padding becomes long NOPs in
either case. One feature is always there (X86_FEATURE_ALWAYS), with which a paravirt call is replaced by a direct one. POPCNT is in
every CPU in use, and counts depend on it: without it v6.7 to v6.9 call a function to take a node for a kretprobe. Of what else CPUs
have, nothing that hooks execute in Debian's 6.1 to 7.3 asks but CLAC, one instruction in place of another.
"""

from __future__ import annotations

import struct
from collections.abc import Container

from ...base.errors import TramplabError
from ...emulate import decode
from ...emulate.decode import Instruction
from ...isa.x86_64 import CALL, NOPS
from ..open.image import Opened
from ..open.sections import damaged
from .tables import reached, table
from .text import Text

#: X86_FEATURE_ALWAYS, X86_FEATURE_POPCNT.
ALWAYS, POPCNT = 3 * 32 + 21, 4 * 32 + 23
_NOT_OLD, _FEATURE_OLD = 1 << 15, 0x7FFF  # ALTINSTR_FLAG_INV, in the feature's number, up to v6.2
_NOT, _DIRECT_CALL, _FEATURE = 1 << 0, 1 << 1, 0xFFFF  # flags, from v6.3: the upper half of the word that has the feature's number
#: The longest NOP that a kernel takes: of 8 bytes, since v6.5 of 11.
_NOP9 = bytes.fromhex("660f1f840000000000")
_LONG = {**NOPS, 9: _NOP9, 10: b"\x66" + _NOP9, 11: b"\x66\x66" + _NOP9}


def nops(size: int, longest: int = 8) -> bytes:
    """No-operations of this many bytes, in as few instructions as the kernel uses."""
    return _LONG[longest] * (size // longest) + (_LONG[size % longest] if size % longest else b"")


def apply(opened: Opened, text: Text, spared: Container[int] = ()) -> list[str]:
    """Patch the kernel's text but for these sites; says in words what was done."""
    layout = opened.struct("alt_instr")
    base, entries = table(opened, text.read, "__alt_instructions", layout.size)
    old = "cpuid" in layout.fields and "flags" not in layout.fields
    longest = 8 if old else 11
    replaced = 0
    for at in range(0, len(entries), layout.size):
        value = {
            name: int.from_bytes(entries[at + f.offset : at + f.offset + f.size], "little", signed=name.endswith("offset"))
            for name, f in layout.fields.items()
        }
        site = base + at + layout.fields["instr_offset"].offset + value["instr_offset"]
        if not opened.text[0] <= site < opened.text[1] or site in spared:
            continue
        flags = (_NOT if value["cpuid"] & _NOT_OLD else 0) if old else value["flags"]
        there = value["cpuid"] & (_FEATURE_OLD if old else _FEATURE) in (ALWAYS, POPCNT)
        size = value["instrlen"]
        if site + size > opened.text[1]:
            raise damaged(opened.payload.path, f"the site of an alternative at {site:#x} goes on after the end of its text")
        if there != bool(flags & _NOT):
            source = base + at + layout.fields["repl_offset"].offset + value["repl_offset"]
            code = _moved(opened, text, source, site, value["replacementlen"], bool(flags & _DIRECT_CALL))
            if len(code) > size:
                raise damaged(opened.payload.path, f"an alternative is longer than the site at {site:#x} that it is for")
            text.write(site, code + b"\x90" * (size - len(code)))
            replaced += 1
        _join(opened, text, site, size, longest)
    every = len(entries) // layout.size
    return [f"{replaced} of {every} alternatives applied, for a CPU with no feature but POPCNT; padding became long NOPs"]


def _moved(opened: Opened, text: Text, source: int, site: int, size: int, direct: bool) -> bytes:
    """A replacement as it lies at the site: relative branches out of it lead where they led."""
    code = bytearray(text.read(source, size))
    if direct:  # the site calls through a pointer, and now what the pointer holds
        original = text.read(site, 7)
        if original[:2] == b"\xff\x15":
            pointer = site + 6 + struct.unpack_from("<i", original, 2)[0]
            return CALL.encode(site, reached(opened, site, text.word(pointer)))
        if original[:3] == b"\xff\x14\x25":
            pointer = struct.unpack_from("<i", original, 3)[0] & (1 << 64) - 1
            return CALL.encode(site, reached(opened, site, text.word(pointer)))
    at = 0
    while at < size:
        instruction = _instruction(opened, source + at, bytes(code[at:]))
        end = at + instruction.size
        relative = instruction.data[0] in (0xE8, 0xE9) or (instruction.data[0] == 0x0F and 0x80 <= instruction.data[1] <= 0x8F)
        if relative:
            (distance,) = struct.unpack_from("<i", code, end - 4)
            if not 0 <= end + distance <= size:
                struct.pack_into("<i", code, end - 4, distance + source - site)
        at = end
    return bytes(code)


def _join(opened: Opened, text: Text, site: int, size: int, longest: int) -> None:
    """Runs of one-byte NOPs between instructions become long ones."""
    code, at = text.read(site, size), 0
    while at < size:
        if code[at] == 0x90:
            end = at
            while end < size and code[end] == 0x90:
                end += 1
            if end - at > 1:
                text.write(site + at, nops(end - at, longest))
            at = end
        else:
            at += _instruction(opened, site + at, code[at:]).size


def _instruction(opened: Opened, at: int, code: bytes) -> Instruction:
    try:
        return decode.at(opened.isa, at, code)
    except TramplabError:
        raise damaged(opened.payload.path, f"an alternative has no instruction at {at:#x}") from None
