"""Every hook on one real kernel: called, checked, and counted. What fails a check is not measured, and says why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...base.errors import TramplabError
from ...emulate.counting.counts import COMPONENTS
from ...estimate import returnstack
from ...lab.run import Run
from ...trampolines.arguments import sizes
from .. import hooks
from ..hooks.hook import Absent, Expected, Hook
from . import arguments, passed
from .early import Traced
from .machine import FUNCTION, RealMachine

MEASURED, ABSENT, FAILED = "measured", "absent", "failed"


@dataclass(frozen=True, eq=False)
class Measured:
    """One hook on one kernel.

    status: "measured", "absent" or "failed".
    reason: why it is not measured.
    run: the call.
    """

    hook: Hook
    status: str
    reason: str = ""
    run: Run | None = None


def every(machine: RealMachine, function: str = FUNCTION, names: Iterable[str] = ()) -> list[Measured]:
    """Measure these hooks, or all there are, on a function. Raises TramplabError for an unknown hook or function, and for a kernel
    whose function does not even run without a hook."""
    wanted = [hooks.get(name) for name in names] or list(hooks.HOOKS.values())
    traced = machine.function(function)
    registers = arguments.registers(machine.isa)
    idle = machine.call(traced, registers)
    return [one(machine, traced, hook, registers, idle) for hook in wanted]


def one(machine: RealMachine, function: Traced, hook: Hook, registers: dict[str, int], idle: Run) -> Measured:
    """Attach, call, check, detach. idle: the same call without a hook."""
    try:
        expected = hook.attach(machine, function)
        run = machine.call(function, registers)
        wrong = complaint(machine, function, expected, registers, run, idle)
        if not wrong:
            _ = run.counts, run.frame  # an instruction that cannot be counted is found here
        return Measured(hook, FAILED if wrong else MEASURED, wrong, None if wrong else run)
    except Absent as e:
        return Measured(hook, ABSENT, str(e))
    except TramplabError as e:
        return Measured(hook, FAILED, _itself(machine, function) or str(e).rstrip("."))
    finally:
        machine.reset()


def complaint(
    machine: RealMachine, function: Traced, expected: Expected, registers: dict[str, int], run: Run, idle: Run
) -> str:
    """The error in a call, "" for none: arguments at the body and in a program's array, the values that own code was given and how
    often it ran, the return value, registers."""
    isa = machine.isa
    if trouble := _itself(machine, function):
        return trouble
    if len(machine.at_body) != 1:
        return f"the body of {function.name} ran {len(machine.at_body)} times"
    if wrong := _arguments(machine, function, expected, registers):
        return wrong
    for seen in expected.observed:
        hits, first, second = (machine.machine.read_u64(seen.block + 8 * n) for n in range(3))
        if hits != seen.hits:
            return f"{seen.what} ran {hits} times, not {seen.hits}"
        for what, value, wanted in (("first", first, seen.first), ("second", second, idle.value if seen.value else seen.second)):
            if wanted is not None and value != wanted:
                return f"{seen.what} was given {value:#x} {what}, not {wanted:#x}"
    prototype = passed.prototype(machine.opened, function.name)
    if run.value != idle.value and (prototype is None or prototype.result.size):
        return f"{function.name} returned {run.value:#x} and returns {idle.value:#x} without the hook"
    for name in (*isa.callee_saved, isa.sp):
        if run.registers[name] != idle.registers[name]:
            return f"{name} is {run.registers[name]:#x} afterwards, and {idle.registers[name]:#x} without the hook"
    return ""


def _arguments(machine: RealMachine, function: Traced, expected: Expected, registers: dict[str, int]) -> str:
    """The error in the arguments, in registers and on the stack, at the body and in the arrays of programs."""
    isa, body, at = machine.isa, machine.at_body[0], f"at the body of {function.name}"
    every_argument = (*isa.args, *(r for r in (isa.struct_return,) if r not in isa.args))
    for name in every_argument if expected.arguments is None else expected.arguments:
        if body[name] != registers[name]:
            return f"{name} was {registers[name]:#x} and is {body[name]:#x} {at}"
    stacked = passed.stacked(machine.opened, function.name)
    for n, (wanted, word) in enumerate(zip(stacked, machine.stacked_at_body[0], strict=True), 1):
        if word != wanted:
            return f"word {n} on the stack was {wanted:#x} and is {word:#x} {at}"
    prototype, places = passed.prototype(machine.opened, function.name), passed.places(machine.opened, function.name)
    words = [stacked[place] if isinstance(place, int) else registers[place] for place in places]
    for array in expected.arrays:
        for n, (word, wanted, size) in enumerate(zip(array, words, sizes(prototype) if prototype else (), strict=True), 1):
            if (word ^ wanted) & (1 << 8 * size) - 1:
                return f"a program was given {word:#x} as word {n} of the arguments, not {wanted:#x}"
    return ""


def _itself(machine: RealMachine, function: Traced) -> str:
    """The sentence on a function that a hook calls itself, "" if it does not."""
    return f"the hook's own code calls {function.name}()" if machine.entered > 1 else ""


def row(m: Measured) -> dict[str, Any]:
    """A measurement as plain data.

    components: counts by component.
    frame_bytes, frame_bytes_written: size of the trampolines' frame, and how much of it they write.
    stack_bytes: how deep the call goes.
    return_mispredicts: see estimate.returnstack, without the callbacks' own, which have no thunks where a kernel's have.
    symbols: instructions, loads and stores of each of the kernel's functions and trampolines that ran, and of generated code.
    notes: what is not as in a booted kernel, for this hook.
    """
    entry: dict[str, Any] = {"hook": m.hook.name, "status": m.status}
    if m.run is None:
        return {**entry, "reason": m.reason}
    if m.hook.notes:
        entry["notes"] = m.hook.notes
    counts, replayed = m.run.counts, returnstack.replay(m.run)
    missed = [m.run.component_of(int(m.run.recording.pc[miss.step])) for miss in replayed.where if miss.step is not None]
    theirs = {m.run.symbol_of(pc) for pc in m.run.instructions if m.run.component_of(pc) in ("trampoline", "core")}
    return {
        **entry,
        "components": {c: counts.by_component[c].as_dict() for c in COMPONENTS},
        "frame_bytes": m.run.frame.frame,
        "frame_bytes_written": m.run.frame.written,
        "stack_bytes": m.run.frame.deepest,
        "return_mispredicts": {"own": len(missed) - missed.count("callback"), "outer": replayed.outer},
        "symbols": {name: [c.instructions, c.loads, c.stores] for name, c in sorted(counts.by_symbol.items()) if name in theirs},
    }
