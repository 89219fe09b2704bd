"""x86-64: sites become NOPs, alternatives are applied as for a plain CPU, static calls call what they stand for; and,
returns and indirect branches are what the mitigations make of them that are wanted, or what they would be without."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from ...base.errors import TramplabError
from ...isa.x86_64 import CALL, ENDBR64, JMP, NOP5, NOPS
from ..open.image import Opened
from ..open.sections import damaged
from .alternatives import apply, nops
from .mitigations import LINKED, NONE, RETPOLINED, RETURN_THUNKS, SRSO
from .sites import no_sites
from .tables import Read, reached, rows
from .text import Text

_INT3 = b"\xcc"
_RET, _JMP8, _CS = b"\xc3" + _INT3 * 4, 0xEB, 0x2E
#: The target of a conditional static call of nothing (arch/x86/kernel/static_call.c).
_NOTHING = "__static_call_return"
_REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
_THUNK = re.compile(r"__x86_indirect_(?:call_|jump_|its_)?thunk_(r\w+)$")


def compiled(entry: bytes, at: int, shape: str) -> int | None:
    """The address of the function's first instruction, or of the one behind its landing pad; None if that is no idle site."""
    skip = len(ENDBR64) if entry.startswith(ENDBR64) else 0
    return at + skip if entry[skip : skip + 5] == NOP5 else None


def boot(opened: Opened, text: Text, mitigations: str) -> tuple[str, list[str]]:
    """Patch the text; all sites have one shape."""
    returns = [] if mitigations == LINKED else list(_return_sites(opened, text))
    done = [f"{_sites(opened, text)} patch sites became NOPs", *apply(opened, text, _spared(opened, mitigations))]
    done.append(f"{_static_calls(opened, text)} static calls made direct")
    if mitigations == NONE:
        done.append(f"{_returns(text, returns)} returns and {_retpolines(opened, text)} indirect branches made plain")
    elif mitigations != LINKED:
        safe = _safe(opened) if mitigations in RETURN_THUNKS else 0
        now = f"{_returns(text, returns, safe)} returns {'are safe ones' if safe else 'made plain'}"
        plain = "" if mitigations in RETPOLINED else f"{_retpolines(opened, text)} indirect branches made plain"
        done.append(f"{now}, {plain or 'indirect branches are retpolines'}")
    return "nop5", done


def _safe(opened: Opened) -> int:
    """SRSO's return thunk; raises TramplabError for a kernel that has none."""
    if not opened.has(RETURN_THUNKS[SRSO]):
        raise TramplabError(f"{opened.payload.path} has no {RETURN_THUNKS[SRSO]}: use --mitigations {LINKED}.")
    return opened.address(RETURN_THUNKS[SRSO])


def _spared(opened: Opened, mitigations: str) -> set[int]:
    """The sites where alternatives stay as linked: in the return thunk, which a boot with another thunk makes a trap; and in the
    thunks of registers, which are linked as retpolines, where these are wanted."""
    spared: set[int] = set()
    for s in opened.image.symbols.values() if mitigations != NONE else ():
        if s.name == RETURN_THUNKS[LINKED] or (mitigations in RETPOLINED and _THUNK.match(s.name)):
            spared.update(range(s.address, s.address + s.size))
    return spared


def _sites(opened: Opened, text: Text) -> int:
    """Make each function's call of __fentry__, which may lie behind a landing pad, a NOP; gives how many there are."""
    fentry, (first, last) = opened.address("__fentry__"), opened.text
    count = 0
    for address in {s.address for s in opened.image.every if first <= s.address < last - 16}:
        begin = text.read(address, 9)
        at = 4 if begin[:4] == ENDBR64 else 0
        if begin[at] == CALL.encode(0, 0)[0] and address + at + 5 + struct.unpack_from("<i", begin, at + 1)[0] == fentry:
            text.write(address + at, NOP5)
            count += 1
        elif begin[at : at + 5] == NOP5:
            count += 1
    if not count:
        raise no_sites(opened)
    return count


def _static_calls(opened: Opened, text: Text) -> int:
    """Make each site of a static call call, or jump to, what its key holds; gives how many there are."""
    done = 0
    for site, key, tail in static_calls(opened, text.read):
        now, target = text.read(site, 2), text.word(key)
        if _jumps_if(now) or now[:1] == (JMP if tail else CALL).encode(0, 0)[:1]:
            text.write(site, static_call(opened, now, site, target and reached(opened, site, target), tail))
            done += 1
    return done


def static_calls(opened: Opened, read: Read) -> Iterator[tuple[int, int, bool]]:
    """(site, its key, is it a tail call?) of all static calls in the text that stays after boot."""
    if not opened.has("__start_static_call_sites"):  # up to v5.9 (kernel/static_call.c), or without objtool
        return
    for at, (site, key) in rows(opened, read, "__start_static_call_sites", "<ii"):
        if opened.text[0] <= at + site < opened.text[1]:
            yield at + site, (at + 4 + key) & ~3, bool((at + 4 + key) & 1)


