"""riscv64: a 16-byte frame of the traced function with ra and s0, then the trampoline's own with t0 and s0, the result, the
arguments, their number, the programs' context, s1 and the stack arguments for the function, which are copied from the array;
s0 points above it. With the result in a0 goes a5, which is BPF's own register of results.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ...isa.riscv64 import CALL_RA
from .code import Address, Call, Item, Jump, Text, require_reach
from .plan import Sharing, TrampolinePlan

FIRST, SECOND, THIRD = "a0", "a1", "a2"
SHARING = Sharing.REFUSED
ROOM, NOP = Text("nop\nnop"), Text("nop")
ALIGNED: tuple[Item, ...] = ()
_A0 = 10
_BRANCHES = {"a0 is zero": (0, 10), "t1 is not zero": (1, 6)}  # funct3 of BEQ and BNE, and rs1; rs2 is x0
_OUTER = 16


def call(pc: int, target: int) -> bytes:
    """A call: AUIPC and JALR through ra."""
    require_reach("call", CALL_RA.reaches(pc, target), pc, target)
    return CALL_RA.encode(pc, target)


def address(register: str, pc: int, value: int) -> bytes:
    """A number into a0: LUI and ADDIW where 32 bits hold it; else these for the upper bits, then shifts and ADDIs as needed.

    >>> [len(address("a0", 0, value)) // 4 for value in (0xFFFFFFFF80001000, 0xFF20000000105000, 0xFF60000004A85C00)]
    [2, 4, 6]
    """
    return b"".join(struct.pack("<I", word) for word in _immediate(_signed(value, 64)))


def _immediate(value: int) -> Iterator[int]:
    """The instructions that make a number in a0: ADDI, LUI, ADDIW, SLLI (unprivileged ISA, 2.4 and 4.2)."""
    upper, low = value + 0x800 >> 12, _signed(value, 12)
    add = (low & 0xFFF) << 20 | _A0 << 15 | _A0 << 7
    if not upper:
        yield (low & 0xFFF) << 20 | _A0 << 7 | 0x13
    elif -(1 << 31) <= value < 1 << 31:
        yield (upper & 0xFFFFF) << 12 | _A0 << 7 | 0x37
        yield add | 0x1B
    else:
        zeros = (upper & -upper).bit_length() - 1
        yield from _immediate(upper >> zeros)
        yield 12 + zeros << 20 | _A0 << 15 | 1 << 12 | _A0 << 7 | 0x13
        if low:
            yield add | 0x13


def _signed(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)


def jump(condition: str, pc: int, target: int) -> bytes:
    """BEQ or BNE with zero (unprivileged ISA, 2.5); its 4 KiB span a whole trampoline."""
    funct3, rs1 = _BRANCHES[condition]
    offset = target - pc
    require_reach("jump", -(1 << 12) <= offset < 1 << 12, pc, target)
    high = (offset >> 12 & 1) << 31 | (offset >> 5 & 0x3F) << 25
    low = (offset >> 1 & 0xF) << 8 | (offset >> 11 & 1) << 7
    return struct.pack("<I", high | rs1 << 15 | funct3 << 12 | low | 0x63)


def nops(count: int) -> bytes:
    """NOPs of four bytes."""
    return struct.pack("<I", 0x00000013) * (count // 4)


@dataclass(frozen=True)
class Frame:
    """The frame under the traced function's: offsets in bytes below s0, and its size."""

    result: int
    context: int
    count: int
    run_ctx: int
    s1: int
    size: int


def frame(plan: TrampolinePlan) -> Frame:
    """The layout for a plan."""
    result = 16 + 2 * plan.result
    context = result + 8 * len(plan.words)
    run_ctx = context + (8 + plan.run_ctx if plan.guards else 0)
    s1 = run_ctx + (8 if plan.guards else 0)
    return Frame(result, context, context + 8, run_ctx, s1, s1 + plan.passed_on + 15 & ~15)


def enter(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Make both frames and fill the array."""
    yield Text("addi sp, sp, -16\nsd ra, 8(sp)\nsd s0, 0(sp)\naddi s0, sp, 16")
    yield Text(f"addi sp, sp, -{f.size}\nsd t0, {f.size - 8}(sp)\nsd s0, {f.size - 16}(sp)\naddi s0, sp, {f.size}")
    if plan.guards:
        yield Text(f"sd s1, -{f.s1}(s0)\nli t1, {len(plan.words)}\nsd t1, -{f.count}(s0)")
    for i, place in enumerate(plan.words):
        at = f"{8 * i - f.context}(s0)"
        yield Text(f"ld t1, {_OUTER + 8 * place}(s0)\nsd t1, {at}" if isinstance(place, int) else f"sd {place}, {at}")


def _arguments(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    for i, place in enumerate(plan.words):
        if isinstance(place, str):
            yield Text(f"ld {place}, {8 * i - f.context}(s0)")


def cookie(plan: TrampolinePlan, f: Frame, value: int) -> Iterator[Item]:
    """Put a program's cookie into the run context."""
    at = f"{plan.cookie_at - f.run_ctx}(s0)"
    yield Text(f"li t1, {value}\nsd t1, {at}" if value else f"sd zero, {at}")


def prog(struct: int, first: bool) -> Iterator[Item]:
    """The program as the first argument."""
    yield Address("a0", struct)


def run_ctx(f: Frame, register: str) -> Item:
    """The address of the run context in a register."""
    return Text(f"addi {register}, s0, -{f.run_ctx}")


def started(skip: str) -> Iterator[Item]:
    """Keep the time, which s1 holds until the program's end; zero forbids the program."""
    yield Text("mv s1, a0")
    yield Jump("a0 is zero", skip)


def start_time() -> Item:
    """The time that `started` kept as the second argument."""
    return Text("mv a1, s1")


def context(f: Frame) -> Item:
    """The array of arguments as the first argument."""
    return Text(f"addi a0, s0, -{f.context}")


def keep_result(f: Frame) -> Item:
    """Make the return value the function's result."""
    return Text(f"sd a0, -{f.result}(s0)\nsd a5, {8 - f.result}(s0)")


def clear_result(f: Frame) -> Item:
    """Make zero the function's result."""
    return Text(f"sd zero, -{f.result}(s0)")


def unless_zero(f: Frame, label: str) -> Iterator[Item]:
    """Go to a label if the function's result is not zero."""
    yield Text(f"ld t1, -{f.result}(s0)")
    yield Jump("t1 is not zero", label)


def call_function(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Call the function with its arguments."""
    yield from _arguments(plan, f)
    for i, place in plan.stacked:
        yield Text(f"ld t1, {8 * i - f.context}(s0)\nsd t1, {8 * place - f.size}(s0)")
    # by the hints a JALR that links ra and goes by t0 pops what the site's JALR pushed, which is where it goes, and then pushes
    yield Text(f"ld t0, {f.size - 8}(sp)\njalr ra, 0(t0)") if plan.pops else Call(plan.body)
    yield keep_result(f)


def leave(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Continue in the function, or in its caller if it has run."""
    if plan.calls_function:
        yield Text(f"ld a5, {8 - f.result}(s0)\nld a0, -{f.result}(s0)")
    else:
        yield from _arguments(plan, f)
    if plan.guards:
        yield Text(f"ld s1, -{f.s1}(s0)")
    yield Text(f"ld t0, {f.size - 8}(sp)\nld s0, {f.size - 16}(sp)\naddi sp, sp, {f.size}")
    yield Text("ld ra, 8(sp)\nld s0, 0(sp)\naddi sp, sp, 16")
    yield Text("ret" if plan.calls_function else "jr t0")
