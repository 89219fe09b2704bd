"""Calls that return at the first instruction of the traced function's body: a hook costs what it does at the entry and the return.

A return as the kernel's own functions have it replaces the instruction, so everything that waits for the function's return runs: a
return hook, a trampoline that calls the body. A kprobe's breakpoint on that instruction stays, and the kernel has the instruction
executed in its slot; then the function returns at the next one, with the stack pointer that it was entered with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...build.assemble import assemble
from ...emulate.machine import Machine
from ...lab.view import Function

#: The return value of such a function: a positive int, which no trampoline may cut or extend.
VALUE = 0x5EED_0001


@dataclass(frozen=True, repr=False)
class Traced(Function):
    """A traced function. whole: is its body run? second: the address of the body's second instruction."""

    whole: bool
    second: int

    @property
    def end(self) -> int:
        """The address after all that counts as the function."""
        return max(self.address + self.size, 0 if self.whole else self.second + 1)

    @property
    def said(self) -> str:
        """The words on what is run of the function; "" if all of it."""
        if self.whole:
            return ""
        return (
            f"{self.name}() returns {VALUE:#x} at the first instruction of its body, or at the second where a kprobe's breakpoint "
            f"is on the first: what the body does is not counted"
        )


@contextmanager
def returning(
    machine: Machine, function: Traced, at_body: Sequence[dict[str, int]], leave: Callable[[int], bytes] | None
) -> Iterator[None]:
    """For a `with` around a call: the function returns early. at_body: what its caller fills with the registers at the body, each
    time that it is reached. leave: the return as it is at an address, where that is not the ISA's own."""
    isa, at = machine.isa, function.site.body
    if machine.instruction_at(at).data.startswith(isa.breakpoints):
        at = function.second
    code = leave(at) if leave else assemble(isa, "ret")
    code_there = machine.read(at, len(code))

    def arrived() -> None:
        machine.set_registers({isa.sp: at_body[-1][isa.sp], isa.returns[0]: VALUE})

    machine.poke(at, code)
    try:
        with machine.watching(at, arrived):
            yield
    finally:
        machine.poke(at, code_there)
