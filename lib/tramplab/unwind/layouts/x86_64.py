"""x86-64: push, pop, and arithmetic on rsp, followed along every way through a function, as objtool does to write ORC data.

What moves rsp in a way that stands in no rule here is an error, and so are two ways to an instruction that leave different stacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...base.errors import TramplabError
from ...emulate.decode import Instruction
from . import Layout

WORD = 8
_SP, _FP = ("rsp", "esp", "sp", "spl"), ("rbp", "ebp", "bp", "bpl")
_ONLY_READ = ("cmp", "test", "push", "call", "jmp")
_PUSHES, _POPS = ("push", "pushfq"), ("pop", "popfq")
_ENDS = ("ret", "iretq", "hlt", "ud2", "int3")
_SLOT = re.compile(r"qword ptr \[rsp(?: \+ (\w+))?\]")
_BELOW_FP = re.compile(r"\[rbp(?: ([+-]) (\w+))?\]")


@dataclass(frozen=True)
class _Stack:
    """The stack at one instruction: bytes from rsp, and from rbp where that holds a frame's address, to the caller's frame. saved:
    as in Layout. copy: a register that rbp was copied to, through which a trampoline saves it."""

    sp: int = WORD
    fp: int | None = None
    saved: int | None = None
    copy: str = field(default="", compare=False)

    @property
    def layout(self) -> Layout:
        return Layout(False, self.sp, self.saved) if self.fp is None else Layout(True, self.fp, self.saved)


def layouts(read: Callable[[int], Instruction], start: int, size: int) -> dict[int, Layout]:
    """Address -> layout of the stack before the instruction there, for a function that is entered at its first byte, by a call.
    read: address -> instruction. Unreachable code, such as padding, is left out. Raises TramplabError."""
    stacks: dict[int, _Stack] = {}
    ways = [(start, _Stack())]
    while ways:
        address, stack = ways.pop()
        if not start <= address < start + size:
            continue  # a tail call, or the function ends with a call that does not come back
        if address in stacks:
            if stacks[address] != stack:
                raise TramplabError(f"the stack at {address:#x} depends on the way there: {stacks[address]}, {stack}.")
            continue
        stacks[address] = stack
        instruction = read(address)
        ways += _ways(instruction, _after(instruction, stack), start, size)
    return {address: stack.layout for address, stack in stacks.items()}


def _ways(i: Instruction, after: _Stack, start: int, size: int) -> list[tuple[int, _Stack]]:
    """(address, stack) of each instruction where execution may go on."""
    behind = (i.address + i.size, after)
    target = int(i.operands, 16) if i.operands.startswith("0x") else None
    if i.mnemonic in _ENDS:
        return []
    if i.mnemonic == "call" and target is not None and start < target < start + size:
        return [(target, replace(after, sp=after.sp + WORD))]  # a call into the function itself: its address is dropped there
    if i.mnemonic == "jmp":
        return [] if target is None else [(target, after)]
    if i.mnemonic.startswith("j") and target is not None:
        return [behind, (target, after)]
    return [behind]


def _after(i: Instruction, stack: _Stack) -> _Stack:
    """The stack behind an instruction."""
    first, _, second = i.operands.partition(", ")
    if i.mnemonic in _PUSHES:
        saves_fp = stack.saved is None and stack.fp is None and first == "rbp"
        return replace(stack, sp=stack.sp + WORD, saved=-stack.sp - WORD if saves_fp else stack.saved)
    if i.mnemonic in _POPS:
        popped = replace(stack, sp=stack.sp - WORD)
        return _restored(i, popped, -stack.sp) if first in _FP else popped
    if i.mnemonic == "leave" and stack.fp is not None:
        return _restored(i, replace(stack, sp=stack.fp - WORD), -stack.fp)
    if first in _SP and i.mnemonic not in _ONLY_READ:
        return replace(stack, sp=_moved(i, stack, second))
    if first in _FP and i.mnemonic not in _ONLY_READ:
        if (i.mnemonic, second) == ("mov", "rsp"):
            return replace(_kept(i, stack), fp=stack.sp)
        slot = _SLOT.fullmatch(second)
        if i.mnemonic == "mov" and slot and _offset(slot[1]) - stack.sp == stack.saved:
            return _restored(i, stack, stack.saved)
        return replace(_kept(i, stack), fp=None)
    slot = _SLOT.fullmatch(first)
    if i.mnemonic == "mov" and second in ("rbp", stack.copy) and stack.saved is None and stack.fp is None:
        if slot:
            return replace(stack, saved=_offset(slot[1]) - stack.sp)
        return replace(stack, copy=first)
    return replace(stack, copy="") if first == stack.copy else stack


def _moved(i: Instruction, stack: _Stack, second: str) -> int:
    """Bytes from rsp to the caller's frame, after an instruction has moved rsp."""
    if i.mnemonic in ("add", "sub") and second.startswith(("0x", *"0123456789")):
        return stack.sp + _offset(second) * (1 if i.mnemonic == "sub" else -1)
    below = _BELOW_FP.fullmatch(second) if i.mnemonic == "lea" else None
    if stack.fp is not None and (below or (i.mnemonic, second) == ("mov", "rbp")):
        return stack.fp - (_offset(below[2]) * (-1 if below[1] == "-" else 1) if below else 0)
    raise TramplabError(f"{i.text!r} at {i.address:#x} moves the stack pointer in a way that is in no rule; add it.")


def _kept(i: Instruction, stack: _Stack) -> _Stack:
    """The same stack; raises TramplabError if an instruction that overwrites rbp may not, as the caller's is not saved."""
    if stack.saved is None:
        raise TramplabError(f"{i.text!r} at {i.address:#x} overwrites the caller's frame pointer, which is kept nowhere.")
    return stack


def _restored(i: Instruction, stack: _Stack, place: int | None) -> _Stack:
    """The stack once rbp is the caller's again; raises TramplabError unless that was saved in this place."""
    if place != stack.saved:
        raise TramplabError(f"{i.text!r} at {i.address:#x} does not give back the caller's frame pointer.")
    return replace(stack, fp=None, saved=None)


def _offset(text: str | None) -> int:
    return int(text, 0) if text else 0
