"""kretprobes: a struct kretprobe with what the calls take that it follows, and the handler for a function's return.

On x86-64 and riscv64 a call takes a node of a return hook; on arm64 an instance that the kretprobe has itself, in a ring that
outlives it (struct kretprobe_holder). Its own kprobe, at the function's beginning, is put there by who asks for it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..run import layout
from ..run.machine import RealMachine
from . import inplace, pools, programs, rethooks
from .handlers import RETURN, Given, handler
from .hook import Absent, Expected, Observed, require
from .inplace import put

#: Makes one whose handler is given this way back; gives what make() does.
Make = Callable[[RealMachine, int], tuple[int, Observed]]
#: The pre-handler of a kretprobe's kprobe.
PRE = "pre_handler_kretprobe"
_INSTANCE, _HOLDER = "kretprobe_instance", "kretprobe_holder"
#: How many calls are followed at a time on one CPU if nobody says (kernel/kprobes.c).
_CALLS = 10


def several(machine: RealMachine, make: Make, count: int) -> tuple[dict[int, int], Expected]:
    """So many struct kretprobes whose kprobes are not yet on any function, each with the handler of its kprobe, from that on that
    runs first at the entry; and what a call must show. Raises Absent."""
    require(machine, PRE)
    back = machine.machine.return_to
    found = machine.address("arch_rethook_trampoline") if _hooked(machine) else back  # the other way writes the way back into all
    made = [make(machine, to) for to in (back, *[found] * (count - 1))]
    return {probe: machine.address(PRE) for probe, _ in made}, Expected(tuple(seen for _, seen in made))


def make(machine: RealMachine, to: int) -> tuple[int, Observed]:
    """A struct kretprobe and what a call must show of it: its handler is given this way back, in what the call has taken, and the
    function's value, in the registers."""
    back = machine.opened.struct("rethook_node" if _hooked(machine) else _INSTANCE).fields["ret_addr"].offset
    value = machine.opened.struct("pt_regs").fields[programs.VALUE[machine.isa.name]].offset
    left, block = handler(machine, RETURN, Given(0, (back,)), Given(1, (value,)), 0)
    probe = machine.block(bytes(machine.opened.struct("kretprobe").size))
    _fill(machine, probe, left)
    return probe, Observed(block, 1, to, None, "the kretprobe's handler", value=True)


def event(machine: RealMachine, _: int) -> tuple[int, Observed]:
    """A perf event's struct kretprobe with a BPF program, and what a call must show of it: the program is given the caller and the
    function's value, in the registers."""
    left = programs.DISPATCHERS[True]
    require(machine, left)
    prog, seen = programs.program(machine, True, machine.machine.return_to)
    probe = programs.event(machine, prog)
    _fill(machine, probe, machine.address(left))
    return probe, seen


def _hooked(machine: RealMachine) -> bool:
    return machine.opened.has("kretprobe_rethook_handler")


def _fill(machine: RealMachine, probe: int, left: int) -> None:
    """A struct kretprobe that is zero: its handler at the return, and what calls take of it."""
    put(machine, "kretprobe", probe, {"handler": left, "maxactive": _CALLS})
    (_hook if _hooked(machine) else _hold)(machine, probe)


def _hook(machine: RealMachine, probe: int) -> None:
    hook = rethooks.make(machine, probe, machine.address("kretprobe_rethook_handler"), _INSTANCE, _CALLS)
    put(machine, "kretprobe", probe, {"rh": hook})


def _hold(machine: RealMachine, probe: int) -> None:
    if not machine.opened.types.has(_HOLDER, "pool"):
        raise Absent(f"{machine.opened.version} keeps a kretprobe's instances on a list of its own, which is not laid out here")
    holder = machine.block(layout.fields(machine, _HOLDER, {"rp": probe}))
    nodes = pools.Nodes(_INSTANCE, _INSTANCE, "rph", holder, _CALLS, "kretprobe_fini_pool")
    pools.ring(machine, inplace.member(machine, _HOLDER, holder, "pool"), nodes)
    put(machine, "kretprobe", probe, {"rph": holder})
