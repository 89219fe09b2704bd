"""Variables by name, also in an image that names only its functions (CONFIG_KALLSYMS_ALL=n): there they are found from the code
that uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..emulate import decode
from ..errors import TramplabError
from .image import Opened

#: variable -> the function that reads it, and which of the words that it reads by address alone, counted from its first one.
_READERS = {"function_trace_op": ("ftrace_common", 0), "ftrace_ops_list": ("ftrace_ops_list_func", 0)}
_PAGE = re.compile(r"(x\d+), #(0x[0-9a-f]+)$")
_LOAD = re.compile(r"(x\d+), \[(x\d+), #(0x[0-9a-f]+)\]$")


def variable(opened: Opened, name: str) -> int:
    """The address of a variable; raises TramplabError where it has no name and is not among those that can be found."""
    if opened.has(name):
        return opened.address(name)
    if name in _READERS and opened.isa.name == "arm64":
        reader, which = _READERS[name]
        for n, address in enumerate(_read_by(opened, reader)):
            if n == which:
                return address
    raise TramplabError(f"the image does not name its data (CONFIG_KALLSYMS_ALL=n), and {name} cannot be found from its code")


def _read_by(opened: Opened, function: str) -> Iterator[int]:
    """The addresses of the words that a function of arm64 reads through ADRP and LDR, in order."""
    symbol = opened.image.symbol(function)
    segment = next(s for s in opened.image.segments if s.address <= symbol.address < s.address + s.size)
    pages: dict[str, int] = {}
    for at in range(symbol.address, symbol.address + symbol.size, 4):
        i = decode.at(opened.isa, at, segment.data[at - segment.address : at - segment.address + 4])
        if i.mnemonic == "adrp" and (m := _PAGE.match(i.operands)):
            pages[m[1]] = int(m[2], 16)
        elif i.mnemonic == "ldr" and (m := _LOAD.match(i.operands)) and m[2] in pages:
            yield pages[m[2]] + int(m[3], 16)
            pages.pop(m[1], None)