def static_call(opened: Opened, now: bytes, site: int, target: int, tail: bool) -> bytes:
    """The code at the site of a static call of a function; of a call of none, where target is 0. now: what is there, which is a
    conditional jump where clang has made one of a tail call."""
    if _jumps_if(now):
        to = target or (opened.address(_NOTHING) if opened.has(_NOTHING) else 0)  # older ones cannot do this
        return now[:2] + JMP.encode(site + 1, to)[1:] if to else now
    if not target:
        return _RET if tail else NOP5
    return (JMP if tail else CALL).encode(site, target)


def flipped(opened: Opened, read: Read, key: str) -> Iterator[tuple[int, bytes]]:
    """(site, what lies there then) of the branches in the text that depend on a static key, when the key is what it is not now: a
    NOP becomes a jump, and a jump a NOP. None where branches read the key instead (CONFIG_JUMP_LABEL=n)."""
    if not opened.types.has("jump_entry"):
        return
    entry, wanted = opened.struct("jump_entry"), opened.address(key)
    for at, (site, target, found) in rows(opened, read, "__start___jump_table", "<iiq"):
        at_site, at_key = at + entry.fields["code"].offset + site, at + entry.fields["key"].offset + found
        if at_key & ~3 != wanted or not opened.text[0] <= at_site < opened.text[1]:
            continue
        now = read(at_site, 5)
        size = 2 if now[0] == _JMP8 or now.startswith(NOPS[2]) else 5
        if now[0] in (_JMP8, JMP.encode(0, 0)[0]):
            yield at_site, NOPS[size]
        else:
            far = reached(opened, at_site, at + entry.fields["target"].offset + target)
            yield at_site, bytes([_JMP8, far - at_site - 2 & 0xFF]) if size == 2 else JMP.encode(at_site, far)


def _jumps_if(code: bytes) -> bool:
    """Is it a conditional jump with a distance of 4 bytes (Intel SDM, Jcc)?"""
    return code[0] == 0x0F and 0x80 <= code[1] <= 0x8F


def _named(opened: Opened, text: Text, start: str) -> Iterator[int]:
    """The places in the kernel's text that a table of signed distances names. A kernel that has return thunks has both tables
    (since v5.19, arch/x86/kernel/vmlinux.lds.S); one with retpolines only may have none (up to v5.15), and needs none."""
    if not opened.has("__x86_return_thunk") and not opened.has(start):
        return
    for at, (distance,) in rows(opened, text.read, start, "<i"):
        if opened.text[0] <= at + distance < opened.text[1]:
            yield at + distance


def _return_sites(opened: Opened, text: Text) -> Iterator[tuple[int, int]]:
    """(site, bytes of prefixes) of all jumps to the return thunk, as linked; clang's have a prefix. Raises TramplabError where
    there is something else, which would be counted as it is."""
    for site in _named(opened, text, "__return_sites"):
        code = text.read(site, 2)
        skip = int(code[0] == _CS)
        if code[skip] != JMP.encode(0, 0)[0]:
            raise damaged(opened.payload.path, f"no jump to the return thunk is at {site:#x}, where its table of returns points")
        yield site, skip


def _returns(text: Text, sites: list[tuple[int, int]], thunk: int = 0) -> int:
    """Make jumps to the return thunk returns, or jumps to another thunk, with INT3 behind; gives how many there are. Sites where an
    alternative was put are left out."""
    done = 0
    for site, skip in sites:
        if text.read(site + skip, 1) == JMP.encode(0, 0)[:1]:
            text.write(site, (JMP.encode(site, thunk) if thunk else _RET) + _INT3 * skip)
            done += 1
    return done


def _retpolines(opened: Opened, text: Text) -> int:
    """Make calls of and jumps to the thunk of a register calls and jumps through that register; gives how many there are."""
    thunks = {s.address: m[1] for s in opened.image.symbols.values() if (m := _THUNK.match(s.name))}
    done = 0
    for site in _named(opened, text, "__retpoline_sites"):
        code = text.read(site, 7)
        skip = int(code[0] == _CS)  # which leaves room for the longer forms
        opcode = code[skip]
        conditional = _jumps_if(code[skip:])
        size = skip + (6 if conditional else 5)
        register = thunks.get(site + size + struct.unpack_from("<i", code, size - 4)[0])
        if register is None or (opcode not in (0xE8, 0xE9) and not conditional):
            continue
        indirect = _indirect(opcode == 0xE8, register)
        if conditional:  # the opposite condition jumps over the indirect one
            indirect = bytes([code[skip + 1] & 0x0F ^ 1 | 0x70, size - 2]) + indirect
        if len(indirect) > size:
            raise TramplabError(f"{opened.payload.path} has no room for an indirect branch at {site:#x}: use --mitigations linked.")
        text.write(site, indirect + nops(size - len(indirect)))
        done += 1
    return done


def _indirect(call: bool, register: str) -> bytes:
    """CALL or JMP through a register (Intel SDM, FF /2, FF /4)."""
    number = _REGISTERS.index(register)
    return (b"\x41" if number > 7 else b"") + bytes([0xFF, (0xD0 if call else 0xE0) | number & 7])
