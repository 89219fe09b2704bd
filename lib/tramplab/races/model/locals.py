"""The state of one thread: its registers, its own memory, and the ops that were called on its behalf."""

from __future__ import annotations

from typing import NamedTuple

#: ISA -> the register with the condition flags, and its value when the function is called.
FLAGS = {"x86_64": {"eflags": 0x202}, "arm64": {"pstate": 0x3C5}, "riscv64": {}}
#: ISA -> the registers in which a breakpoint leaves what its handler asks for, and their values at first: in the kernel, with
#: interrupts on.
SYSTEM = {"riscv64": {"sstatus": 1 << 1, "sepc": 0, "scause": 0, "stval": 0, "sscratch": 0}}
#: ISAs where breakpoints are taken with interrupts off -> the register and the bit of it that says that they are on.
INTERRUPTS = {"x86_64": ("eflags", 1 << 9), "riscv64": ("sstatus", 1 << 1)}


#: A thread between two calls.
IDLE = 0


class Local(NamedTuple):
    """The state of one thread.

    pc: of the next instruction.
    registers: in the order of Layout.names.
    memory: (address, word) of its own writes that are still alive, sorted.
    called: addresses of the ops that were called, in order.
    due: addresses of the ops that must be called, exactly once.
    outer: the number of what an exception has interrupted, which goes on when this call returns; IDLE for none.
    """

    pc: int
    registers: tuple[int, ...]
    memory: tuple[tuple[int, int], ...]
    called: tuple[int, ...]
    due: frozenset[int]
    outer: int = IDLE


class Interned:
    """Numbers for locals; none has the number IDLE."""

    def __init__(self) -> None:
        self._numbers: dict[Local, int] = {}
        self._locals: list[Local | None] = [None]

    def __len__(self) -> int:
        return len(self._locals)

    def __getitem__(self, number: int) -> Local:
        found = self._locals[number]
        assert found is not None, "an idle thread is nowhere"
        return found

    def number(self, local: Local) -> int:
        """The number of a local, a new one if it has none."""
        found = self._numbers.setdefault(local, len(self._locals))
        if found == len(self._locals):
            self._locals.append(local)
        return found
