"""How a walk writes instructions and values: short, and so that a value can be followed by eye."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

#: The stack pointer at the function's first byte: places on the stack are told from there.
TOP = "S"
#: Suffix for a register's value at the function's first byte, if the caller put nothing there on purpose: "x8@0".
OLD = "@0"
_NEAR = 1 << 14  # bytes around TOP that are the stack's
_DIGIT = 10  # below, decimal and hexadecimal are the same
_SMALL = 1 << 12  # offsets; no kernel address is that close to 0, or to 2^64
#: A branch of riscv64, which is decoded with the distance it goes.
_RELATIVE = re.compile(r"((?:c\.)?(?:b(?:eq|ne|lt|ge|gt|le)u?z?|j|jal)) (|.*, )(-?(?:0x[0-9a-f]+|\d+))")
_ADDRESS = re.compile(r"#?0x[0-9a-f]{8,16}\b")
_MINUS = re.compile(r"0xfffffffffffff([0-9a-f]{3})\b")


@dataclass(frozen=True)
class Wording:
    """The names with which values of a call are printed.

    top: the stack pointer at the function's first byte.
    old: value -> register that held it then.
    names: places that are in no symbol.
    met: the code addresses that the call itself meets.
    """

    top: int
    old: dict[int, str]
    names: dict[int, str]
    met: set[int]
    name_of: Callable[[int], str | None]
    is_text: Callable[[int], bool]

    def value(self, value: int) -> str:
        """S-0x10, three_args+0x9, x8@0, or a number: hexadecimal from 10 on, negative where that is the small way.

        An address of code has a name if the call meets it or a symbol begins there; others are on the way to one, like
        what an AUIPC leaves, and the symbol that happens to lie there would mislead.
        """
        signed = value - (value >> 63 << 64)
        if value in self.old:
            return self.old[value] + OLD
        if abs(value - self.top) < _NEAR:
            return TOP + (f"{value - self.top:+#x}" if value != self.top else "")
        if abs(signed) < _SMALL:
            return str(signed) if abs(signed) < _DIGIT else f"{signed:#x}"
        name = self.names.get(value) or self.name_of(value)
        accidental = name and "+" in name and self.is_text(value) and value not in self.met
        return name if name and not accidental else f"{value:#x}"

    def place(self, address: int, size: int) -> str:
        """A stretch of memory: a value's wording, with the size behind it unless that is 8 bytes."""
        name = self.names.get(address) or self.name_of(address)
        return (name or self.value(address)) + ("" if size == 8 else f":{size}")

    def instruction(self, text: str, pc: int) -> str:
        """A decoded instruction with symbols for addresses, no sizes that a register tells anyway, and no blanks in [].

        A branch that is given as a distance, as on riscv64, gets its target.
        """
        if m := _RELATIVE.fullmatch(text):
            target = pc + int(m[3], 0)
            return f"{m[1]} {m[2]}{self.name_of(target) or hex(target)}"
        return shorter(named(text, self.name_of))


def shorter(text: str) -> str:
    """An instruction's text as a narrow column wants it.

    >>> shorter("mov qword ptr [rsp + 0x58], rcx")
    'mov [rsp+0x58], rcx'
    >>> shorter("mov qword ptr [rsp + 0x78], 0")
    'mov qword [rsp+0x78], 0'
    >>> shorter("and x11, x30, #0xfffffffffffffff8")
    'and x11, x30, #-0x8'
    """
    text = re.sub(r"\b([a-z]+) ptr ", r"\1 ", text)
    text = re.sub(r"\bqword (\S*\[[^]]*\], [a-z])", r"\1", text)
    text = re.sub(r"( [a-z]\w*, )qword ", r"\1", text)
    text = re.sub(r" ([+*-]) ", r"\1", text)
    return _MINUS.sub(lambda m: f"-{0x1000 - int(m[1], 16):#x}", text)


def named(text: str, name_of: Callable[[int], str | None]) -> str:
    """An instruction's text with addresses replaced by the symbols that lie there.

    >>> named("bl #0xffff800080000020", lambda a: "ftrace_caller")
    'bl ftrace_caller'
    """

    def name(m: re.Match) -> str:
        return name_of(int(m.group().lstrip("#"), 16)) or m.group()

    return _ADDRESS.sub(name, text)
