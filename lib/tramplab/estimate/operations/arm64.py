"""arm64 instructions on general registers."""

from __future__ import annotations

import re

from . import ALU, ATOMIC, BARRIER, BRANCH, CONSTANT, DIVIDE, EXCEPTION, FLAGS, MOVE, MULTIPLY, NONE, READ, Operation, split

_LOADS = ("ldr", "ldur", "ldtr", "ldp", "ldnp", "ldar", "ldapr", "ldlar")
_STORES = ("str", "stur", "sttr", "stp", "stnp", "stlr", "stllr")
_EXCLUSIVE = ("ldxr", "ldaxr", "stxr", "stlxr", "cas", "swp", "ldadd", "ldclr", "ldset", "ldeor")
_NOPS = {"nop", "bti", "hint", "paciasp", "autiasp", "prfm", "prfum", "yield"}
_BARRIERS = {"dmb", "dsb", "isb"}
_EXCEPTIONS = {"brk", "eret"}
_COMPARES = {"cmp", "cmn", "tst"}
_ADDRESSES = {"adr", "adrp"}
_MULTIPLIES = {"mul", "madd", "msub", "mneg", "umulh", "smulh", "umull", "smull", "umaddl", "smaddl"}
_DIVIDES = {"udiv", "sdiv"}
#: register = f(the other operands)
_PLAIN = set(
    "add sub and orr eor bic orn eon lsl lsr asr ror neg mvn sxtw sxtb sxth uxtb uxth ubfx sbfx ubfiz sbfiz clz rbit rev"
    " extr".split()
)
_SETS_FLAGS = {"adds", "subs", "ands", "bics", "negs"}
_KEEPS_REST = {"movk", "bfi", "bfxil"}  # the old value is an input
_CONDITIONAL = {"csel", "csinc", "csinv", "csneg", "cset", "csetm", "cinc", "cinv", "cneg"}
_CARRY = {"adc", "sbc", "ngc"}
_CONDITIONAL_COMPARES = {"ccmp", "ccmn"}


def operation(mnemonic: str, operands: str) -> Operation | None:
    """One instruction as the pipeline sees it; None if it is in no table."""
    parts = split(operands)
    registers = [_named(p) for p in parts]
    first = registers[0] if registers else ()
    rest = tuple(r for names in registers[1:] for r in names)

    if mnemonic in _NOPS:
        return Operation()
    if mnemonic in _BARRIERS:
        return Operation(BARRIER)
    if mnemonic in _EXCEPTIONS:
        return Operation(EXCEPTION)
    if "[" in operands:
        return _access(mnemonic, parts, registers)
    if mnemonic == "mov":
        return Operation(MOVE if rest else CONSTANT, rest, (), first)
    if mnemonic in _ADDRESSES or mnemonic in ("movz", "movn"):
        return Operation(CONSTANT, (), (), first)
    if mnemonic in _COMPARES:
        return Operation(ALU, (*first, *rest), (), (FLAGS,), compares=True)
    if mnemonic in _CONDITIONAL_COMPARES:
        return Operation(ALU, (*first, *rest, FLAGS), (), (FLAGS,))
    if mnemonic in _PLAIN:
        return Operation(ALU, rest, (), first)
    if mnemonic in _SETS_FLAGS:
        return Operation(ALU, rest, (), (*first, FLAGS))
    if mnemonic in _KEEPS_REST:
        return Operation(ALU, (*first, *rest), (), first)
    if mnemonic in _CONDITIONAL or mnemonic in _CARRY:
        return Operation(ALU, (*rest, FLAGS), (), first)
    if mnemonic in _MULTIPLIES:
        return Operation(MULTIPLY, rest, (), first)
    if mnemonic in _DIVIDES:
        return Operation(DIVIDE, rest, (), first)
    if mnemonic == "mrs":
        return Operation(READ, (), (), first)
    if mnemonic == "msr":
        return Operation(READ, (*first, *rest))
    return _jump(mnemonic, first)


def _access(mnemonic: str, parts: list[str], registers: list[tuple[str, ...]]) -> Operation | None:
    """A load or store: the operand in brackets is the address, what comes before it is loaded or stored."""
    at = next(i for i, p in enumerate(parts) if "[" in p)
    data, address = tuple(r for names in registers[:at] for r in names), registers[at]
    moved = address[:1] if parts[at].endswith("!") or len(parts) > at + 1 else ()  # pre- or post-indexed
    if mnemonic.startswith(_EXCLUSIVE):
        return Operation(ATOMIC, data, address, data)
    if mnemonic.startswith(_LOADS):
        return Operation(NONE, (), address, data, moved)
    if mnemonic.startswith(_STORES):
        return Operation(NONE, data, address, (), moved)
    return None


def _jump(mnemonic: str, first: tuple[str, ...]) -> Operation | None:
    if mnemonic in ("bl", "blr"):
        return Operation(BRANCH, first, (), ("x30",), call=True)
    if mnemonic == "ret":
        return Operation(BRANCH, first or ("x30",), returns=True)
    if mnemonic in ("b", "br"):
        return Operation(BRANCH, first, indirect=bool(first))
    if mnemonic.startswith("b."):
        return Operation(BRANCH, (FLAGS,), conditional=True)
    if mnemonic in ("cbz", "cbnz", "tbz", "tbnz"):
        return Operation(BRANCH, first)
    return None


def _named(operand: str) -> tuple[str, ...]:
    """The registers in one operand, as x registers; the zero register is none."""
    return tuple(
        "sp" if name in ("sp", "wsp") else f"x{name[1:]}"
        for name in re.findall(r"(?<![#\w])(?:[xw]\d+|w?sp)\b", operand)
    )
