"""The operation that each instruction is to a pipeline, from its text: one small table per ISA.

Memory accesses are not told here: they are taken from the run, with their addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Units in which an instruction's own work is done, after its loads and before its stores. NONE: loads and stores themselves,
#: NOPs. MOVE copies a register, CONSTANT needs no input. READ is a read of a system register; the flags get onto and off
#: the stack by PUSH_FLAGS and POP_FLAGS. BARRIER: everything older is finished before anything
#: younger starts, as where an EXCEPTION is taken by a breakpoint, or left.
UNITS = NONE, MOVE, CONSTANT, ALU, MULTIPLY, DIVIDE, BRANCH, ATOMIC, READ, PUSH_FLAGS, POP_FLAGS, BARRIER, EXCEPTION = (
    "none",
    "move",
    "constant",
    "alu",
    "multiply",
    "divide",
    "branch",
    "atomic",
    "read",
    "push_flags",
    "pop_flags",
    "barrier",
    "exception",
)

#: The condition flags as a register.
FLAGS = "flags"


@dataclass(frozen=True)
class Operation:
    """An instruction as a pipeline sees it.

    reads: registers that go into its result or into the value it stores.
    address: registers that make up an address.
    writes: registers that hold the result.
    bumps: base registers moved by a constant, ready before any access is.
    stack: the access itself moves the stack pointer (push, pop, call, ret).
    compares: may fuse with a conditional branch after it.
    conditional: it is such a branch.
    call, returns, indirect: a jump of that kind.
    """

    unit: str = NONE
    reads: tuple[str, ...] = ()
    address: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    bumps: tuple[str, ...] = ()
    stack: bool = False
    compares: bool = False
    conditional: bool = False
    call: bool = False
    returns: bool = False
    indirect: bool = False


def split(operands: str) -> list[str]:
    """The operands of an instruction, those in brackets whole.

    >>> split("x0, x1, [sp, #16]")
    ['x0', 'x1', '[sp, #16]']
    """
    out, depth = [""], 0
    for c in operands:
        depth += {"[": 1, "]": -1}.get(c, 0)
        if c == "," and not depth:
            out.append("")
        else:
            out[-1] += c
    return [o.strip() for o in out if o.strip()]
