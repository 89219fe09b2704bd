"""What each instruction is for that a trampoline executes in a call, from what it reads, writes and comes before."""

from __future__ import annotations

from tramplab.emulate.decode import Instruction
from tramplab.estimate.operations import Operation
from tramplab.estimate.program import operation_of
from tramplab.isa import Isa
from tramplab.lab.run import Run

#: Keeping the arguments; giving the callee its own; the call; and all else that is always there: frame, way back, records.
KEEP, PASS, CALL, FRAME = "arguments", "passing", "call", "frame"
#: Getting to code that no branch reaches, from the patch site or from the trampoline; and landing pads and slots for patches.
REACH, MARKS = "reach", "marks"
JOBS = (KEEP, PASS, CALL, FRAME, REACH, MARKS)
#: The parts of a trampoline that depend on its place and its kernel's configuration; a comparison leaves them out.
SETTING = (REACH, MARKS)
_MARKS = ("endbr64", "nop")


def jobs(isa: Isa, run: Run, arguments: tuple[str, ...]) -> list[str]:
    """The job of every instruction that a trampoline executes in a call, in order.

    Keeping: a store of an argument register that still holds the argument, or a load of one after which nothing is called.
    Passing: what else writes an argument register. The call: itself. Reach: ftrace_caller, where it only leads to a trampoline
    made at run time, and what writes the register that such a one calls through.
    """
    steps = [s for s in run.steps if run.component_of(s.pc) not in ("site", "function")]
    inside = [run.component_of(s.pc) == "trampoline" for s in steps]
    common = [str(run.symbol_of(s.pc)).startswith("ftrace_caller") for s in steps]
    made = any(mine and not is_common for mine, is_common in zip(inside, common, strict=True))
    last = max((i for i, mine in enumerate(inside) if not mine), default=-1)
    instructions = [run.instructions[s.pc] for s in steps]
    operations = [operation_of(isa, i) if mine else None for i, mine in zip(instructions, inside, strict=True)]
    spoiled: set[str] = set()
    items: list[str] = []
    for i, (step, o) in enumerate(zip(steps, operations, strict=True)):
        if o is None:
            continue
        stores = any(is_store for _, _, is_store in step.accesses)
        loads = any(not is_store for _, _, is_store in step.accesses)
        if made and common[i]:
            items.append(REACH)
        elif o.call:
            items.append(CALL)
        elif _goes_through(operations, i):
            items.append(REACH if made else CALL)
        elif _is_mark(instructions[i]):
            items.append(MARKS)
        elif (stores and set(o.reads) & (set(arguments) - spoiled)) or (loads and i > last and set(o.writes) & set(arguments)):
            items.append(KEEP)
        elif set(o.writes) & set(isa.args):
            items.append(PASS)
        else:
            items.append(FRAME)
        spoiled |= set(o.writes)
    return items


def _is_mark(instruction: Instruction) -> bool:
    """Is it there for others to find or to patch, and does nothing itself?"""
    return instruction.mnemonic in _MARKS


def _goes_through(operations: list[Operation | None], i: int) -> bool:
    """Does an instruction make the address that the next call of the trampoline goes to?"""
    first = operations[i]
    written = set(first.writes) if first else set()
    for o in operations[i + 1 :]:
        if o is None:
            return False
        if o.call:
            return bool(written & set(o.reads))
        if not set(o.writes) <= written:
            return False
    return False
