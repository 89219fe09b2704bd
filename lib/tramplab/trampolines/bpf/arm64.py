"""arm64: two frame records, the caller's and the traced function's, and under them, upwards from sp: stack arguments for the
function, which are copied once more from the caller's, the programs' context, the number of arguments, the arguments, the
result, x19 and x20.

Calls go through x10, because programs and kernel text need not lie in a BL's reach. The function is entered by RET x10 with
x30 made by hand, and not by BLR: that pops the return address which the patch site's BL pushed, and pushes nothing. Two
hypothetical trampolines enter it by BLR, and so keep calls and returns in pairs: one to which the site jumps, and one that first
pops by a RET.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from .code import Address, Item, Jump, Text, require_reach
from .plan import Sharing, TrampolinePlan

FIRST, SECOND, THIRD = "x0", "x1", "x2"
SHARING = Sharing.AS_IT_IS
ROOM = NOP = Text("nop")
ALIGNED: tuple[Item, ...] = ()
_JUMPS = {"x0 is zero": 0xB4000000, "x10 is not zero": 0xB500000A}  # cbz x0, cbnz x10
_BLR_X10 = struct.pack("<I", 0xD63F0140)
_RECORD = 16


def call(pc: int, target: int) -> bytes:
    """A call: the address into x10, and BLR x10."""
    return address("x10", pc, target) + _BLR_X10


def address(register: str, pc: int, value: int) -> bytes:
    """A number into a register, by three instructions: MOVN or MOVZ for the low half word, by what the highest holds, and two
    MOVK."""
    number, value = int(register[1:]), value & (1 << 64) - 1
    high, parts = value >> 48, [value >> s & 0xFFFF for s in (0, 16, 32)]
    if high not in (0, 0xFFFF):
        raise ValueError(f"{value:#x} is neither a kernel's nor a process' address")
    first = 0xD2800000 | parts[0] << 5 if not high else 0x92800000 | (parts[0] ^ 0xFFFF) << 5
    keep = [0xF2800000 | shift << 21 | part << 5 for shift, part in ((1, parts[1]), (2, parts[2]))]
    return b"".join(struct.pack("<I", word | number) for word in (first, *keep))


def jump(condition: str, pc: int, target: int) -> bytes:
    """CBZ or CBNZ (Arm ARM, C6.2)."""
    offset = target - pc
    require_reach("jump", -(1 << 20) <= offset < 1 << 20, pc, target)
    return struct.pack("<I", _JUMPS[condition] | (offset >> 2 & 0x7FFFF) << 5)


def nops(count: int) -> bytes:
    """NOPs of four bytes."""
    return struct.pack("<I", 0xD503201F) * (count // 4)


@dataclass(frozen=True)
class Frame:
    """The frame: offsets in bytes above sp, and its size, above which the two records lie."""

    run_ctx: int
    count: int
    context: int
    result: int
    kept: int
    size: int


def frame(plan: TrampolinePlan) -> Frame:
    """The layout for a plan."""
    # what guards need: the programs' context, the number of arguments, and two registers that are kept
    programs, number, two = (plan.run_ctx, 8, 16) if plan.guards else (0, 0, 0)
    run_ctx = plan.passed_on
    count = run_ctx + programs
    context = count + number
    result = context + 8 * len(plan.words)
    kept = result + plan.result
    return Frame(run_ctx, count, context, result, kept, kept + two + 15 & ~15)


def enter(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Make the records and the frame, and fill the array."""
    if plan.pops:
        yield Text("adr x10, #8\nret x10")
    yield Text("stp x29, x9, [sp, #-16]!\nmov x29, sp")
    if plan.jumped:  # x30 is the caller's: the function's record needs an address in the function
        yield Address("x10", plan.body)
    yield Text(f"stp x29, {'x10' if plan.jumped else 'x30'}, [sp, #-16]!\nmov x29, sp")
    yield Text(f"sub sp, sp, #{f.size}")
    if plan.guards:
        yield Text(f"mov x10, #{len(plan.words)}\nstr x10, [sp, #{f.count}]")
    for i, place in enumerate(plan.words):
        slot = f.context + 8 * i
        yield _copied(place, slot, plan.sizes[i]) if isinstance(place, int) else Text(f"str {place}, [sp, #{slot}]")
    if plan.guards:
        yield Text(f"str x19, [sp, #{f.kept}]\nstr x20, [sp, #{f.kept + 8}]")


