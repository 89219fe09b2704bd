"""arm64: entered with x30 into the function and x9 to its caller; two frame records, then registers in pairs."""

from __future__ import annotations

from ...isa import arm64

#: How a trampoline calls, and what it can save, in order.
CALL = arm64.BL
SAVED = [f"x{n}" for n in (*range(9), *range(19, 24))]


def before(saved: list[str]) -> str:
    """The records of the function and of the trampoline, then save."""
    lines = ["stp x29, x9, [sp, #-16]!", "mov x29, sp", f"stp x29, x30, [sp, #-{_frame(saved)}]!", "mov x29, sp"]
    return "\n".join(lines + _each("st", saved))


def after(saved: list[str], balanced: bool) -> str:
    """Restore, and leave with x30 as the caller's return address again."""
    lines = [*_each("ld", saved), f"ldp x29, x10, [sp], #{_frame(saved)}", "ldp x29, x30, [sp], #16"]
    return "\n".join([*lines, "ret x10" if balanced else "br x10"])


def _each(op: str, saved: list[str]) -> list[str]:
    lines = [f"{op}p {a}, {b}, [sp, #{16 + 16 * i}]" for i, (a, b) in enumerate(zip(saved[::2], saved[1::2], strict=False))]
    last = [f"{op}r {saved[-1]}, [sp, #{16 + 8 * (len(saved) - 1)}]"] if len(saved) % 2 else []
    return lines + last


def _frame(saved: list[str]) -> int:
    return 16 + (8 * len(saved) + 15 & ~15)
