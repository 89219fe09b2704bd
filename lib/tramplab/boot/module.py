"""The kernel module that attaches what only kernel code can (ko/hooks.c), compiled for one image and needing none of its
headers: layouts are of the image's types, and which functions there are its symbols say."""

from __future__ import annotations

import io
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ..build import toolchain
from ..build.symbols import FUNCTION, symbols
from ..emulate import decode
from ..isa import Isa
from ..vmlinux.open.image import Opened

SOURCE = Path(__file__).resolve().parent / "ko" / "hooks.c"
#: Prefix of the names in layout.h -> the struct, and its members that the module sets or reads.
_STRUCTS = {
    "MODULE": ("module", {"NAME": "name", "INIT": "init"}),
    "OPS": ("ftrace_ops", {"FUNC": "func", "FLAGS": "flags", "PRIVATE": "private"}),
    "KPROBE": ("kprobe", {"ADDR": "addr", "PRE_HANDLER": "pre_handler"}),
    "KRETPROBE": ("kretprobe", {"KP": "kp", "HANDLER": "handler"}),
}
_FPROBE = {"FPROBE": ("fprobe", {"ENTRY": "entry_handler", "EXIT": "exit_handler", "DATA": "entry_data_size", "MISSED": "nmissed"})}
#: The module's handlers that probes are measured with.
HANDLERS = ("callback", "trampoline", "fprobe_entry", "fprobe_exit", "kprobe_handler", "kretprobe_handler")
#: Up to v6.2 the functions of this name take an address, and those of the other one ops.
_DIRECT = ("register_ftrace_direct_multi", "register_ftrace_direct")


def layout(opened: Opened) -> str:
    """The header that says what the image has."""
    names: dict[str, object] = {}
    for prefix, (struct, members) in (_STRUCTS | (_FPROBE if opened.has("register_fprobe_ips") else {})).items():
        of = opened.struct(struct)
        names[f"{prefix}_SIZE"] = of.size
        names |= {f"{prefix}_{name}": of.fields[member].offset for name, member in members.items()}
    if opened.isa.name == "x86_64":
        names["REGS_CS"] = opened.struct("pt_regs").fields["cs"].offset
    direct = next(filter(opened.has, _DIRECT), None)
    if direct:
        remove = opened.prototype(f"un{direct}")
        names |= {"DIRECT": 1, "REGISTER_DIRECT": direct, "UNREGISTER_DIRECT": f"un{direct}"}
        names |= {"UNREGISTER_TAKES": len(remove.parameters) if remove else 2}
    if opened.has("vermagic"):
        names["VERMAGIC"] = f'"{_text(opened, "vermagic")}"'
    return "".join(f"#define {name} {value}\n" for name, value in names.items())


def _text(opened: Opened, symbol: str) -> str:
    """The text that a symbol names."""
    at = opened.address(symbol)
    segment = next(s for s in opened.image.segments if s.address <= at < s.address + s.size)
    return bytes(segment.data[at - segment.address :]).partition(b"\0")[0].decode("latin-1")


def made(opened: Opened) -> bytes:
    """The module's file."""
    return toolchain.module(opened.isa, SOURCE, layout(opened))


def handlers(isa: Isa, file: bytes) -> dict[str, int]:
    """The instructions of each handler of a module, its return with them; a handler's code is one straight line."""
    elf = ELFFile(io.BytesIO(file))
    out = {}
    table = elf.get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    for symbol in symbols(table):
        if symbol.kind == FUNCTION and symbol.name in HANDLERS:
            section = elf.get_section(symbol.section).data()
            out[symbol.name] = straight(isa, section[symbol.value : symbol.value + symbol.size])
    return out


def straight(isa: Isa, code: bytes) -> int:
    """The instructions of code that is executed from its beginning to its end."""
    at = count = 0
    while at < len(code):
        at += decode.at(isa, at, code[at : at + isa.max_insn]).size
        count += 1
    return count
