"""x86-64: sites become NOPs, alternatives are applied as for a CPU without features, static calls call what they stand for; and,
where no mitigations are wanted, returns and indirect branches are what they would be without."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from ...errors import TramplabError
from ...isa.x86_64 import CALL, ENDBR64, JMP, NOP5
from ..image import Opened
from .alternatives import apply, nops
from .sites import no_sites
from .text import Text

_RET = b"\xc3" + b"\xcc" * 4
_REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
_THUNK = re.compile(r"__x86_indirect_(?:call_|jump_|its_)?thunk_(r\w+)$")


def shape(opened: Opened, text: Text) -> str:
    """There is one."""
    return "nop5"


def boot(opened: Opened, text: Text, plain: bool) -> list[str]:
    """Patch everything; plain: without mitigations."""
    done = [f"{_sites(opened, text)} patch sites became NOPs", *apply(opened, text)]
    done.append(f"{_static_calls(opened, text)} static calls made direct")
    if plain:
        done.append(f"{_returns(opened, text)} returns and {_retpolines(opened, text)} indirect branches made plain")
    return done


def _sites(opened: Opened, text: Text) -> int:
    """Each function's call of __fentry__, which may lie behind a landing pad; those that a linker made NOPs stay."""
    fentry, (first, last) = opened.address("__fentry__"), opened.text
    found = 0
    for address in {s.address for s in opened.image.symbols.values() if first <= s.address < last - 16}:
        begin = text.read(address, 9)
        at = 4 if begin[:4] == ENDBR64 else 0
        if begin[at] == CALL.encode(0, 0)[0] and address + at + 5 + struct.unpack_from("<i", begin, at + 1)[0] == fentry:
            text.write(address + at, NOP5)
            found += 1
        elif begin[at : at + 5] == NOP5:
            found += 1
    if not found:
        raise no_sites(opened)
    return found


def _static_calls(opened: Opened, text: Text) -> int:
    """Sites of static calls: each calls, or jumps to, what its key holds; nothing where that is nothing."""
    if not opened.has("__start_static_call_sites"):
        return 0
    start, stop = opened.address("__start_static_call_sites"), opened.address("__stop_static_call_sites")
    done = 0
    for at in range(start, stop, 8):
        site, key = text.relative(at), text.relative(at + 4)
        tail, key = key & 1, key & ~3
        opcode, target = text.read(site, 1), text.word(key)
        branch = JMP if tail else CALL
        if opcode != branch.encode(0, 0)[:1] or not opened.text[0] <= site < opened.text[1]:
            continue  # a conditional tail call, or a part that is freed after boot
        text.write(site, branch.encode(site, target) if target else (_RET if tail else NOP5))
        done += 1
    return done


def _table(opened: Opened, text: Text, name: str) -> Iterator[int]:
    """The places in the kernel's text that a table of signed distances names."""
    start, data = opened.section_at.get(name, 0), opened.sections.get(name, b"")
    symbols = {".return_sites": "__return_sites", ".retpoline_sites": "__retpoline_sites"}
    if not data and opened.has(symbols[name]):
        start = opened.address(symbols[name])
        data = text.read(start, opened.address(f"{symbols[name]}_end") - start)
    for at, (distance,) in zip(range(start, start + len(data), 4), struct.iter_unpack("<i", data[: len(data) & ~3]), strict=False):
        if opened.text[0] <= at + distance < opened.text[1]:
            yield at + distance


def _returns(opened: Opened, text: Text) -> int:
    """Jumps to the return thunk become returns."""
    done = 0
    for site in _table(opened, text, ".return_sites"):
        if text.read(site, 1) == JMP.encode(0, 0)[:1]:
            text.write(site, _RET)
            done += 1
    return done


def _retpolines(opened: Opened, text: Text) -> int:
    """Calls of and jumps to the thunk of a register become calls and jumps through that register."""
    thunks = {s.address: m[1] for s in opened.image.symbols.values() if (m := _THUNK.match(s.name))}
    done = 0
    for site in _table(opened, text, ".retpoline_sites"):
        code = text.read(site, 7)
        skip = int(code[0] == 0x2E)  # a CS prefix, which leaves room for the longer forms
        opcode = code[skip]
        conditional = opcode == 0x0F and 0x80 <= code[skip + 1] <= 0x8F
        size = skip + (6 if conditional else 5)
        register = thunks.get(site + size + struct.unpack_from("<i", code, size - 4)[0])
        if register is None or (opcode not in (0xE8, 0xE9) and not conditional):
            continue
        indirect = _indirect(opcode == 0xE8, register)
        if conditional:  # the opposite condition jumps over the indirect one
            indirect = bytes([code[skip + 1] & 0x0F ^ 1 | 0x70, size - 2]) + indirect
        if len(indirect) > size:
            raise TramplabError(f"there is no room for an indirect branch at {site:#x}; use --mitigations linked.")
        text.write(site, indirect + nops(size - len(indirect)))
        done += 1
    return done


def _indirect(call: bool, register: str) -> bytes:
    """CALL or JMP through a register (Intel SDM, FF /2, FF /4)."""
    number = _REGISTERS.index(register)
    return (b"\x41" if number > 7 else b"") + bytes([0xFF, (0xD0 if call else 0xE0) | number & 7])
