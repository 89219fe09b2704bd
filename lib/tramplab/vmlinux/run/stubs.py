"""The few lines of code that are ours in a real kernel's run: a callback, a BPF program, what a direct call leads to.

Each counts its calls and keeps what it was given, in a block of words that the check reads. They count as "callback".
"""

from __future__ import annotations

from dataclasses import dataclass

from ...build.assemble import assemble
from ...isa import Isa

#: Words of a block: how often it was called, and the first two things it was given.
HITS, FIRST, SECOND, BLOCK = 0, 8, 16, 32


@dataclass(frozen=True)
class _Code:
    """Code of ours. {block} is the block's address.

    callback: of an ops; {private} is the offset of the member that leads to its block.
    program: of BPF, given an array of arguments.
    direct: the target of a patch site, entered and left as a direct call's target is.
    replacement: a function in the place of another, in whose body, {body}, it goes on.
    """

    callback: str
    program: str
    direct: str
    replacement: str


_CODE = {
    "x86_64": _Code(
        "mov rax, qword ptr [rdx + {private}]\ninc qword ptr [rax]\nmov qword ptr [rax + 8], rdi\n"
        "mov qword ptr [rax + 16], rsi\nret",
        "movabs rax, {block}\ninc qword ptr [rax]\nmov rcx, qword ptr [rdi]\nmov qword ptr [rax + 8], rcx\nxor eax, eax\nret",
        "movabs rax, {block}\ninc qword ptr [rax]\nmov qword ptr [rax + 8], rdi\nret",
        "movabs rax, {block}\ninc qword ptr [rax]\nmov qword ptr [rax + 8], rdi\nmovabs rax, {body}\njmp rax",
    ),
    "arm64": _Code(
        "ldr x9, [x2, #{private}]\nldr x10, [x9]\nadd x10, x10, #1\nstr x10, [x9]\nstp x0, x1, [x9, #8]\nret",
        "{block_to_x9}\nldr x10, [x9]\nadd x10, x10, #1\nstr x10, [x9]\nldr x10, [x0]\nstr x10, [x9, #8]\nmov x0, #0\nret",
        "{block_to_x11}\nldr x10, [x11]\nadd x10, x10, #1\nstr x10, [x11]\nstr x0, [x11, #8]\nmov x10, x30\nmov x30, x9\nret x10",
        "{block_to_x9}\nldr x10, [x9]\nadd x10, x10, #1\nstr x10, [x9]\nstr x0, [x9, #8]\n{body_to_x11}\nbr x11",
    ),
    "riscv64": _Code(
        "ld t1, {private}(a2)\nld t2, 0(t1)\naddi t2, t2, 1\nsd t2, 0(t1)\nsd a0, 8(t1)\nsd a1, 16(t1)\nret",
        "li t1, {block}\nld t2, 0(t1)\naddi t2, t2, 1\nsd t2, 0(t1)\nld t2, 0(a0)\nsd t2, 8(t1)\nli a0, 0\nret",
        "li t1, {block}\nld t2, 0(t1)\naddi t2, t2, 1\nsd t2, 0(t1)\nsd a0, 8(t1)\njr t0",
        "li t1, {block}\nld t2, 0(t1)\naddi t2, t2, 1\nsd t2, 0(t1)\nsd a0, 8(t1)\nli t1, {body}\njr t1",
    ),
}


def callback(isa: Isa, private: int) -> bytes:
    """An ops' callback, which takes its block from the ops; private: that member's offset in bytes."""
    return assemble(isa, _CODE[isa.name].callback.format(private=private))


def program(isa: Isa, block: int) -> bytes:
    """A BPF program that returns 0, with its block."""
    return assemble(isa, filled(_CODE[isa.name].program, block))


def direct(isa: Isa, block: int) -> bytes:
    """A direct call's target that goes on to the function, with its block."""
    return assemble(isa, filled(_CODE[isa.name].direct, block))


def replacement(isa: Isa, block: int, body: int) -> bytes:
    """A function that goes on in the body of another, with its block."""
    return assemble(isa, filled(_CODE[isa.name].replacement, block, body))


def filled(source: str, block: int, body: int = 0) -> str:
    """Source of own code with its block's address filled in, and that of a body."""
    into = {"block_to_x9": _into("x9", block), "block_to_x11": _into("x11", block), "body_to_x11": _into("x11", body)}
    return source.format(block=block, body=body, **into)


def _into(register: str, value: int) -> str:
    """An address into a register of arm64, in four instructions."""
    parts = [f"movz {register}, #{value & 0xFFFF}"]
    parts += [f"movk {register}, #{value >> shift & 0xFFFF}, lsl #{shift}" for shift in (16, 32, 48)]
    return "\n".join(parts)
