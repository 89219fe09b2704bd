"""x86-64: one frame under rbp; below the saved rbp lie the result, the arguments, their number, rbx, the programs' context
and the stack arguments for the function, which are copied once more from the caller's.

No frame record stands for the traced function: rbp leads from this frame to the caller's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ...isa.x86_64 import CALL, ENDBR64
from .code import Address, Align, Call, Item, Jump, Raw, Text, require_reach
from .plan import Sharing, TrampolinePlan

FIRST, SECOND, THIRD = "rdi", "rsi", "rdx"
SHARING = Sharing.MADE_AGAIN
_NOP4, _NOP8 = b"\x0f\x1f\x40\0", b"\x0f\x1f\x84" + bytes(5)
#: NOPs of one byte and more (Intel SDM vol. 2, NOP), with prefixes.
_NOPS = (
    b"\x90", b"\x66\x90", b"\x0f\x1f\0", _NOP4, b"\x0f\x1f\x44\0\0", b"\x66\x0f\x1f\x44\0\0", b"\x0f\x1f\x80" + bytes(4), _NOP8,
    b"\x2e" + _NOP8, b"\x66\x2e" + _NOP8, b"\x66\x66\x2e" + _NOP8,
)  # fmt: skip
ROOM = NOP = Raw(_NOPS[4])
ALIGNED = (Align(16),)
_MOVABS = {"rdi": b"\x48\xbf"}
#: TEST RAX, RAX and JE with a byte, which past one program is enough; JNE with four.
_JCC = {"rax is zero": (b"\x48\x85\xc0\x74", "<b"), "not equal": (b"\x0f\x85", "<i")}


def call(pc: int, target: int) -> bytes:
    """A near call."""
    require_reach("call", CALL.reaches(pc, target), pc, target)
    return CALL.encode(pc, target)


def address(register: str, pc: int, value: int) -> bytes:
    """A number into a register: MOV r64, imm64 (Intel SDM vol. 2, B8+)."""
    return _MOVABS[register] + struct.pack("<Q", value & (1 << 64) - 1)


def jump(condition: str, pc: int, target: int) -> bytes:
    """A jump (Intel SDM vol. 2, Jcc), with its test where it has one."""
    head, displacement = _JCC[condition]
    size = struct.calcsize(displacement)
    offset = target - (pc + len(head) + size)
    require_reach("jump", -(1 << 8 * size - 1) <= offset < 1 << 8 * size - 1, pc, target)
    return head + struct.pack(displacement, offset)


def nops(count: int) -> bytes:
    """As few NOPs of this many bytes as there can be, the longest one first (arch/x86/include/asm/nops.h).

    >>> [nops(n).hex() for n in (0, 3, 12)]
    ['', '0f1f00', '66662e0f1f84000000000090']
    """
    out = b""
    while count:
        size = min(count, len(_NOPS))
        out += _NOPS[size - 1]
        count -= size
    return out


@dataclass(frozen=True)
class Frame:
    """The frame: offsets in bytes below rbp, and the size of everything under the saved rbp."""

    context: int
    count: int
    rbx: int
    run_ctx: int
    size: int
    result: int = 8


def frame(plan: TrampolinePlan) -> Frame:
    """The layout for a plan."""
    context = 8 * len(plan.words) + plan.result
    saved = 0 if plan.pushes_saved else 8
    run_ctx = context + (8 + saved + plan.run_ctx if plan.guards else 0)
    size = run_ctx + plan.passed_on
    # where it passes words on, and only there, it calls the function with rsp a multiple of 16
    unaligned = plan.passed_on and (size + _above(plan)) % 16
    return Frame(context, context + 8, context + 16, run_ctx, size + (8 if unaligned else 0))


def enter(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Make the frame and fill the array."""
    if plan.landing_pad:
        yield Raw(ENDBR64)
    yield Text(f"push rbp\nmov rbp, rsp\nsub rsp, {f.size}")
    if plan.guards:
        saved = "push rbx" if plan.pushes_saved else f"mov [rbp - {f.rbx}], rbx"
        yield Text(f"{saved}\nmov eax, {len(plan.words)}\nmov [rbp - {f.count}], rax")
    for i, place in enumerate(plan.words):
        slot = f.context - 8 * i
        yield _copied(plan, place, slot) if isinstance(place, int) else Text(f"mov [rbp - {slot}], {place}")
    yield from _narrowed(plan, *(f.context - 8 * i for i, _ in plan.stacked))


