"""riscv64: entered with t0 into the function and ra to its caller; both lie above the saved registers."""

from __future__ import annotations

from ...isa import riscv64

#: How a trampoline calls, and what it can save, in order.
CALL = riscv64.CALL_RA
SAVED = [f"a{n}" for n in range(8)] + [f"s{n}" for n in range(6)]


def before(saved: list[str]) -> str:
    """Make the frame and save."""
    return "\n".join([f"addi sp, sp, -{_frame(saved)}", *_each("sd", saved, "t0")])


def after(saved: list[str], balanced: bool) -> str:
    """Restore, drop the frame and leave: through t0, which the CPU takes for a return, or through t1, which it does not."""
    way = "t0" if balanced else "t1"
    return "\n".join([*_each("ld", saved, way), f"addi sp, sp, {_frame(saved)}", f"jr {way}"])


def _each(op: str, saved: list[str], way: str) -> list[str]:
    return [f"{op} {r}, {8 * i}(sp)" for i, r in enumerate([*saved, way, "ra"])]


def _frame(saved: list[str]) -> int:
    return 8 * (len(saved) + 2) + 15 & ~15
