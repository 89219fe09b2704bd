"""Code of a trampoline as instructions that do not tell how they are encoded: what loads an address is one, and so is a call.

So two trampolines of other addresses compare equal where they do the same in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...emulate import decode
from ...isa import Isa

_MASK = (1 << 64) - 1
#: Ways to write the same instruction, which are one instruction each: arm64's copy of a register and small number by releases, and
#: compressed instructions of riscv64 (unprivileged ISA, 28.8).
_SPELLINGS = [
    (re.compile(pattern), to)
    for pattern, to in (
        (r"^add (x\d+), (x\d+), #0$", r"mov \1, \2"),
        (r"^mov w(\d+), #", r"mov x\1, #"),
        (r"^c\.addi16sp sp, ", "addi sp, sp, "),
        (r"^c\.addi4spn ", "addi "),
        (r"^c\.(s|l)dsp ", r"\1d "),
        (r"^c\.(addi|addiw|slli) (\w+), ", r"\1 \2, \2, "),
        (r"^c\.jr ra$", "ret"),
        (r"^c\.", ""),
        (r"^addi (\w+), zero, ", r"li \1, "),
    )
]
#: The instructions that begin and continue the load of an address, by ISA; the register is the first group.
_FIRST = {
    "x86_64": re.compile(r"movabs (\w+), (\S+)$"),
    "arm64": re.compile(r"mov (x0|x10|x19), #(-?\w+)$"),
    "riscv64": re.compile(r"(?:li|lui|auipc) (a0|t1|ra), (\S+)$"),
}
_NEXT = {
    "x86_64": re.compile(r"(?!)"),
    "arm64": re.compile(r"movk (x\d+), #(\w+)(?:, lsl #(\d+))?$"),
    "riscv64": re.compile(r"(?:addi|addiw|slli) (\w+), \1, (\S+)$"),
}
_CALL = re.compile(r"(?:call|bl|jal) #?(\S+)$")
_THROUGH = re.compile(r"(?:blr (x10)$|jalr ra, (t1|ra)(?:, |$)|jalr (ra)(?:, |$))")
_JUMP = re.compile(r"(je|jne|cbz|cbnz|adr|beqz|bnez|beq|bne)\b(.*?)#?(-?(?:0x)?[0-9a-f]+)$")


@dataclass(frozen=True)
class Form:
    """An instruction, or several that load an address or call.

    at: where it begins.
    count: the number of instructions.
    pointer: the address that it loads and that has no name.
    """

    at: int
    text: str
    count: int
    pointer: int = 0


def spelled(text: str) -> str:
    """An instruction as all ways to write it are spelled.

    >>> spelled("c.addi16sp sp, -0x10"), spelled("add x0, x19, #0")
    ('addi sp, sp, -0x10', 'mov x0, x19')
    """
    for pattern, to in _SPELLINGS:
        text = pattern.sub(to, text)
    return text


def forms(isa: Isa, address: int, data: bytes, names: Mapping[int, str]) -> list[Form]:
    """A trampoline's forms. names: address -> name; an address without one is a pointer, numbered by its first occurrence."""
    symbols = dict(names)
    found = list(_joined(isa, list(_decoded(isa, address, data)), symbols))
    starts = {form.at: f"#{number}" for number, form in enumerate(found)}
    out = []
    for form in found:
        text = form.text
        if jump := _JUMP.match(text):
            text = f"{jump[1]}{jump[2]}{starts[int(jump[3], 0) + (form.at if isa.name == 'riscv64' else 0)]}"
        out.append(replace(form, text=text))
    return out


def _decoded(isa: Isa, address: int, data: bytes) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(data):
        instruction = decode.at(isa, address + at, data[at:])
        yield address + at, spelled(instruction.text)
        at += instruction.size


def _joined(isa: Isa, code: list[tuple[int, str]], names: dict[int, str]) -> Iterator[Form]:
    """The forms of some code: each load of an address, and each call, as one."""
    number = 0
    while number < len(code):
        at, text = code[number]
        end, value, register = _load(isa, code, number)
        call = _CALL.match(text)
        through = _THROUGH.match(code[end][1]) if value is not None and end < len(code) else None
        if through and register in through.groups():
            to = value + (_number(code[end][1].split(", ")[-1]) if isa.name == "riscv64" and ", " in code[end][1] else 0)  # type: ignore[operator]
            yield Form(at, f"call {_name(to & _MASK, names)}", end + 1 - number)
            number = end + 1
        elif call:
            to = int(call[1], 0) + (at if isa.name == "riscv64" else 0)
            yield Form(at, f"call {_name(to & _MASK, names)}", 1)
            number += 1
        elif value is not None and value & _MASK > 0xFFFF:
            yield Form(at, f"{register} = {_name(value & _MASK, names)}", end - number, value & _MASK)
            number = end
        else:
            yield Form(at, text, 1)
            number += 1


def _load(isa: Isa, code: list[tuple[int, str]], number: int) -> tuple[int, int | None, str]:
    """(where it ends, value, register) of the load that begins at an instruction; None where none does."""
    at, text = code[number]
    first = _FIRST[isa.name].match(text)
    if first is None:
        return number, None, ""
    register, value = first[1], _number(first[2])
    if text.startswith(("lui", "auipc")):
        value = ((value & 0xFFFFF) << 12 ^ 1 << 31) - (1 << 31) + (at if text.startswith("auipc") else 0)
    end = number + 1
    while end < len(code) and (more := _NEXT[isa.name].match(code[end][1])) and more[1] == register:
        by = _number(more[2])
        if code[end][1].startswith("movk"):
            shift = int(more[3] or 0)
            value = value & ~(0xFFFF << shift) | by << shift
        elif code[end][1].startswith("slli"):
            value <<= by
        elif code[end][1].startswith("addiw"):
            value = (value + by & (1 << 32) - 1 ^ 1 << 31) - (1 << 31)
        else:
            value += by
        end += 1
    return end, value, register


def _number(text: str) -> int:
    return int(text.lstrip("#"), 0)


def _name(value: int, names: dict[int, str]) -> str:
    return names.setdefault(value, f"pointer {sum(name.startswith('pointer') for name in names.values())}")
