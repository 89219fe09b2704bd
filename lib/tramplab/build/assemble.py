"""Assembly text to bytes. The only module that knows Keystone.

Keystone assembles x86-64 and arm64 in-process; riscv64, and every ISA on hosts that Keystone has no wheel for, is
assembled by clang. Both give the same bytes for everything the project assembles (a test holds them to it).
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from ..base import cache
from ..base.errors import TramplabError
from ..isa import Isa
from .toolchain import run_tool, version

_DECIMAL = re.compile(r"(?<![\w.$])\d+(?![\w.:])")

try:
    import keystone
except ImportError:  # no wheel for this host: clang serves all ISAs
    keystone = None


@functools.lru_cache(maxsize=1024)
def assemble(isa: Isa, source: str, address: int = 0) -> bytes:
    """The bytes of some assembly (Intel syntax on x86-64), as lying at address; raises TramplabError naming the trouble."""
    if keystone is not None and isa.keystone is not None:
        return by_keystone(isa, source, address)
    return by_clang(isa, source, address)


def by_keystone(isa: Isa, source: str, address: int = 0) -> bytes:
    """Assemble with Keystone; ISAs and hosts that it does not know raise TramplabError."""
    if keystone is None or isa.keystone is None:
        raise TramplabError(f"Keystone does not assemble {isa.name} here; use by_clang().")
    try:
        data, _ = _engine(*isa.keystone).asm(hexadecimal(source), address, as_bytes=True)
    except keystone.KsError as e:
        raise TramplabError(f"{isa.name} assembly: {e.message} in {' '.join(source.split())!r}.") from None
    if not data:
        raise TramplabError(f"{isa.name} assembly: nothing to assemble in {' '.join(source.split())!r}.")
    return data


def hexadecimal(source: str) -> str:
    """The source with its numbers in hexadecimal, which cannot be taken for anything else: in which base Keystone 0.9.2 reads a
    number without a prefix is left to chance, as nothing sets it, and now and then it was 16.

    >>> hexadecimal("mov rax, qword ptr [rsp + 208]"), hexadecimal("movk x9, #0x12, lsl #16")
    ('mov rax, qword ptr [rsp + 0xd0]', 'movk x9, #0x12, lsl #0x10')
    >>> hexadecimal("stp x29, x30, [sp, #-16]!")
    'stp x29, x30, [sp, #-0x10]!'
    """
    return _DECIMAL.sub(lambda number: hex(int(number[0])), source)


def by_clang(isa: Isa, source: str, address: int = 0) -> bytes:
    """Assemble with clang and lld; the bytes are kept in the cache."""
    flags = [f for f in isa.cflags if f.startswith(("-march", "-mabi"))]
    name = hashlib.sha256(repr((isa.triple, flags, isa.asm_prologue, source, address, version())).encode()).hexdigest()

    def make(folder: Path) -> Path:
        (folder / "code.s").write_text(f"{isa.asm_prologue}\n.text\n{source}\n", "utf-8")
        layout = ("--oformat=binary", "--no-relax", "-e", "0", f"-Ttext={address:#x}", "--image-base=0")
        try:
            run_tool("clang", f"--target={isa.triple}", *flags, "-c", "code.s", "-o", "code.o", cwd=folder)
            run_tool("ld.lld", *layout, "code.o", "-o", "code.bin", cwd=folder)
        except TramplabError as e:
            reason = str(e).rsplit("error: ", 1)[-1].rstrip(".")
            raise TramplabError(f"{isa.name} assembly: {reason} in {' '.join(source.split())!r}.") from None
        if not (folder / "code.bin").stat().st_size:
            raise TramplabError(f"{isa.name} assembly: nothing to assemble in {' '.join(source.split())!r}.")
        return folder / "code.bin"

    return cache.made(make, f"asm-{name[:24]}.bin")


@functools.cache
def _engine(arch: str, mode: str) -> keystone.Ks:
    return keystone.Ks(getattr(keystone, arch), getattr(keystone, mode))
