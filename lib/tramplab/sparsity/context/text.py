"""BPF assembly in the notation of clang and of the kernel's verifier, to instructions and back.

Besides, `call` takes a helper's name, `r1 = map 3 ll` is a map by its number, `name:` is a label, and `$name` is a number that
the caller of the assembler has given that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...base.errors import TramplabError, unknown
from . import helpers
from .encoding import (
    ALU,
    ALU64,
    CALL,
    CONDITIONS,
    EXIT,
    IMM,
    JA,
    JMP,
    JMP32,
    LD,
    LDX,
    MAP,
    MEM,
    MEMSX,
    OPERATIONS,
    SIGNED,
    SIZES,
    ST,
    STX,
    Instruction,
    Program,
    X,
)

_REGISTER, _TERMS = r"([rw])(\d+)", r"[-+$\w ]+"
_PLACE = rf"\*\(([us])(8|16|32|64) \*\)\(r(\d+)((?: *[-+]{_TERMS})?)\)"
_TERM = re.compile(r"([-+ ]*)(\$?\w+)")
_SUM = re.compile(r"[-+ ]*\$?\w+( *[-+][-+ ]*\$?\w+)*")
_LABEL = re.compile(r"(\w+):")
_LOAD = re.compile(rf"{_REGISTER} = {_PLACE}")
_STORE = re.compile(rf"{_PLACE} = ({_TERMS})")
_WIDE = re.compile(rf"r(\d+) = (map )?({_TERMS}) ll")
_NEGATE = re.compile(rf"{_REGISTER} = -{_REGISTER}")
_EXTEND = re.compile(rf"{_REGISTER} = \(s(8|16|32)\) ?{_REGISTER}")
_OPERATE = re.compile(rf"{_REGISTER} (s?[-+*/%|&^<>]*=) ({_TERMS})")
_IF = re.compile(rf"if {_REGISTER} (s?[=!<>&]+) ({_TERMS}) goto ([-+\w]+)")
_GOTO = re.compile(r"(gotol?) ([-+\w]+)")
_CALL = re.compile(r"call (\w+)")


def assembled(text: str, symbols: Mapping[str, int] | None = None) -> Program:
    """A program, one instruction a line; raises TramplabError that names a line which is none.

    >>> list(listing(assembled("r0 = *(u64 *)(r1 + $sp)\\nexit", {"sp": 152})))
    [(0, 'r0 = *(u64 *)(r1 + 152)'), (1, 'exit')]
    """
    lines = [line for line in (line.split("#")[0].strip() for line in text.splitlines()) if line]
    labels: dict[str, int] = {}
    places: list[tuple[int, str]] = []
    end = 0
    for line in lines:
        if label := _LABEL.fullmatch(line):
            if label[1] in labels:
                raise TramplabError(f"label {label[1]!r} is there twice.")
            labels[label[1]] = end
        else:
            places.append((end, line))
            end += 2 if line.endswith(" ll") else 1
    program: list[Instruction | None] = []
    for at, line in places:
        try:
            if not line.isascii():
                raise ValueError(line)
            instruction = _Line(at, line, symbols or {}, labels).instruction()
        except ValueError:
            raise TramplabError(f"line {line!r} is no BPF instruction of the rewriter's subset.") from None
        program += [instruction, None] if instruction.wide else [instruction]
    return tuple(program)


class _Line:
    def __init__(self, at: int, line: str, symbols: Mapping[str, int], labels: Mapping[str, int]) -> None:
        self.at, self.line, self.symbols, self.labels = at, line, symbols, labels

    def instruction(self) -> Instruction:
        """The instruction by the first notation that fits; raises ValueError if none does."""
        line = self.line
        if line == "exit":
            return Instruction(JMP | EXIT)
        if m := _CALL.fullmatch(line):
            return Instruction(JMP | CALL, imm=_fits(_integer(m[1]), 32) if m[1][0].isdecimal() else helpers.named(m[1]).number)
        if m := _GOTO.fullmatch(line):
            to = self._to(m[2])
            return Instruction(JMP | JA, off=_fits(to, 16)) if m[1] == "goto" else Instruction(JMP32 | JA, imm=_fits(to, 32))
        if m := _WIDE.fullmatch(line):
            return Instruction(LD | IMM | SIZES[8], _number(m[1]), MAP if m[2] else 0, 0, self._sum(m[3]) & (1 << 64) - 1)
        if m := _LOAD.fullmatch(line):
            mode, size = MEM if m[3] == "u" else MEMSX, int(m[4]) // 8
            if (m[1] == "w" and (size > 4 or mode == MEMSX)) or (size == 8 and mode == MEMSX):
                raise ValueError(line)
            return Instruction(LDX | mode | SIZES[size], _number(m[2]), _number(m[5]), self._offset(m[6]))
        if m := _STORE.fullmatch(line):
            if m[1] == "s":
                raise ValueError(line)
            size, base, off = SIZES[int(m[2]) // 8], _number(m[3]), self._offset(m[4])
            if source := re.fullmatch(_REGISTER, m[5]):
                return Instruction(STX | MEM | size, base, _number(source[2]), off)
            return Instruction(ST | MEM | size, base, 0, off, self._immediate(m[5]))
        return self._jump() or self._operation()

    def _jump(self) -> Instruction | None:
        m = _IF.fullmatch(self.line)
        if not m:
            return None
        if m[3] not in CONDITIONS:
            raise ValueError(self.line)
        opcode = (JMP if m[1] == "r" else JMP32) | CONDITIONS[m[3]]
        return self._second(opcode, m[1], _number(m[2]), m[4], _fits(self._to(m[5]), 16))

    def _operation(self) -> Instruction:
        line = self.line
        for notation in (_NEGATE, _EXTEND):
            if m := notation.fullmatch(line):
                kind, bits = ALU64 if m[1] == "r" else ALU, 0 if notation is _NEGATE else int(m[3])
                if m[1] != m[m.re.groups - 1] or (notation is _NEGATE and m[2] != m[4]) or (kind == ALU and bits == 32):
                    raise ValueError(line)
                if notation is _NEGATE:
                    return Instruction(kind | OPERATIONS["-"], _number(m[2]))
                return Instruction(kind | OPERATIONS["="] | X, _number(m[2]), _number(m[5]), bits)
        m = _OPERATE.fullmatch(line)
        if not m or m[3] not in (*OPERATIONS, *SIGNED):
            raise ValueError(line)
        opcode = (ALU64 if m[1] == "r" else ALU) | OPERATIONS[SIGNED.get(m[3], m[3])]
        return self._second(opcode, m[1], _number(m[2]), m[4], int(m[3] in SIGNED))

    def _second(self, opcode: int, half: str, dst: int, operand: str, off: int) -> Instruction:
        """An instruction whose second operand is a register of the same width as the first, or a number."""
        if source := re.fullmatch(_REGISTER, operand):
            if source[1] != half:
                raise ValueError(self.line)
            return Instruction(opcode | X, dst, _number(source[2]), off)
        return Instruction(opcode, dst, 0, off, self._immediate(operand))

    def _to(self, where: str) -> int:
        """Slots from behind the instruction to a label, or as they are given."""
        if where in self.labels:
            return self.labels[where] - self.at - 1
        if where[0] in "+-":
            return _integer(where)
        raise unknown("label", where, self.labels)

    def _offset(self, text: str) -> int:
        return _fits(self._sum(text), 16) if text.strip() else 0

    def _immediate(self, text: str) -> int:
        value = self._sum(text)
        return _fits(value - (1 << 32) if 1 << 31 <= value < 1 << 32 and text.strip().startswith("0x") else value, 32)

    def _sum(self, text: str) -> int:
        """The value of numbers and names that are added and subtracted."""
        if not _SUM.fullmatch(text.strip()):
            raise ValueError(text)
        return sum((-1) ** signs.count("-") * self._term(t) for signs, t in _TERM.findall(text))

    def _term(self, text: str) -> int:
        if not text.startswith("$"):
            return _integer(text)
        if text[1:] not in self.symbols:
            raise unknown("name in a BPF program", text[1:], self.symbols)
        return self.symbols[text[1:]]


def _integer(text: str) -> int:
    """The value of a decimal or hexadecimal number, which has none of the underscores that Python takes."""
    if "_" in text:
        raise ValueError(text)
    return int(text, 0)


def _number(text: str) -> int:
    if int(text) > 10:
        raise ValueError(text)
    return int(text)


def _fits(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(value)
    return value


def shown(i: Instruction) -> str:
    """An instruction as the kernel's verifier writes it, helpers by their names."""
    half = "w" if i.kind in (ALU, JMP32) else "r"
    dst, src = f"{half}{i.dst}", f"{half}{i.src}"
    place = f"*({'s' if i.mode == MEMSX else 'u'}{8 * i.size} *)"
    match i.kind:
        case 0:
            return f"r{i.dst} = map {i.imm} ll" if i.src == MAP else f"r{i.dst} = {i.imm:#x} ll"
        case 1:
            return f"r{i.dst} = {place}(r{i.src}{_signed(i.off)})"
        case 2:
            return f"{place}(r{i.dst}{_signed(i.off)}) = {i.imm}"
        case 3:
            return f"{place}(r{i.dst}{_signed(i.off)}) = r{i.src}"
        case 4 | 7:
            if i.operation == "-":
                return f"{dst} = -{dst}"
            extended = f"(s{i.off})" if i.operation == "=" and i.off else ""
            return f"{dst} {i.operation} {extended}{src if i.by_register else i.imm}"
    if i.opcode == JMP | EXIT:
        return "exit"
    if i.opcode == JMP | CALL:
        return f"call {helpers.name_of(i.imm)}"
    if i.condition is None:
        return f"{'goto' if i.kind == JMP else 'gotol'} {i.jump:+d}"
    return f"if {dst} {i.condition} {src if i.by_register else i.imm} goto {i.off:+d}"


def _signed(off: int) -> str:
    return f" {'-' if off < 0 else '+'} {abs(off)}"


def listing(program: Program) -> Iterator[tuple[int, str]]:
    """Every instruction's slot and text."""
    return ((at, shown(i)) for at, i in enumerate(program) if i is not None)
