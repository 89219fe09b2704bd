"""The structure that a provider passes, found by running it: calls are hooked, and it is read as its consumer begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from ...base.arguments import whole, wholes
from ...base.errors import TramplabError
from ...emulate.machine import Machine
from ...emulate.memory.memory import Area
from ...emulate.traps import MODULES
from ...estimate.returnstack import pushes
from ...ftrace.ops import Registered
from ...lab.kernel import Kernel
from ...lab.view import Function
from . import fields, state
from .classify import Sample, Slot, classify
from .fields import Layouts
from .providers import ENTRY, Provider, require
from .registers import register_of

#: Functions that are called by turns, so that no place in the text is the same in all samples.
FUNCTIONS = ("three_args", "four_args")
SEEDS = POISONS = (0, 1)
#: How far apart the stack pointers of two seeds are, in bytes, and how many there are.
_APART, _PLACES = 0x140, 16
#: Set aside by the calling convention, for what the lab does not have: shadow call stacks, and data near a pointer.
_IDLE = {"arm64": ("x18",), "riscv64": ("gp",)}
#: Words that are no register's and no address. Of two poisons the second turns each bit of the first around, so that nobody who
#: looks at one bit alone takes them for the same.
_MASK = (1 << 64) - 1
#: The largest seed and poison: a value with it in its upper half is still a word.
_LAST = (1 << 30) - 1


@dataclass(frozen=True)
class Frame:
    """The structure that one provider of one kernel passes.

    struct: its name.
    size: its bytes.
    slots: by name, in order.
    """

    provider: str
    kernel: str
    isa: str
    struct: str
    size: int
    slots: Mapping[str, Slot]


@dataclass(frozen=True)
class Seen:
    """One hooked call at its consumer's first instruction.

    address: of the structure.
    data: its bytes.
    stack: the CPU's whole stack, from its lowest byte on.
    truth: register, or "pc" -> its value where the provider took over: at the function's first byte, at a breakpoint in it, or
        after its return. pc is where the thread continues, and at a breakpoint where the CPU then is.
    handed: register -> its value where the consumer begins.
    """

    address: int
    data: bytes
    stack: bytes
    truth: Mapping[str, int]
    handed: Mapping[str, int]


def frame(kernel: Kernel, provider: Provider, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS) -> Frame:
    """What each slot holds, by samples of each seed with each poison, two of each at least. Raises TramplabError where the kernel
    has no such provider."""
    samples = watched(kernel, provider, seeds, poisons)
    handed = {at: (s.address, s.data, s.truth) for at, s in samples.items()}
    return classified(kernel.image, kernel.machine.stack, str(kernel), provider.name, provider.struct, handed)


def classified(
    image: Layouts,
    stack: Area,
    kernel: str,
    name: str,
    struct: str,
    found: Mapping[tuple[int, int], tuple[int, bytes, Mapping[str, int]]],
) -> Frame:
    """What each slot of a structure holds, however and on whatever kernel it was made.

    image: how the kernel's structs are laid out.
    stack: the CPU's stack.
    kernel, name: names of the kernel and the provider, for the reader.
    struct: "pt_regs" or "ftrace_regs".
    found: (seed, poison) -> where the structure was, its bytes, and the truth, see Seen.
    """
    isa = image.isa
    places = fields.places(image, struct)
    samples = []
    for (seed, poison), (address, data, truth) in found.items():
        values = {p.name: p.of(data) for p in places}
        on_stack = stack.address <= address < stack.end
        outside = {p.name for p in places if on_stack and address + p.offset >= truth[isa.sp]}
        samples.append(Sample(seed, poison, values, truth, {p.name: p.size for p in places}, frozenset(outside)))
    slots = classify(samples, {p.name: register_of(isa, p.name) for p in places})
    struct = fields.PT_REGS if struct == fields.FTRACE_REGS and fields.embeds(image) else struct
    return Frame(name, kernel, isa.name, struct, image.struct(struct).size, slots)


def watched(
    kernel: Kernel, provider: Provider, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS
) -> dict[tuple[int, int], Seen]:
    """(seed, poison) -> the structure that was passed then. The functions are hooked for this and free again afterwards."""
    require(provider, kernel)
    seeds, poisons = numbers(seeds, poisons)
    with kernel.attached(None, provider.request(FUNCTIONS)) as (ops,):
        return {(seed, poison): called(kernel, provider, ops, seed, poison) for seed in seeds for poison in poisons}


def watched_in_turn(
    kernel: Kernel, provider: Provider, seeds: Sequence[int] = SEEDS, poisons: Sequence[int] = POISONS
) -> dict[tuple[int, int], Seen]:
    """What watched() gives, of a provider whose request is for one function: each is hooked by itself, when its seed is due."""
    require(provider, kernel)
    seeds, poisons = numbers(seeds, poisons)
    found = {}
    for seed in seeds:
        with kernel.attached(None, provider.request((of_seed(seed),))) as (ops,):
            found.update({(seed, poison): called(kernel, provider, ops, seed, poison) for poison in poisons})
    return found


def numbers(seeds: Sequence[int], poisons: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """These numbers, of which values can be drawn; raises TramplabError for others."""
    return wholes(seeds, "seeds", 0, _LAST), wholes(poisons, "poisons", 0, _LAST)


def of_seed(seed: int) -> str:
    """The function that is called for a seed."""
    return FUNCTIONS[seed % len(FUNCTIONS)]


def called(kernel: Kernel, provider: Provider, ops: Registered, seed: int, poison: int) -> Seen:
    """One hooked call, with values of its own in all registers that a caller may choose, and below the stack pointer."""
    function = kernel.function(of_seed(seed))
    start, arguments = registers(kernel.machine, seed) | idle(kernel, seed), [seed * 16 + n for n in range(1, 5)]
    return seen(kernel, provider, ops, function, seed, poison, lambda: kernel.call(function, *arguments, registers=start))


def seen(
    kernel: Kernel, provider: Provider, ops: Registered, function: Function, seed: int, poison: int, call: Callable[[], object]
) -> Seen:
    """The structure that is passed in a call of this function, which call() makes, itself or through others. ops: what hooks it.
    Raises TramplabError if none is passed."""
    between = Between(
        _where(kernel, provider, ops, function),
        goes_on(kernel.machine, provider, function),
        kernel.image.address(provider.consumer),
        kernel.isa.args[provider.argument],
        kernel.image.struct(provider.struct).size,
        function.address if provider.at_return else None,
    )
    taken = handed(kernel.machine, between, seed, poison, call)
    if taken is None:
        raise TramplabError(f"{provider.name} of {kernel} did not hand anything to {provider.consumer}.")
    return taken


@dataclass(frozen=True)
class Between:
    """The addresses between which one call is watched.

    entry_pc: first instruction of the provider.
    resume_pc: where the thread continues after it, None at a breakpoint.
    consumer: first instruction of the function that gets the structure.
    register: the register with the structure's address at that moment.
    size: of the structure, in bytes.
    entered: the hooked function's first byte, where the thread continues at the return address of the call.
    """

    entry_pc: int
    resume_pc: int | None
    consumer: int
    register: str
    size: int
    entered: int | None = None


def handed(machine: Machine, between: Between, seed: int, poison: int, call: Callable[[], object]) -> Seen | None:
    """The structure that a call passes to the consumer; None where the consumer was not reached after the provider.

    seed: selects the flags.
    poison: selects the words below the provider's stack pointer.
    call: makes the call, with the registers that it is to have.
    """
    state.choose(machine, seed)
    isa = machine.isa
    way_back = [between.resume_pc]
    taken: list[dict[str, int]] = []
    passed: list[Seen] = []

    def entered() -> None:
        way_back[0] = machine.register(isa.link) if isa.link else machine.read_u64(machine.register(isa.sp))

    def takes_over() -> None:
        if taken:
            return
        truth = state.now(machine)
        fill(machine, truth[isa.sp], poison)
        truth["pc"] = truth["pc"] + MODULES[isa.name].BEHIND if way_back[0] is None else way_back[0]
        taken.append(truth)

    def begins() -> None:
        if taken and not passed:
            address = machine.register(between.register)
            stack = machine.read(machine.stack.address, machine.stack.size)
            passed.append(Seen(address, machine.read(address, between.size), stack, taken[0], state.now(machine)))

    with ExitStack() as watches:
        places = [(between.entry_pc, takes_over), (between.consumer, begins)]
        for at, what in [(between.entered, entered), *places] if between.entered is not None else places:
            watches.enter_context(machine.watching(at, what))
        call()
    return passed[0] if passed else None


def goes_on(machine: Machine, provider: Provider, function: Function) -> int | None:
    """The address at which a thread goes on when a provider is done with a call of a function; None at a breakpoint, whose own it
    is."""
    if provider.at_return:
        return machine.return_to
    return _behind_call(machine, function) if provider.takes_over == ENTRY else None


def _where(kernel: Kernel, provider: Provider, ops: Registered, function: Function) -> int:
    """The address at which a provider takes over."""
    if provider.at_return:
        return kernel.image.address(provider.takes_over)
    if provider.takes_over == ENTRY:
        return function.address
    offset = kernel.image.struct("kprobe").fields["addr"].offset
    probed = [kernel.machine.read_u64(probe + offset) for probe in ops.structs]
    return next(at for at in probed if function.address <= at < function.address + function.size)


def _behind_call(machine: Machine, function: Function) -> int:
    """The return address of the call that stands at a patch site."""
    at = function.site.ip
    while at < function.site.body:
        instruction = machine.instruction_at(at)
        at += instruction.size
        if pushes(machine.isa, instruction):
            return at
    raise TramplabError(f"the site of {function.name} calls no function.")


def fill(machine: Machine, end: int, poison: int) -> None:
    """The stack of the CPU below an address, with words that belong to this poison, another one at each place."""
    area, poison = machine.stack, whole(poison, "poison", 0)
    count = (end - area.address) // 8
    words = np.random.default_rng(poison // 2).integers(1 << 63, dtype=np.uint64, size=area.size // 8)[:count]
    machine.write(area.address, (words ^ np.uint64(_MASK * (poison % 2))).astype("<u8").tobytes())


def registers(machine: Machine, seed: int) -> dict[str, int]:
    """A value for each register that a caller may choose, drawn from a seed, and a stack pointer."""
    isa, seed = machine.isa, whole(seed, "seed", 0)
    free = [r for r in isa.registers if r not in (*isa.fixed, isa.sp, isa.link)]
    drawn = np.random.default_rng(seed).integers(1 << 40, 1 << 62, len(free))
    return {**dict(zip(free, map(int, drawn), strict=True)), isa.sp: machine.stack_top - 0x200 - seed % _PLACES * _APART}


def idle(kernel: Kernel, seed: int) -> dict[str, int]:
    """A value for each register that is set aside and that the lab's kernels do not use, so that it is not taken for a zero."""
    return dict.fromkeys(_IDLE.get(kernel.isa.name, ()), (seed + 1 << 32 | 0x1D1E) & _MASK)