def _above(plan: TrampolinePlan) -> int:
    """Bytes from rbp to the words that the caller passed: the saved rbp, the way into the function if called, and the caller's."""
    return 16 if plan.jumped else 24


def _copied(plan: TrampolinePlan, place: int, slot: int) -> Item:
    """A word that the caller passed on the stack into a slot below rbp."""
    return Text(f"mov rax, [rbp + {_above(plan) + 8 * place}]\nmov [rbp - {slot}], rax")


def _narrowed(plan: TrampolinePlan, *slots: int) -> Iterator[Item]:
    """Clear the upper half of the only word on the stack if the argument has four bytes or less: of one word, a compiler may write
    only these. slots: where the words on the stack were copied to."""
    if len(plan.stacked) == 1 and plan.sizes[plan.stacked[0][0]] <= 4:
        yield Text(f"mov dword ptr [rbp - {slots[0] - 4}], 0")


def _arguments(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    for i, place in enumerate(plan.words):
        if isinstance(place, str):
            yield Text(f"mov {place}, [rbp - {f.context - 8 * i}]")


def cookie(plan: TrampolinePlan, f: Frame, value: int) -> Iterator[Item]:
    """Put a program's cookie into the run context."""
    yield Text(f"{f'mov edi, {value}' if value else 'xor edi, edi'}\nmov [rbp - {f.run_ctx - plan.cookie_at}], rdi")


def prog(struct: int, first: bool) -> Iterator[Item]:
    """The program as the first argument."""
    yield Address("rdi", struct)


def run_ctx(f: Frame, register: str) -> Item:
    """The address of the run context in a register."""
    return Text(f"lea {register}, [rbp - {f.run_ctx}]")


def started(skip: str) -> Iterator[Item]:
    """Keep the time, which rbx holds until the program's end; zero forbids the program."""
    yield Text("mov rbx, rax")
    yield Jump("rax is zero", skip)


def start_time() -> Item:
    """The time that `started` kept as the second argument."""
    return Text("mov rsi, rbx")


def context(f: Frame) -> Item:
    """The array of arguments as the first argument."""
    return Text(f"lea rdi, [rbp - {f.context}]")


def keep_result(f: Frame) -> Item:
    """Make the return value the function's result."""
    return Text(f"mov [rbp - {f.result}], rax")


def clear_result(f: Frame) -> Item:
    """Make zero the function's result."""
    return Text(f"xor eax, eax\nmov [rbp - {f.result}], rax")


def unless_zero(f: Frame, label: str) -> Iterator[Item]:
    """Go to a label if the function's result is not zero."""
    yield Text(f"cmp qword ptr [rbp - {f.result}], 0")
    yield Jump("not equal", label)


def call_function(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Call the function with its arguments, or what the way back leads to."""
    yield from _arguments(plan, f)
    for _, place in plan.stacked:
        yield _copied(plan, place, f.size - 8 * place)
    yield from _narrowed(plan, *(f.size - 8 * place for _, place in plan.stacked))
    if plan.through_way_back:
        yield Text("mov rax, [rbp + 8]\ncall rax")
    else:
        yield Call(plan.body)
    yield keep_result(f)


def leave(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Continue in the function, or past the address that a call at the site pushed, in its caller."""
    if plan.calls_function:
        yield Text(f"mov rax, [rbp - {f.result}]")
    else:
        yield from _arguments(plan, f)
    if plan.guards:
        yield Text("pop rbx" if plan.pushes_saved else f"mov rbx, [rbp - {f.rbx}]")
    yield Text("leave")
    if plan.calls_function and not plan.jumped:
        yield Text("add rsp, 8")
    yield Text("ret")
