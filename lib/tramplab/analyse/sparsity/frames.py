"""What a provider hands on, found by running it: calls are hooked, and the structure is looked at as its consumer begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from ...emulate.machine import Machine
from ...emulate.traps import MODULES
from ...errors import TramplabError
from ...ftrace.ops import Registered
from ...lab.kernel import Kernel
from ...lab.view import Function
from ..returnstack import pushes
from . import fields, state
from .classify import Sample, Slot, classify
from .providers import ENTRY, Provider, require
from .registers import register_of

#: Functions that are called by turns, so that no place in the text is the same in all samples.
FUNCTIONS = ("three_args", "four_args")
SEEDS = POISONS = (0, 1)
_MASK = (1 << 64) - 1
#: How far apart the stack pointers of two seeds are, in bytes, and how many there are.
_APART, _PLACES = 0x140, 16
#: Words that are no register's and no address. Of two poisons the second turns each bit of the first around, so that nobody who
#: looks at one bit alone takes them for the same.
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Frame:
    """What one provider of one kernel hands on. struct: the name of the structure. size: its bytes. slots: by name, in order."""

    provider: str
    kernel: str
    isa: str
    struct: str
    size: int
    slots: Mapping[str, Slot]


@dataclass(frozen=True)
class Seen:
    """One hooked call at its consumer's first instruction. address: of the structure. data: its bytes. stack: the CPU's whole, from
    its lowest byte on. truth: register, or "pc" -> what it was where the provider took over: at the function's first byte, a
    breakpoint in it, or behind its return; pc: where the thread is to go on, and at a breakpoint where the CPU then is. handed: the
    same where the consumer begins."""

    address: int
    data: bytes
    stack: bytes
    truth: Mapping[str, int]
    handed: Mapping[str, int]


def frame(kernel: Kernel, provider: Provider, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS) -> Frame:
    """What each slot holds, by samples of each seed with each poison, two of each at least. Raises TramplabError where the kernel
    has no such provider."""
    found = watched(kernel, provider, seeds, poisons)
    return classified(kernel, provider.name, provider.struct, {at: (s.address, s.data, s.truth) for at, s in found.items()})


def classified(
    kernel: Kernel, name: str, struct: str, found: Mapping[tuple[int, int], tuple[int, bytes, Mapping[str, int]]]
) -> Frame:
    """What each slot of a structure holds, however it was made. struct: "pt_regs" or "ftrace_regs". found: (seed, poison) -> where
    the structure was, its bytes, and the truth, see Seen."""
    image, stack = kernel.image, kernel.machine.stack
    places = fields.places(image, struct)
    whole = [p.name for p in places] == [p.name for p in fields.places(image, fields.PT_REGS)]
    samples = []
    for (seed, poison), (address, data, truth) in found.items():
        values = {p.name: int.from_bytes(data[p.offset : p.offset + p.size], "little") for p in places}
        on_stack = stack.address <= address < stack.end
        outside = {p.name for p in places if on_stack and address + p.offset >= truth[kernel.isa.sp]}
        samples.append(Sample(seed, poison, values, truth, {p.name: p.size for p in places}, frozenset(outside)))
    slots = classify(samples, {p.name: register_of(kernel.isa, p.name) for p in places})
    struct = fields.PT_REGS if whole else struct
    return Frame(name, str(kernel), kernel.isa.name, struct, image.struct(struct).size, slots)


def watched(
    kernel: Kernel, provider: Provider, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS
) -> dict[tuple[int, int], Seen]:
    """(seed, poison) -> what was handed on then. The functions are hooked for this and free again behind it."""
    require(provider, kernel)
    with kernel.attached(None, provider.request(FUNCTIONS)) as (ops,):
        return {(seed, poison): _call(kernel, provider, ops, seed, poison) for seed in seeds for poison in poisons}


def _call(kernel: Kernel, provider: Provider, ops: Registered, seed: int, poison: int) -> Seen:
    """One hooked call, with values of its own in all registers that a caller may choose, and below the stack pointer."""
    function = kernel.function(FUNCTIONS[seed % len(FUNCTIONS)])
    start = registers(kernel.machine, seed)
    state.choose(kernel.machine, seed)
    arguments = [seed * 16 + n for n in range(1, 5)]
    return seen(kernel, provider, ops, function, poison, lambda: kernel.call(function, *arguments, registers=start))


def seen(
    kernel: Kernel, provider: Provider, ops: Registered, function: Function, poison: int, call: Callable[[], object]
) -> Seen:
    """What is handed on in a call that call() makes, of this function by itself or through others. ops: what hooks it. Raises
    TramplabError if nothing is."""
    machine, isa = kernel.machine, kernel.isa
    size = kernel.image.struct(provider.struct).size
    taken: list[dict[str, int]] = []
    found: list[Seen] = []

    def takes_over() -> None:
        if taken:
            return
        truth = state.now(machine)
        if provider.at_return:
            truth["pc"] = called_from[0]
        elif provider.takes_over == ENTRY:
            truth["pc"] = _behind_call(kernel, function)
        else:
            truth["pc"] += MODULES[isa.name].BEHIND
        fill(machine, truth[isa.sp], poison)
        taken.append(truth)

    def entered() -> None:
        called_from[:] = [machine.register(isa.link) if isa.link else machine.read_u64(machine.register(isa.sp))]

    def begins() -> None:
        if taken and not found:
            address = machine.register(isa.args[provider.argument])
            stack = machine.read(machine.stack.address, machine.stack.size)
            found.append(Seen(address, machine.read(address, size), stack, taken[0], state.now(machine)))

    called_from: list[int] = []
    with ExitStack() as watches:
        for at, what in (
            (function.address, entered),
            (_where(kernel, provider, ops, function), takes_over),
            (kernel.image.address(provider.consumer), begins),
        ):
            watches.enter_context(machine.watching(at, what))
        call()
    if not found:
        raise TramplabError(f"{provider.name} of {kernel} did not hand anything to {provider.consumer}.")
    return found[0]


def _where(kernel: Kernel, provider: Provider, ops: Registered, function: Function) -> int:
    """The address at which a provider takes over."""
    if provider.at_return:
        return kernel.image.address(provider.takes_over)
    if provider.takes_over == ENTRY:
        return function.address
    offset = kernel.image.struct("kprobe").fields["addr"].offset
    probed = [kernel.machine.read_u64(probe + offset) for probe in ops.structs]
    return next(at for at in probed if function.address <= at < function.address + function.size)


def _behind_call(kernel: Kernel, function: Function) -> int:
    """Where the call that stands at a patch site comes back to."""
    at = function.site.ip
    while at < function.site.body:
        instruction = kernel.machine.instruction_at(at)
        at += instruction.size
        if pushes(kernel.isa, instruction):
            return at
    raise TramplabError(f"the site of {function.name} calls nobody.")


def fill(machine: Machine, end: int, poison: int) -> None:
    """The stack of the CPU below an address, with words that belong to this poison, another one at each place."""
    area = machine.stack
    count = (end - area.address) // 8
    words = np.random.default_rng(poison // 2).integers(1 << 63, dtype=np.uint64, size=area.size // 8)[:count]
    machine.write(area.address, (words ^ np.uint64(_MASK * (poison % 2))).astype("<u8").tobytes())


def registers(machine: Machine, seed: int) -> dict[str, int]:
    """A value for each register that a caller may choose, drawn from a seed, and a stack pointer."""
    isa = machine.isa
    free = [r for r in isa.registers if r not in (*isa.fixed, isa.sp, isa.link)]
    drawn = np.random.default_rng(seed).integers(1 << 40, 1 << 62, len(free))
    return {**dict(zip(free, map(int, drawn), strict=True)), isa.sp: machine.stack_top - 0x200 - seed % _PLACES * _APART}