def _copied(place: int, slot: int, size: int) -> Item:
    """A word that the caller passed on the stack into a slot above sp; of the word only the bytes that are the argument's."""
    shift = 64 - 8 * size
    cleared = f"lsl x10, x10, #{shift}\nlsr x10, x10, #{shift}\n" if shift else ""
    return Text(f"ldr x10, [x29, #{2 * _RECORD + 8 * place}]\n{cleared}str x10, [sp, #{slot}]")


def _arguments(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    for i, place in enumerate(plan.words):
        if isinstance(place, str):
            yield Text(f"ldr {place}, [sp, #{f.context + 8 * i}]")


def cookie(plan: TrampolinePlan, f: Frame, value: int) -> Iterator[Item]:
    """Put a program's cookie into the run context."""
    at = f"[sp, #{f.run_ctx + plan.cookie_at}]"
    yield Text(f"mov x10, #{value}\nstr x10, {at}" if value else f"str xzr, {at}")


def prog(struct: int, first: bool) -> Iterator[Item]:
    """The program as the first argument, which x19 holds from the program's start to its end."""
    if first:
        yield Address("x19", struct)
    yield Text("mov x0, x19")


def run_ctx(f: Frame, register: str) -> Item:
    """The address of the run context in a register."""
    return Text(f"add {register}, sp, #{f.run_ctx}")


def started(skip: str) -> Iterator[Item]:
    """Keep the time, which x20 holds until the program's end; zero forbids the program."""
    yield Text("mov x20, x0")
    yield Jump("x0 is zero", skip)


def start_time() -> Item:
    """The time that `started` kept as the second argument."""
    return Text("mov x1, x20")


def context(f: Frame) -> Item:
    """The array of arguments as the first argument."""
    return Text(f"add x0, sp, #{f.context}")


def keep_result(f: Frame) -> Item:
    """Make the return value the function's result."""
    return Text(f"str x0, [sp, #{f.result}]")


def clear_result(f: Frame) -> Item:
    """Make zero the function's result."""
    return Text(f"str xzr, [sp, #{f.result}]")


def unless_zero(f: Frame, label: str) -> Iterator[Item]:
    """Go to a label if the function's result is not zero."""
    yield Text(f"ldr x10, [sp, #{f.result}]")
    yield Jump("x10 is not zero", label)


def call_function(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Call the function with its arguments."""
    yield from _arguments(plan, f)
    for _, place in plan.stacked:
        yield _copied(place, 8 * place, 8)
    enter = "blr x10" if plan.jumped or plan.pops else "adr x30, #8\nret x10"
    yield Text(f"ldr x10, [sp, #{f.size + 8}]\n{enter}")
    yield keep_result(f)


def leave(plan: TrampolinePlan, f: Frame) -> Iterator[Item]:
    """Continue in the function, or in its caller if it has run."""
    if not plan.calls_function:
        yield from _arguments(plan, f)
    if plan.guards:
        yield Text(f"ldr x19, [sp, #{f.kept}]\nldr x20, [sp, #{f.kept + 8}]")
    if plan.calls_function:
        yield Text(f"ldr x0, [sp, #{f.result}]")
    yield Text("mov sp, x29\nldp x29, x30, [sp], #16\nldp x29, x9, [sp], #16")
    yield Text("mov x30, x9\nret x9" if plan.calls_function else "mov x10, x30\nmov x30, x9\nret x10")
