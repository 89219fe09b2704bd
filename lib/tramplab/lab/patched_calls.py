"""Calls of traced functions that can be told from calls of what live patching puts in their place."""

from __future__ import annotations

from dataclasses import dataclass

from .kernel import Kernel
from .measure import STUDIED

#: Function -> how many integers it takes; pointers come on top, see passed().
CALLS = {name: n for n, name in enumerate(STUDIED)} | {
    "pointer_args": 0,
    "calls_others": 3,
    "tail_call": 2,
    "struct_return": 2,
    "big_struct_return": 2,
    "struct_arg": 3,
}
_WORDS = 4


@dataclass(frozen=True)
class Passed:
    """One call: its integer arguments, further registers, and what it leaves: return registers, and words of memory."""

    arguments: tuple[int, ...]
    registers: dict[str, int]
    returns: tuple[str, ...]
    memory: int

    def found(self, kernel: Kernel, registers: dict[str, int]) -> tuple[int, ...]:
        """What a call left, after it."""
        words = (kernel.machine.read_u64(self.memory + 8 * n) for n in range(_WORDS))
        return (*(registers[r] for r in self.returns), *words)


def passed(kernel: Kernel, name: str) -> Passed:
    """The call that is made of a function; its pointers lead to fresh memory."""
    isa, memory = kernel.isa, kernel.memory(*range(90, 90 + _WORDS))
    arguments, registers, returns = tuple(range(11, 11 + CALLS[name])), {}, isa.returns[:1]
    if name == "pointer_args":
        arguments = (memory, memory + 8)
    elif name == "struct_return":
        returns = isa.returns
    elif name == "big_struct_return":
        returns = ()
        if isa.struct_return in isa.args:
            arguments = (memory, *arguments)
        else:
            registers = {isa.struct_return: memory}
    return Passed(arguments, registers, returns, memory)


def result(kernel: Kernel, made: Passed, address: int) -> tuple[int, ...]:
    """What a call of the function at an address leaves, see Passed; its memory is put back after it."""
    words = [kernel.machine.read_u64(made.memory + 8 * n) for n in range(_WORDS)]
    found = made.found(kernel, kernel.machine.call(address, *kernel.passed(made.arguments, made.registers)).registers)
    for n, word in enumerate(words):
        kernel.machine.write_u64(made.memory + 8 * n, word)
    return found
