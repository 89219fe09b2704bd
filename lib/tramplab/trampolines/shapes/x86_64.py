"""x86-64: entered with the way back into the function at (rsp); the frame is one slot per saved register."""

from __future__ import annotations

from ...isa import x86_64

#: How a trampoline calls, and what it can save, in order.
CALL = x86_64.CALL
SAVED = ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "r10", "r11", "rbx", "rbp", "r12", "r13", "r14"]


def before(saved: list[str]) -> str:
    """Make the frame and save."""
    lines = [f"sub rsp, {_frame(saved)}"] + [f"mov [rsp + {8 * i}], {r}" for i, r in enumerate(saved)]
    return "\n".join(lines)


def after(saved: list[str], balanced: bool) -> str:
    """Restore, drop the frame and leave; r11 is dead at a function's entry."""
    lines = [f"mov {r}, [rsp + {8 * i}]" for i, r in enumerate(saved)] + [f"add rsp, {_frame(saved)}"]
    return "\n".join(lines + (["ret"] if balanced else ["pop r11", "jmp r11"]))


def _frame(saved: list[str]) -> int:
    """Bytes: with the caller's and the site's return address above it, calls find the stack aligned to 16."""
    return 8 * len(saved) + 15 & ~15
