"""Variables by name, also in an image that names only its functions (CONFIG_KALLSYMS_ALL=n): there they are found from the code
that uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...base.errors import TramplabError
from ...emulate import decode
from ...emulate.decode import Instruction
from .image import Opened

#: arm64's names of data that other ISAs name otherwise: variable -> the function that reads it, and which word that it reads by
#: address alone, counted from its first one.
_READERS = {
    "function_trace_op": ("ftrace_common", 0),
    "ftrace_ops_list": ("ftrace_ops_list_func", 0),
    "ftrace_graph_entry": ("function_graph_enter", 0),
    "ftrace_graph_return": ("ftrace_return_to_handler", 0),
}
#: variable -> a function that gives its address to another one as the first argument, and that one.
_GIVERS = {"graph_ops": ("register_ftrace_graph", "ftrace_startup")}
_ISAS = ("arm64",)
_PAGE = re.compile(r"(x\d+), #(0x[0-9a-f]+)$")
_LOAD = re.compile(r"(x\d+), \[(x\d+), #(0x[0-9a-f]+)\]$")
_SUM = re.compile(r"(x\d+), (x\d+), #(0x[0-9a-f]+|\d+)$")
_CALL = re.compile(r"#(0x[0-9a-f]+)$")
_WRITTEN = re.compile(r"[xw](\d+),")


def variable(opened: Opened, name: str) -> int:
    """The address of a variable; raises TramplabError where it has no name and is not among those that can be found."""
    if opened.has(name):
        return opened.address(name)
    for table, find in ((_READERS, _read_by), (_GIVERS, _given_by)):
        if opened.isa.name in _ISAS and name in table and opened.has(table[name][0]):
            address = find(opened, *table[name])
            if address is not None:
                return address
    raise TramplabError(f"the image does not name its data (CONFIG_KALLSYMS_ALL=n), and {name} cannot be found from its code")


def _code(opened: Opened, function: str) -> Iterator[Instruction]:
    """The instructions of a function of arm64."""
    symbol = opened.image.symbol(function)
    segment = next(s for s in opened.image.segments if s.address <= symbol.address < s.address + s.size)
    for at in range(symbol.address, symbol.address + symbol.size, 4):
        yield decode.at(opened.isa, at, segment.data[at - segment.address : at - segment.address + 4])


def _read_by(opened: Opened, function: str, which: int) -> int | None:
    """The address of one of the words that a function reads through ADRP and LDR, in order."""
    pages: dict[str, int] = {}
    for i in _code(opened, function):
        if i.mnemonic == "adrp" and (m := _PAGE.match(i.operands)):
            pages[m[1]] = int(m[2], 16)
        elif i.mnemonic == "ldr" and (m := _LOAD.match(i.operands)) and m[2] in pages:
            if which == 0:
                return pages[m[2]] + int(m[3], 16)
            which -= 1
            pages.pop(m[1], None)
    return None


def _given_by(opened: Opened, function: str, callee: str) -> int | None:
    """The first argument, made by ADRP and ADD, of a function's first call of another one."""
    defined: dict[str, int] = {}
    for i in _code(opened, function):
        if i.mnemonic == "adrp" and (m := _PAGE.match(i.operands)):
            defined[m[1]] = int(m[2], 16)
        elif i.mnemonic == "add" and (m := _SUM.match(i.operands)) and m[2] in defined:
            defined[m[1]] = defined[m[2]] + int(m[3], 0)
        elif i.mnemonic == "bl" and (m := _CALL.match(i.operands)) and int(m[1], 16) == opened.address(callee):
            return defined.get("x0")
        elif m := _WRITTEN.match(i.operands):
            defined.pop(f"x{m[1]}", None)
    return None
