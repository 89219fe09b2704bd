"""The kernel module that attaches what only kernel code can (ko/hooks.c), compiled for one image and needing none of its
headers: layouts are of the image's types, and which functions there are its symbols say."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ..base.errors import TramplabError
from ..build import toolchain
from ..build.symbols import FUNCTION, symbols
from ..emulate import decode
from ..isa import Isa
from ..vmlinux.booted import CHECKED
from ..vmlinux.open.image import Opened
from ..vmlinux.run.layout import turned
from .plan import LEAF

SOURCE = Path(__file__).resolve().parent / "ko" / "hooks.c"
#: Prefix of the names in layout.h -> the struct, its members that the module sets or reads, and functions that come with it.
_STRUCTS = {
    "MODULE": ("module", {"NAME": "name", "INIT": "init"}, ()),
    "OPS": ("ftrace_ops", {"FUNC": "func", "FLAGS": "flags", "PRIVATE": "private"}, ()),
    "KPROBE": ("kprobe", {"ADDR": "addr", "PRE_HANDLER": "pre_handler"}, ("register_kprobe",)),
    "KRETPROBE": ("kretprobe", {"KP": "kp", "HANDLER": "handler"}, ("register_kprobe", "register_kretprobe")),
    "FPROBE": (
        "fprobe",
        {"ENTRY": "entry_handler", "EXIT": "exit_handler", "DATA": "entry_data_size", "MISSED": "nmissed"},
        ("register_fprobe_ips",),
    ),
}
#: The module's handlers that probes are measured with.
HANDLERS = ("callback", "trampoline", "fprobe_entry", "fprobe_exit", "kprobe_handler", "kretprobe_handler")
#: The text of the module's parameter: calls of handlers, calls that fprobes say they missed, and returns with a code segment that
#: is not 0 or of a function that the fprobe is not on.
COUNTERS = "called [0-9a-f]{1,16} missed [0-9a-f]{1,16} odd [0-9a-f]{1,16} ?"
#: Up to v6.2 the functions of the first name take ops and those of the second an address; up to v5.15 there are only the latter.
_DIRECT_MULTI, _DIRECT = "register_ftrace_direct_multi", "register_ftrace_direct"
_BY_OPS = (6, 3)
#: Since then an fprobe's handlers are passed a struct ftrace_regs.
_FPROBE_BY_REGS = (6, 14)
_SH_FLAGS = 8  # where they are in an ELF section's header
#: MOV of a hash to EAX, and the NOPs from it to the function.
_HASH = re.compile(rb"\xb8.{4}(\x90*)$", re.DOTALL)
#: What a kernel's release and the words after it are made of (include/linux/vermagic.h).
_VERMAGIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .,:+~_@=/-]{0,255}")


def layout(opened: Opened) -> str:
    """The header that says what the image has."""
    names: dict[str, object] = {}
    for prefix, (kind, members, functions) in _STRUCTS.items():
        if not all(map(opened.has, functions)):
            continue
        of = opened.struct(kind)
        names[f"{prefix}_SIZE"] = of.size
        names |= {f"{prefix}_{name}": of.fields[member].offset for name, member in members.items()}
    names["FPROBE_REGS"] = "ftrace_regs" if _numbers(opened) >= _FPROBE_BY_REGS else "pt_regs"
    names["FLAGS_TURNED"] = turned(opened.types)
    if opened.isa.name == "x86_64":
        names["REGS_CS"] = opened.struct("pt_regs").fields["cs"].offset
    direct = next(filter(opened.has, (_DIRECT_MULTI, _DIRECT)), None)
    if direct:
        remove = opened.prototype(f"un{direct}")
        names |= {"REGISTER_DIRECT": direct, "UNREGISTER_DIRECT": f"un{direct}"}
        names |= {"UNREGISTER_TAKES": len(remove.parameters) if remove else 2}
        names |= {"DIRECT_BY_ADDRESS": 1} if direct == _DIRECT and _numbers(opened) < _BY_OPS else {}
    if opened.has("vermagic"):
        names["VERMAGIC"] = f'"{_vermagic(opened)}"'
    return "".join(f"#define {name} {value}\n" for name, value in names.items())


def _numbers(opened: Opened) -> tuple[int, ...]:
    return tuple(int(number) for number in opened.release[1:].split("."))


def _vermagic(opened: Opened) -> str:
    """The words by which a kernel knows its modules. Raises TramplabError for what can be none: they go into C."""
    text = _bytes(opened, opened.address("vermagic"), 512).partition(b"\0")[0].decode("latin-1")
    if not _VERMAGIC.fullmatch(text):
        raise TramplabError(f"{opened.payload.path} has a vermagic that no kernel has, {text[:80]!r}: get the whole file again.")
    return text


def _bytes(opened: Opened, address: int, size: int) -> bytes:
    """So many bytes of an image, fewer at the end of a segment."""
    segment = next((s for s in opened.image.segments if s.address <= address < s.address + s.size), None)
    return bytes(segment.data[address - segment.address :][:size]) if segment else b""


def made(opened: Opened) -> bytes:
    """The module's file. A kernel with CFI looks for the hash of a function's type before the function."""
    flags = ("-fsanitize=kcfi", *_padded(opened)) if opened.has(CHECKED) else ()
    return _without_sites(toolchain.module(opened.isa, SOURCE, layout(opened), flags))


def words(opened: Opened) -> str:
    """The words that the kernel's command line needs for the module: without them x86-64's with CFI draws new hashes at each boot
    (arch/x86/kernel/alternative.c)."""
    return "cfi=norand" if opened.isa.name == "x86_64" and opened.has(CHECKED) else ""


def _without_sites(file: bytes) -> bytes:
    """The file without the lists of room before functions, which are not to be loaded: a section for each, all of one name."""
    elf, out = ELFFile(io.BytesIO(file)), bytearray(file)
    for number, section in enumerate(elf.iter_sections()):
        if section.name == "__patchable_function_entries":
            struct.pack_into("<Q", out, elf["e_shoff"] + number * elf["e_shentsize"] + _SH_FLAGS, 0)
    return bytes(out)


def _padded(opened: Opened) -> tuple[str, ...]:
    """The compiler's flags for as much room between hash and function as the kernel has: some for x86-64 have room for more there,
    after a MOV to EAX whose operand the hash is (arch/x86/Kconfig, FUNCTION_PADDING_CFI)."""
    if opened.isa.name != "x86_64":
        return ()
    found = _HASH.search(_bytes(opened, opened.address(LEAF) - 64, 64))
    padding = len(found[1]) if found else 0
    return (f"-fpatchable-function-entry={padding},{padding}",)


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
