"""What a provider hands on, found by running it: calls are hooked, and the structure is looked at as its consumer begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...emulate.machine import Machine
from ...errors import TramplabError
from ...ftrace.ops import Registered
from ...lab.kernel import Kernel
from ...lab.view import Function
from . import state
from .classify import Sample, Slot, classify
from .providers import ENTRY, Provider, require
from .slots import layout, register_of, slots

#: Functions that are called by turns, so that no place in the text is the same in all samples.
FUNCTIONS = ("three_args", "four_args")
SEEDS = POISONS = (0, 1)
_MASK = (1 << 64) - 1
#: How far apart the stack pointers of two seeds are, in bytes, and how many there are.
_APART, _PLACES = 0x140, 16
#: No register's value and no address is near what the stack is filled with; both halves of a word tell poisons apart.
_POISON, _OTHER = 0x7E57_0000_7E57_0000, 0x0010_0000_0010_0000


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
    """One hooked call at its consumer's first instruction. address: of the structure. data: its bytes. truth: register, or "pc" ->
    what it was where the provider took over: at the function's first byte, with the patch site for pc, or behind its return."""

    address: int
    data: bytes
    truth: Mapping[str, int]


def frame(kernel: Kernel, provider: Provider, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS) -> Frame:
    """What each slot holds, by samples of each seed with each poison, two of each at least. Raises TramplabError where the kernel
    has no such provider."""
    struct = layout(kernel.image, provider.struct)
    places = slots(struct)
    samples = []
    for (seed, poison), seen in watched(kernel, provider, seeds, poisons).items():
        values = {n: int.from_bytes(seen.data[at : at + size], "little") for n, (at, size) in places.items()}
        on_stack = kernel.machine.stack_top > seen.address >= kernel.machine.stack.address
        outside = {n for n, (at, _) in places.items() if on_stack and seen.address + at >= seen.truth[kernel.isa.sp]}
        sizes = {n: size for n, (_, size) in places.items()}
        samples.append(Sample(seed, poison, values, seen.truth, sizes, frozenset(outside)))
    found = classify(samples, {name: register_of(kernel.isa, name) for name in places})
    return Frame(provider.name, str(kernel), kernel.isa.name, struct.name, struct.size, found)


def watched(
    kernel: Kernel, provider: Provider, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS
) -> dict[tuple[int, int], Seen]:
    """(seed, poison) -> what was handed on then. The functions are hooked for this and free again behind it."""
    require(provider, kernel)
    with kernel.attached(None, provider.request(FUNCTIONS)) as (ops,):
        return {(seed, poison): _call(kernel, provider, ops, seed, poison) for seed in seeds for poison in poisons}


def _call(kernel: Kernel, provider: Provider, ops: Registered, seed: int, poison: int) -> Seen:
    """One hooked call, with values of its own in all registers that a caller may choose, and below the stack pointer."""
    machine, isa = kernel.machine, kernel.isa
    function = kernel.function(FUNCTIONS[seed % len(FUNCTIONS)])
    size = layout(kernel.image, provider.struct).size
    start = registers(machine, seed)
    state.set_flags(machine, seed)
    taken: list[dict[str, int]] = []
    seen: list[Seen] = []

    def takes_over() -> None:
        if taken:
            return
        truth = state.now(machine)
        fill(machine, truth[isa.sp], poison)
        if provider.at_return:
            truth["pc"] = machine.return_to
        elif provider.takes_over == ENTRY:
            truth["pc"] = function.site.ip
        taken.append(truth)

    def begins() -> None:
        if taken and not seen:
            address = machine.register(isa.args[provider.argument])
            seen.append(Seen(address, machine.read(address, size), taken[0]))

    taken_at = _where(kernel, provider, ops, function)
    with machine.watching(taken_at, takes_over), machine.watching(kernel.image.address(provider.consumer), begins):
        kernel.call(function, *(seed * 16 + n for n in range(1, 5)), registers=start)
    if not seen:
        raise TramplabError(f"{provider.name} of {kernel} did not hand anything to {provider.consumer}.")
    return seen[0]


def _where(kernel: Kernel, provider: Provider, ops: Registered, function: Function) -> int:
    """The address at which a provider takes over."""
    if provider.at_return:
        return kernel.image.address(provider.takes_over)
    if provider.takes_over == ENTRY:
        return function.address
    offset = kernel.image.struct("kprobe").fields["addr"].offset
    probed = [kernel.machine.read_u64(probe + offset) for probe in ops.structs]
    return next(at for at in probed if function.address <= at < function.address + function.size)


def fill(machine: Machine, end: int, poison: int) -> None:
    """The stack of the CPU below an address, with words that belong to this poison, another one at each place."""
    area = machine.stack
    words = np.arange((end - area.address) // 8, dtype=np.uint64) + np.uint64(_POISON + poison * _OTHER & _MASK)
    machine.write(area.address, words.astype("<u8").tobytes())


def registers(machine: Machine, seed: int) -> dict[str, int]:
    """A value for each register that a caller may choose, drawn from a seed, and a stack pointer."""
    isa = machine.isa
    free = [r for r in isa.registers if r not in (*isa.fixed, isa.sp, isa.link)]
    drawn = np.random.default_rng(seed).integers(1 << 40, 1 << 62, len(free))
    return {**dict(zip(free, map(int, drawn), strict=True)), isa.sp: machine.stack_top - 0x200 - seed % _PLACES * _APART}
