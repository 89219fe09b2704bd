"""x86-64 instructions of the general-purpose part, Intel syntax."""

from __future__ import annotations

import re

from . import (
    ALU,
    ATOMIC,
    BARRIER,
    BRANCH,
    CONSTANT,
    DIVIDE,
    EXCEPTION,
    FLAGS,
    MOVE,
    MULTIPLY,
    NONE,
    POP_FLAGS,
    PUSH_FLAGS,
    Operation,
    split,
)

_Registers = tuple[str, ...]
_WORDS = {**{r: f"r{r}" for r in "ax bx cx dx si di bp sp".split()}, **{f"r{n}": f"r{n}" for n in range(8, 16)}}
#: Every name of a register -> the name of the whole register.
_REGISTERS = {
    **{f"{prefix}{name}": whole for name, whole in _WORDS.items() if name[0] != "r" for prefix in ("r", "e", "")},
    **{f"{r}{half}": f"r{r}x" for r in "abcd" for half in "lh"},
    **{f"{r}l": f"r{r}" for r in ("si", "di", "bp", "sp")},
    **{f"r{n}{size}": f"r{n}" for n in range(8, 16) for size in ("", "d", "w", "b")},
}
_COPIES = {"mov", "movabs", "movzx", "movsx", "movsxd"}
#: destination op= source, flags
_BINARY = set("add sub and or xor shl shr sar rol ror bts btr btc".split())
_CARRY = {"adc", "sbb"}  # the same, and read the flags
_UNARY = {"inc", "dec", "neg", "not"}
_COMPARES = {"cmp", "test", "bt"}
_FUSES = {"cmp", "test"}
_NOPS = {"nop", "endbr64", "pause", "prefetcht0", "prefetchw"}
_WIDENINGS = {"cdqe", "cwde", "cqo", "cdq"}


def operation(mnemonic: str, operands: str) -> Operation | None:
    """One instruction as the pipeline sees it; None if it is in no table."""
    name = mnemonic.removeprefix("lock ")
    parts = split(operands)
    memory = [p for p in parts if "[" in p]
    address = tuple(_named(memory[0])) if memory else ()
    plain = [tuple(_named(p)) for p in parts if "[" not in p]
    first_is_memory = bool(memory) and "[" in parts[0]
    target = () if first_is_memory or not plain else plain[0]
    sources = tuple(r for registers in (plain if first_is_memory else plain[1:]) for r in registers)

    if name in _NOPS:
        return Operation()
    if name in ("mfence", "lfence", "sfence"):
        return Operation(BARRIER)
    if name in ("int3", "iretq"):
        return Operation(EXCEPTION)
    if mnemonic != name or (name == "xchg" and memory) or name in ("xadd", "cmpxchg"):
        registers = tuple(r for p in plain for r in p) + (("rax",) if name == "cmpxchg" else ())
        locked = mnemonic != name or name == "xchg"
        return Operation(ATOMIC if locked else ALU, registers, address, (*registers, FLAGS))
    if name in _COPIES:
        return Operation(NONE if memory else MOVE if sources else CONSTANT, sources, address, target)
    if name == "xor" and len(plain) == 2 and plain[0] == plain[1]:
        return Operation(CONSTANT, (), (), (*target, FLAGS))
    if name == "imul" and len(parts) > 1:
        return Operation(MULTIPLY, sources if len(parts) == 3 else (*target, *sources), address, (*target, FLAGS))
    return _arithmetic(name, target, sources, address) or _stack(name, target, address) or _jump(name, target, address)


def _arithmetic(name: str, target: _Registers, sources: _Registers, address: _Registers) -> Operation | None:
    if name == "lea":
        return Operation(ALU, address, (), target)
    if name in _BINARY:
        return Operation(ALU, (*target, *sources), address, (*target, FLAGS))
    if name in _CARRY:
        return Operation(ALU, (*target, *sources, FLAGS), address, (*target, FLAGS))
    if name in _UNARY:
        return Operation(ALU, target, address, target if name == "not" else (*target, FLAGS))
    if name in _COMPARES:
        return Operation(ALU, (*target, *sources), address, (FLAGS,), compares=name in _FUSES)
    if name.startswith("cmov"):
        return Operation(ALU, (*target, *sources, FLAGS), address, target)
    if name.startswith("set"):
        return Operation(ALU, (*target, FLAGS), address, target)
    if name in ("tzcnt", "bsf", "popcnt"):  # done where products are, in as many cycles (LLVM's models of Skylake)
        return Operation(MULTIPLY, sources, address, (*target, FLAGS))
    if name in ("mul", "imul"):
        return Operation(MULTIPLY, (*target, "rax"), address, ("rax", "rdx", FLAGS))
    if name in ("div", "idiv"):
        return Operation(DIVIDE, (*target, "rax", "rdx"), address, ("rax", "rdx", FLAGS))
    if name in _WIDENINGS:
        return Operation(ALU, ("rax",), (), ("rdx",) if name in ("cqo", "cdq") else ("rax",))
    return None


def _stack(name: str, target: _Registers, address: _Registers) -> Operation | None:
    if name == "push":
        return Operation(NONE, target, address, stack=True)
    if name == "pop":
        return Operation(NONE, (), address, target, stack=True)
    if name == "pushfq":
        return Operation(PUSH_FLAGS, (FLAGS,), stack=True)
    if name == "popfq":
        return Operation(POP_FLAGS, (), (), (FLAGS,), stack=True)
    if name in ("cli", "sti", "cld"):  # the interrupt flag is one of them; what comes behind does not wait for more than that
        return Operation(ALU, (FLAGS,), (), (FLAGS,))
    if name == "leave":
        return Operation(ALU, (), ("rbp",), ("rbp",), bumps=("rsp",))
    return None


def _jump(name: str, target: _Registers, address: _Registers) -> Operation | None:
    if name == "call":
        return Operation(BRANCH, target, address, stack=True, call=True)
    if name == "ret":
        return Operation(BRANCH, stack=True, returns=True)
    if name == "jmp":
        return Operation(BRANCH, target, address, indirect=bool(target or address))
    if name.startswith("j"):
        return Operation(BRANCH, (FLAGS,), conditional=True)
    return None


def _named(operand: str) -> list[str]:
    """The registers in one operand."""
    return [_REGISTERS[w] for w in re.findall(r"[a-z][a-z0-9]*", operand) if w in _REGISTERS]
