"""kprobes by a breakpoint: the kernel's own entry for its exception, its handlers, and a slot for what it replaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...emulate.decode import Instruction
from ...emulate.traps import Vector
from ...ftrace.meant import takes_kretprobe
from ...ftrace.releases import history
from ...lab.view import Function
from ...trampolines.kprobe import MODULES
from ..run.machine import RealMachine
from . import kretprobes, pools, programs, registered
from .handlers import ENTRY, Given, handler
from .hook import Absent, Expected, Hook, Observed, each, require
from .inplace import member, put

#: Instructions between a label and the one that returns from an exception, at most.
_FAR = 200
#: Offset from VBAR_EL1 of the entry for synchronous exceptions of EL1 with SP_EL1 (ARM DDI 0487, D1.3).
_SYNCHRONOUS = 0x200
NOTES = "the stack is where a task's would lie; nobody traces exceptions or waits to run"
#: A note on kretprobes: where they come in through ftrace, only functions without a patch site have one by a breakpoint.
_BEHIND = "where the patch site is the function's first instruction the kretprobe is behind it, as functions without a site have it"


def _leaving(machine: RealMachine, label: str, mnemonic: str) -> int:
    """The address of the first instruction of this kind behind a label."""
    require(machine, label)
    at = machine.address(label)
    for _ in range(_FAR):
        i = machine.machine.instruction_at(at)
        if i.mnemonic == mnemonic:
            return at
        at += i.size
    raise Absent(f"{machine.opened.version} has no {mnemonic} behind {label}")


def _x86_64(machine: RealMachine) -> Vector:
    require(machine, "asm_exc_int3", "native_irq_return_iret")
    return Vector(machine.address("asm_exc_int3"), machine.address("native_irq_return_iret"))


def _arm64(machine: RealMachine) -> Vector:
    if not machine.opened.has("kprobe_brk_handler"):
        raise Absent(f"{machine.opened.version} finds the handler of a BRK in a list that boot fills, which is not laid out here")
    return Vector(machine.address("vectors") + _SYNCHRONOUS, _leaving(machine, "ret_to_kernel", "eret"))


def _riscv64(machine: RealMachine) -> Vector:
    require(machine, "handle_exception")
    return Vector(machine.address("handle_exception"), _leaving(machine, "ret_from_exception", "sret"))


_VECTORS: dict[str, Callable[[RealMachine], Vector]] = {"x86_64": _x86_64, "arm64": _arm64, "riscv64": _riscv64}


def _vector(machine: RealMachine) -> Vector:
    """Where the kernel's own way from a breakpoint begins and ends. Raises Absent where that is not known."""
    return _VECTORS[machine.isa.name](machine)


def _instruction(machine: RealMachine, probe: int, i: Instruction) -> bytes:
    """Have the probed instruction done as arch_prepare_kprobe() would; gives what takes its place."""
    place = machine.code(lambda _: bytes(16), "kprobe_insn_slot")
    how = MODULES[machine.isa.name].stepped(i, place)
    machine.machine.poke(place, (how.copy + how.behind).ljust(16, b"\0"))
    at = member(machine, "kprobe", probe, "ainsn")
    structs = {"arch_specific_insn": at}  # arm64 has moved two members from the one inside to it
    if machine.opened.types.has("arch_specific_insn", "api"):
        structs["arch_probe_insn"] = member(machine, "arch_specific_insn", at, "api")
    simulate = machine.address(how.simulate.removeprefix("kprobe_")) if how.simulate else 0
    done = {"handler": simulate} if simulate else {"insn": place, "xol_insn": place, "size": i.size}
    back = 0 if simulate else i.address + i.size
    for struct, member_at in structs.items():
        put(machine, struct, member_at, {**done, "restore": back, "xol_restore": back})
    return how.breakpoint


def probed(machine: RealMachine, function: Function) -> int:
    """The address of the first instruction of a function that may have a breakpoint."""
    return MODULES[machine.isa.name].place(function.site)


def arm(machine: RealMachine, function: Function, probes: Mapping[int, int]) -> int:
    """Put kprobes (see registered) on the first instruction of a function that may have one; gives that instruction's address.
    Raises Absent."""
    vector = _vector(machine)
    ip = probed(machine, function)
    i = machine.machine.instruction_at(ip)
    opcode = int.from_bytes(i.data[: machine.opened.struct("kprobe").fields["opcode"].size], "little")
    instead = _instruction(machine, registered.register(machine, ip, probes, {"opcode": opcode}), i)
    machine.machine.take_traps(vector)
    machine.write(ip, instead)
    return ip


def _kprobe(machine: RealMachine, function: Function) -> Expected:
    kprobe = machine.opened.struct("kprobe")
    pre, block = handler(machine, ENTRY, Given(0, (kprobe.fields["addr"].offset,)), Given(0), 0)
    probe = machine.block(bytes(kprobe.size))
    ip = arm(machine, function, {probe: pre})
    return Expected((Observed(block, 1, ip, probe, "the kprobe's handler"),))


def _taken(machine: RealMachine) -> None:
    """Raise Absent where a function that ftrace can trace takes no kretprobe."""
    if not takes_kretprobe(machine.features):
        isa, version = machine.isa.name, machine.opened.version
        when = history(isa, "kretprobe_entry")
        raise Absent(f"{version} has no kretprobes at functions that ftrace can trace; {isa} has them {when}")


def untraced(machine: RealMachine, function: Function, count: int = 1, make: kretprobes.Make = kretprobes.make) -> Expected:
    """Attach kretprobes as a function without a patch site has them, whatever this kernel does with traced functions. Raises Absent
    where the kernel's exception is not known."""
    _vector(machine)
    probes, expected = kretprobes.several(machine, make, count)
    arm(machine, function, probes)
    return expected


def _kretprobe(machine: RealMachine, function: Function, count: int, make: kretprobes.Make) -> Expected:
    _vector(machine)  # a kernel without has none, whatever its kretprobes are like
    _taken(machine)
    return untraced(machine, function, count, make)


def _kprobe_event(machine: RealMachine, function: Function) -> Expected:
    require(machine, programs.DISPATCHERS[False])
    ip = probed(machine, function) + (1 if machine.isa.name == "x86_64" else 0)  # behind an INT3, at a BRK or EBREAK
    prog, seen = programs.program(machine, False, ip)
    arm(machine, function, {programs.event(machine, prog): machine.address(programs.DISPATCHERS[False])})
    return Expected((seen,))


_RETURN = f"{NOTES}; {pools.NOTES}; {_BEHIND}"
HOOKS = (
    Hook("kprobe-brk", _kprobe, NOTES),
    Hook("kprobe-brk-bpf", _kprobe_event, f"{NOTES}; {programs.NOTES}"),
    *each("kretprobe-brk", lambda m, f, n: _kretprobe(m, f, n, kretprobes.make), _RETURN),
    *each("kretprobe-brk-bpf", lambda m, f, n: _kretprobe(m, f, n, kretprobes.event), f"{_RETURN}; {programs.NOTES}"),
)
