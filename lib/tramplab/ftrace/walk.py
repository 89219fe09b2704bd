"""A call to read step by step, as plain data: code with symbols, what every step changed, and where on its way it is."""

from __future__ import annotations

from collections.abc import Callable

from ..emulate import walk as _walk
from ..emulate.walk import Moment
from ..errors import TramplabError
from .kernel import Function, Kernel
from .listing import named
from .run import Run

#: What every hooked call passes, in this order; a call that lacks a part of a hook lacks its milestone.
MILESTONES = ("site", "save", "callback", "restore", "body", "return")
#: The stack pointer at the function's first byte: addresses on the stack are told from there.
TOP = "S"
_NEAR = 1 << 14  # bytes around that place that are the stack's
_SMALL = 1 << 12  # numbers below are shown in decimal


def walk(kernel: Kernel, function: Function, *arguments: int) -> dict:
    """One call of a function in the kernel as it is, with all registers that the caller may choose at 0.

    Returns a dictionary for JSON: isa, sp (its name), config, call (with its result), symbols ([name, component]), code ([index of
    symbol, offset, instruction]), start (registers, as "name=value"), steps ([index of code, registers changed,
    memory written], both as "name=value"), milestones (name -> step). Values are symbols, places on the stack ("S-16":
    16 bytes below the stack pointer at the function's first byte), or numbers.

    Raises GuestFault, StepLimit, and TramplabError if the walk goes another way than the call that was only recorded.
    """
    isa = kernel.isa
    chosen = set(isa.registers) - {*isa.fixed, isa.sp, isa.link}
    registers = dict.fromkeys((name for name in isa.registers if name in chosen), 0)
    run = kernel.call(function, *arguments, registers=registers)
    start, moments = _walk.walk(kernel.machine, function.address, *kernel.passed(arguments, registers))
    if [m.pc for m in moments] != [s.pc for s in run.steps]:
        raise TramplabError(
            f"two calls of {function.name} did not run the same instructions; its state changed between."
        )
    instructions = {m.pc: kernel.machine.instruction_at(m.pc) for m in moments}
    met = {*instructions, *(pc + i.size for pc, i in instructions.items()), kernel.machine.return_to}
    say = _speaker(run, start[isa.sp], met, kernel.machine.is_text)
    symbols: dict[tuple[str, str], int] = {}
    code: dict[int, list] = {}
    for m in moments:
        if m.pc not in code:
            symbol, _, offset = (run.name_of(m.pc) or f"{m.pc:#x}").partition("+")
            index = symbols.setdefault((symbol, run.component_of(m.pc)), len(symbols))
            text = named(instructions[m.pc].text, run.name_of)
            code[m.pc] = [index, int(offset or "0", 16), text]
    places = {pc: i for i, pc in enumerate(code)}
    return {
        "isa": isa.name,
        "sp": isa.sp,
        "config": run.config,
        "call": f"{function.name}({', '.join(map(str, arguments))}) = {say(run.value)}",
        "symbols": [list(symbol) for symbol in symbols],
        "code": list(code.values()),
        "start": [f"{name}={say(value)}" for name, value in start.items() if name != isa.pc],
        "steps": [[places[m.pc], *_changes(m, say)] for m in moments],
        "milestones": milestones(run),
    }


def milestones(run: Run) -> dict[str, int]:
    """Where a recorded call passes each milestone: name -> number of the step, in order; found from the run itself.

    site: the function's first byte. save: the first trampoline instruction. callback: the first of a callback. restore:
    the first trampoline instruction after the last callback. body: the first of the function's own body. return: the
    instruction that returns to the caller.
    """
    parts = [run.component_of(s.pc) for s in run.steps]
    last = max((i for i, part in enumerate(parts) if part == "callback"), default=len(parts))
    found = {
        "site": 0,
        "save": _first(parts, "trampoline", 0),
        "callback": _first(parts, "callback", 0),
        "restore": _first(parts, "trampoline", last),
        "body": _first(parts, "function", 0),
        "return": len(parts) - 1,
    }
    return {name: step for name, step in found.items() if step is not None}


def _first(parts: list[str], wanted: str, start: int) -> int | None:
    return next((i for i in range(start, len(parts)) if parts[i] == wanted), None)


def _changes(m: Moment, say: Callable[[int], str]) -> tuple[list[str], list[str]]:
    registers = [f"{name}={say(value)}" for name, value in m.changed.items()]
    memory = [f"{say(a)}{'' if size == 8 else f':{size}'}={say(value)}" for a, size, value in m.stores]
    return registers, memory


def _speaker(run: Run, top: int, met: set[int], is_text: Callable[[int], bool]) -> Callable[[int], str]:
    """How values are written: S-16, a symbol, or a number, which is decimal where it is small.

    An address of code has a name if the call meets it or a symbol begins there; others are on the way to one, like
    what an AUIPC leaves, and the symbol that happens to lie there would mislead.
    """

    def say(value: int) -> str:
        if abs(value - top) < _NEAR:
            return f"{TOP}{value - top:+d}" if value != top else TOP
        signed = value - (value >> 63 << 64)
        if abs(signed) < _SMALL:
            return str(signed)
        name = run.name_of(value)
        accidental = name and "+" in name and is_text(value) and value not in met
        return name if name and not accidental else f"{value:#x}"

    return say
