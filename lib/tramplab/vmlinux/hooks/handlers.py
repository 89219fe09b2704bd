"""Handlers of ours for graph tracers, fprobes and kprobes: each counts its calls in a block and keeps two things that it was given.

Like stubs.callback(): a few instructions, which count as "callback".
"""

from __future__ import annotations

from dataclasses import dataclass

from ...build.assemble import assemble
from ...isa import Isa
from ..run import stubs
from ..run.machine import RealMachine

#: Our handlers' names in results; no kernel has symbols of these names.
ENTRY, RETURN = "callback_at_entry", "callback_at_return"


@dataclass(frozen=True)
class Given:
    """Something that a handler is given: an argument, counted from 0, or a word reached from it: at the first offset from it, at
    the second offset from that word, and so on. size: bytes of the last one, 4 or 8."""

    argument: int
    at: tuple[int, ...] = ()
    size: int = 8


@dataclass(frozen=True)
class _Code:
    """The instructions of a handler.

    begin: count the call.
    load: the word at {at} from the pointer {base}.
    half: 4 bytes there.
    keep: store {value} in the block at {to}.
    answer: return the number {answer}.
    end: return.
    between: the register that load and half write to.
    """

    begin: str
    load: str
    half: str
    keep: str
    answer: str
    end: str
    between: str


_CODE = {
    "x86_64": _Code(
        "movabs rax, {block}\ninc qword ptr [rax]",
        "mov rcx, qword ptr [{base} + {at}]",
        "mov ecx, dword ptr [{base} + {at}]",
        "mov qword ptr [rax + {to}], {value}",
        "mov eax, {answer}",
        "ret",
        "rcx",
    ),
    "arm64": _Code(
        "{block_to_x9}\nldr x10, [x9]\nadd x10, x10, #1\nstr x10, [x9]",
        "ldr x10, [{base}, #{at}]",
        "ldr w10, [{base}, #{at}]",
        "str {value}, [x9, #{to}]",
        "mov w0, #{answer}",
        "ret",
        "x10",
    ),
    "riscv64": _Code(
        "li t1, {block}\nld t2, 0(t1)\naddi t2, t2, 1\nsd t2, 0(t1)",
        "ld t2, {at}({base})",
        "lwu t2, {at}({base})",
        "sd {value}, {to}(t1)",
        "li a0, {answer}",
        "ret",
        "t2",
    ),
}


def code(isa: Isa, block: int, first: Given, second: Given, answer: int | None) -> bytes:
    """A handler that fills a block with what it is given, and returns a number, or nothing."""
    of = _CODE[isa.name]
    lines = [of.begin]
    for given, to in ((first, stubs.FIRST), (second, stubs.SECOND)):
        value = isa.args[given.argument]
        for n, at in enumerate(given.at, 1):
            load = of.half if n == len(given.at) and given.size == 4 else of.load
            lines.append(load.format(base=value, at=at))
            value = of.between
        lines.append(of.keep.format(value=value, to=to))
    lines += [of.end] if answer is None else [of.answer.format(answer=answer), of.end]
    return assemble(isa, stubs.filled("\n".join(lines), block))


def handler(machine: RealMachine, name: str, first: Given, second: Given, answer: int | None = None) -> tuple[int, int]:
    """A handler in the area of own code, and its block: their addresses."""
    block = machine.block(bytes(stubs.BLOCK))
    return machine.code(lambda _: code(machine.isa, block, first, second, answer), name, "own"), block
