"""Races of patching replayed on a booted kernel with two CPUs: the order of a schedule that `tramplab explore` finds, forced by
breakpoints.

CPU 1 calls a traced function for ever. It is held before one instruction, where it takes interrupts and goes no further, until
CPU 0 has changed who traces the function; then it is let go on. CPU 0 says by system calls how far it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..base.arguments import of_name
from ..base.errors import TramplabError
from ..vmlinux.run.machine import RealMachine
from . import plan
from .probes import TRACING

#: What comes of a replay: a callback that is passed another's ops, one that is passed its own, or CPU 0 waits for the held thread.
Came = Literal["apart", "together", "waits"]
#: The system call that CPU 1 makes, and those with which CPU 0 says that it begins to change something, and that it has done it.
CALLED, BEGINS, HAS = "getpgid", "getsid", "getpriority"
#: The instructions before which CPU 1 is held: what takes the function to call when the ops has been loaded, a call that is patched
#: or a load of what the ops has; or the second instruction of the function's patch site.
FUNCTION, SITE = "function", "site"
_LOADS = {"arm64": r"ldr x\d+, \[x2\]", "riscv64": r"ld \w+, 0\(a2\)"}  # of what the ops has first
_CALL = r"call|blr?|(c\.)?jalr"
_FILTER = f"write {TRACING}/set_ftrace_filter"
_STACK = "/proc/sys/kernel/stack_tracer_enabled"
#: Tracers of the function, and the function tracer of another one, which CPU 0 calls when all is done.
_STACK_ON = (f"write {TRACING}/stack_trace_filter {{body}}", f"write {_STACK} 1")
_STACK_OFF = f"write {_STACK} 0"
_FUNCTION_ON = (f"{_FILTER} {{body}}", f"write {TRACING}/current_tracer function")
_ELSEWHERE = (f"{_FILTER} {{other}}", f"write {TRACING}/current_tracer function")
#: The tracer that takes the function tracer's place waits for the thread that is held, so CPU 0 waits for no more than that the ops
#: has left the function.
_FUNCTION_OFF = f"beside write {TRACING}/current_tracer nop"
_GONE = f"gone {TRACING}/enabled_functions {{body}} "


@dataclass(frozen=True)
class Order:
    """What CPU 0 does while CPU 1 is held, in words, and its steps before that and then."""

    does: str
    before: tuple[str, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Replay:
    """A race replayed.

    scheme: its name in `tramplab explore`.
    site: the sites that a kernel has which patches so, as the feature of this name has them.
    expected: what comes of it.
    held: where CPU 1 is held, FUNCTION or SITE.
    """

    scheme: str
    site: str
    order: Order
    expected: Came
    held: str = FUNCTION


_COMES = Order("turns the function tracer off and the stack tracer on", _FUNCTION_ON, (_FUNCTION_OFF, _GONE, *_STACK_ON))
_MOVES = Order(
    "turns the stack tracer off and has the function tracer trace the function",
    (*_STACK_ON, *_ELSEWHERE),
    (_STACK_OFF, _FUNCTION_ON[0]),
)
_FUNCTION_GOES = Order(
    "turns the function tracer off and leaves the stack tracer on",
    (*_FUNCTION_ON, *_STACK_ON),
    (_FUNCTION_OFF, f"{_GONE}(2)"),
)
_STACK_GOES = Order(
    "turns the stack tracer off and leaves the function tracer on", (*_STACK_ON, *_FUNCTION_ON), (_STACK_OFF,)
)
REPLAYS = (
    Replay("arm64-common", "mov-bl", _COMES, "apart"),
    Replay("arm64-common", "mov-bl", _STACK_GOES, "apart"),
    Replay("arm64-call-ops", "literal-mov-bl", _MOVES, "together"),
    Replay("arm64-call-ops", "literal-mov-bl", _STACK_GOES, "together"),
    Replay("x86_64-common", "nop5", _FUNCTION_GOES, "apart"),
    Replay("x86_64-common", "nop5", _STACK_GOES, "apart"),
    Replay("riscv64-call-ops", "literal-auipc-jalr", _MOVES, "together"),
    Replay("riscv64-call-ops", "literal-auipc-jalr", _STACK_GOES, "together"),
    Replay("riscv64-pair", "detour8", _STACK_GOES, "waits", SITE),
)


@dataclass(frozen=True)
class Held:
    """The instruction before which CPU 1 is held, its place as the nearest symbol has it, and where it comes out of the call that
    follows."""

    address: int
    place: str
    after: int


def get(name: str) -> list[Replay]:
    """The replays of a scheme; raises TramplabError with near matches."""
    return of_name("replay", name, {replay.scheme: [r for r in REPLAYS if r.scheme == replay.scheme] for replay in REPLAYS})


def fitting(machine: RealMachine) -> list[Replay]:
    """The replays for a kernel that patches its sites as this one."""
    return [replay for replay in REPLAYS if replay.site == machine.features["site"]]


def steps(machine: RealMachine, replay: Replay) -> str:
    """The plan of a replay. What the kernel says is printed while the process writes nothing."""
    prefix = plan.PREFIX[machine.isa.name]
    lines = ["say version", "read /proc/version", "write /proc/sys/kernel/printk 7", *replay.order.before]
    lines += ["cpu 1", plan.system_call(machine, CALLED), "caller", "cpu 0"]
    lines += [plan.system_call(machine, BEGINS), "calls 1", *replay.order.steps, plan.system_call(machine, HAS), "calls 1"]
    lines += ["write /proc/sys/kernel/printk 1"]
    return "\n".join(lines).format(body=prefix + CALLED, other=prefix + HAS) + "\n"


def held(machine: RealMachine, replay: Replay) -> Held:
    """Where a replay holds CPU 1; raises TramplabError for an image that does not patch its sites so."""
    opened, at = machine.opened, machine.machine.instruction_at
    if machine.features["site"] != replay.site:
        others = dict.fromkeys(r.scheme for r in fitting(machine))
        raise TramplabError(
            f"{opened.version} of {machine.isa.name} does not patch its sites as {replay.scheme} does: boot another kernel, or "
            f"give {' or '.join(others) or 'no replay'}."
        )
    if replay.held == SITE:
        first = machine.function(plan.PREFIX[machine.isa.name] + CALLED).site.ip
        address = first + at(first).size
    elif opened.has("ftrace_call"):
        address = opened.address("ftrace_call")
    else:
        address = _found(machine, opened.address("ftrace_caller"), "text", _LOADS[machine.isa.name])
    call = _found(machine, address, "mnemonic", _CALL)
    near = max((s for s in opened.image.symbols.values() if s.address <= address), key=lambda s: s.address)
    offset = f"+{address - near.address:#x}" if address > near.address else ""
    return Held(address, near.name + offset, call + at(call).size)


def _found(machine: RealMachine, address: int, what: str, pattern: str) -> int:
    """The address of the first instruction from here on whose text or mnemonic is of this form; raises TramplabError where none of
    the next few is."""
    for _ in range(60):
        instruction = machine.machine.instruction_at(address)
        if re.fullmatch(pattern, getattr(instruction, what)):
            return instruction.address
        address += instruction.size
    raise TramplabError(f"{machine.opened.version} calls callbacks by no instruction like {pattern!r}: boot another kernel.")
