"""x86-64: sites become NOPs, alternatives are applied as for a CPU without features, static calls call what they stand for; and,
where no mitigations are wanted, returns and indirect branches are what they would be without."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

from ...errors import TramplabError
from ...isa.x86_64 import CALL, ENDBR64, JMP, NOP5, NOPS
from ..image import Opened
from .alternatives import apply, nops
from .sites import no_sites
from .text import Text

#: What reads so many bytes at an address, of an image or a machine.
Read = Callable[[int, int], bytes]
_RET, _JMP8 = b"\xc3" + b"\xcc" * 4, 0xEB
_REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
_THUNK = re.compile(r"__x86_indirect_(?:call_|jump_|its_)?thunk_(r\w+)$")


def compiled(entry: bytes, at: int, shape: str) -> int | None:
    """The site is the function's first instruction, or the one behind its landing pad."""
    skip = len(ENDBR64) if entry.startswith(ENDBR64) else 0
    return at + skip if entry[skip : skip + 5] == NOP5 else None


def boot(opened: Opened, text: Text, plain: bool) -> tuple[str, list[str]]:
    """Patch everything; plain: without mitigations. There is one shape."""
    done = [f"{_sites(opened, text)} patch sites became NOPs", *apply(opened, text, () if plain else _thunk(opened))]
    done.append(f"{_static_calls(opened, text)} static calls made direct")
    if plain:
        done.append(f"{_returns(opened, text)} returns and {_retpolines(opened, text)} indirect branches made plain")
    return "nop5", done


def _thunk(opened: Opened) -> range:
    """The return thunk, which a boot that knows a better one makes a trap for those that still come by."""
    symbol = opened.image.symbols.get("__x86_return_thunk")
    return range(symbol.address, symbol.address + symbol.size) if symbol else range(0)


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
    done = 0
    for site, key, tail in static_calls(opened, text.read):
        if text.read(site, 1) == (JMP if tail else CALL).encode(0, 0)[:1]:  # not a conditional tail call
            text.write(site, static_call(site, text.word(key), tail))
            done += 1
    return done


def static_calls(opened: Opened, read: Read) -> Iterator[tuple[int, int, bool]]:
    """(site, its key, is it a tail call?) of all static calls in the text that stays after boot."""
    if not opened.has("__start_static_call_sites"):
        return
    start, stop = opened.address("__start_static_call_sites"), opened.address("__stop_static_call_sites")
    for at, (site, key) in zip(range(start, stop, 8), struct.iter_unpack("<ii", read(start, (stop - start) & ~7)), strict=False):
        if opened.text[0] <= at + site < opened.text[1]:
            yield at + site, (at + 4 + key) & ~3, bool((at + 4 + key) & 1)


def static_call(site: int, target: int, tail: bool) -> bytes:
    """What lies at the site of a static call of a function; of none, where target is 0."""
    if not target:
        return _RET if tail else NOP5
    return (JMP if tail else CALL).encode(site, target)


def flipped(opened: Opened, read: Read, key: str) -> Iterator[tuple[int, bytes]]:
    """(site, what lies there then) of the branches in the text that depend on a static key, when the key is what it is not now: a
    NOP becomes a jump, and a jump a NOP."""
    entry, wanted = opened.struct("jump_entry"), opened.address(key)
    start, stop = opened.address("__start___jump_table"), opened.address("__stop___jump_table")
    every = struct.iter_unpack("<iiq", read(start, stop - start))
    for at, (site, target, found) in zip(range(start, stop, entry.size), every, strict=True):
        at_site, at_key = at + entry.fields["code"].offset + site, at + entry.fields["key"].offset + found
        if at_key & ~3 != wanted or not opened.text[0] <= at_site < opened.text[1]:
            continue
        now = read(at_site, 5)
        size = 2 if now[0] == _JMP8 or now.startswith(NOPS[2]) else 5
        if now[0] in (_JMP8, JMP.encode(0, 0)[0]):
            yield at_site, NOPS[size]
        else:
            far = at + entry.fields["target"].offset + target
            yield at_site, bytes([_JMP8, far - at_site - 2 & 0xFF]) if size == 2 else JMP.encode(at_site, far)


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
