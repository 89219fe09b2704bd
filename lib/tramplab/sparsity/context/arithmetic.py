"""The result of an operation on two numbers, and when a condition holds: RFC 9669, sections 4.1 and 4.3."""

from __future__ import annotations

from collections.abc import Callable

_MASK = (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    """The low bits of a value as a two's complement number.

    >>> signed(0xFF, 8), signed(0x17F, 8)
    (-1, 127)
    """
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _divided(a: int, b: int) -> int:
    """a divided by b, rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "+=": lambda a, b, bits: a + b,
    "-=": lambda a, b, bits: a - b,
    "*=": lambda a, b, bits: a * b,
    "/=": lambda a, b, bits: a // b if b else 0,
    "%=": lambda a, b, bits: a % b if b else a,
    "s/=": lambda a, b, bits: _divided(signed(a, bits), signed(b, bits)) if b else 0,
    "s%=": lambda a, b, bits: signed(a, bits) - _divided(signed(a, bits), signed(b, bits)) * signed(b, bits) if b else a,
    "|=": lambda a, b, bits: a | b,
    "&=": lambda a, b, bits: a & b,
    "^=": lambda a, b, bits: a ^ b,
    "<<=": lambda a, b, bits: a << b % bits,
    ">>=": lambda a, b, bits: a >> b % bits,
    "s>>=": lambda a, b, bits: signed(a, bits) >> b % bits,
    "-": lambda a, b, bits: -a,
    "=": lambda a, b, bits: b,
}
_CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&": lambda a, b: bool(a & b),
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}


def operate(operation: str, a: int, b: int, bits: int, extend: int = 0) -> int:
    """The 64-bit result of an operation on the low `bits` (32 or 64) of a and b; the upper half of a 32-bit result is zero. extend:
    from how many bits a move extends the sign, 0 if it does not."""
    mask = (1 << bits) - 1
    if extend:
        b = signed(b, extend)
    return _OPERATIONS[operation](a & mask, b & mask, bits) & mask


def holds(condition: str, a: int, b: int, bits: int) -> bool:
    """Is a condition met by the low `bits` of two numbers?"""
    if condition.startswith("s"):
        return _CONDITIONS[condition[1:]](signed(a, bits), signed(b, bits))
    mask = (1 << bits) - 1
    return _CONDITIONS[condition](a & mask, b & mask)


def loaded(data: bytes, sign: bool) -> int:
    """The 64-bit register after a load of these bytes, little-endian."""
    return int.from_bytes(data, "little", signed=sign) & _MASK
