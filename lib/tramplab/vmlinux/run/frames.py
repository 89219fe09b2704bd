"""The content of register structures on real kernels, found from samples as in the lab: sparsity/structures/frames.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...base.errors import TramplabError
from ...build.dwarf import Struct
from ...isa import Isa
from ...lab.view import Function
from ...sparsity.structures import fields, frames
from ...sparsity.structures.providers import ENTRY as AT_ENTRY
from ...sparsity.structures.providers import PROVIDERS, Provider
from ..hooks import HOOKS, breakpoints
from ..hooks.handlers import ENTRY, RETURN
from ..hooks.hook import Absent, require
from ..open.debuginfo.types import Types
from .machine import FUNCTION, RealMachine

#: Leaf functions of the kernel's own that are called by turns, so that no place in the text is the same in all samples.
FUNCTIONS = (FUNCTION, "bpf_fentry_test2")
#: The structure that an opaque struct ftrace_regs is cast to.
_ARCH = "__arch_ftrace_regs"


@dataclass(frozen=True)
class Way:
    """How a provider is made to run.

    attach: as a hook's.
    consumer: the function that gets the structure: own code, or the kernel's.
    argument: its number among that function's.
    """

    attach: Callable[[RealMachine, Function], object]
    consumer: str
    argument: int


@dataclass(frozen=True, eq=False)
class Structs:
    """The layouts of an image, under the lab's names. types: the image's own."""

    isa: Isa
    types: Types

    def struct(self, name: str) -> Struct:
        """The layout of a struct; raises TramplabError with near matches."""
        return self.types.struct(_ARCH if name == fields.FTRACE_REGS and self.types.has(_ARCH) else name)


@dataclass(frozen=True)
class ImageFrame:
    """The structure that one provider passes.

    consumer: the function that gets it.
    found: what each slot holds.
    places: where each slot is.
    """

    consumer: str
    found: frames.Frame
    places: tuple[fields.Place, ...]


def frame(
    machine: RealMachine, name: str, seeds: Sequence[int] = frames.SEEDS, poisons: Sequence[int] = frames.POISONS
) -> ImageFrame:
    """What a provider of the lab's list passes on a real kernel, by samples of each seed with each poison, two of each at least.
    Raises Absent, which says why, where this one has none."""
    provider, way = PROVIDERS[name], _WAYS[name](machine)
    structs = Structs(machine.isa, machine.opened.types)
    pairs = [(seed, poison) for seed in seeds for poison in poisons]
    handed = {pair: _call(machine, provider, way, structs, *pair) for pair in pairs}
    samples = {at: (s.address, s.data, s.truth) for at, s in handed.items()}
    found = frames.classified(structs, machine.machine.stack, str(machine), name, provider.struct, samples)
    return ImageFrame(way.consumer, found, fields.places(structs, provider.struct))


def _call(machine: RealMachine, provider: Provider, way: Way, structs: Structs, seed: int, poison: int) -> frames.Seen:
    """Make one hooked call; the hook is detached after it."""
    function = machine.function(FUNCTIONS[seed % len(FUNCTIONS)])
    try:
        way.attach(machine, function)
        between = frames.Between(
            _where(machine, provider, function),
            frames.goes_on(machine.machine, provider, function),
            next((made.address for made in machine.made if made.name == way.consumer), 0) or machine.address(way.consumer),
            machine.isa.args[way.argument],
            structs.struct(provider.struct).size,
        )
        start = frames.registers(machine.machine, seed)
        seen = frames.handed(machine.machine, between, seed, poison, lambda: machine.call(function, start))
    finally:
        machine.reset()
    if seen is None:
        raise TramplabError(f"{provider.name} of {machine} did not hand anything to {way.consumer}.")
    return seen


def _where(machine: RealMachine, provider: Provider, function: Function) -> int:
    """The address at which a provider takes over."""
    if provider.at_return:
        return machine.address(provider.takes_over)
    return function.address if provider.takes_over == AT_ENTRY else breakpoints.probed(machine, function)


def _hook(name: str, consumer: str, argument: int) -> Callable[[RealMachine], Way]:
    return lambda machine: Way(HOOKS[name].attach, consumer, argument)


def _regs(machine: RealMachine) -> Way:
    require(machine, "ftrace_regs_caller")
    return Way(HOOKS["ops-regs"].attach, "callback", 3)


def _kprobe(machine: RealMachine) -> Way:
    require(machine, "kprobe_ftrace_handler")
    return Way(HOOKS["kprobe"].attach, ENTRY, 1)


def _rethook(machine: RealMachine) -> Way:
    """The way to an fprobe as in the lab, or else to a kretprobe, whose own probe is a breakpoint except on x86-64."""
    require(machine, "arch_rethook_trampoline")
    if machine.opened.types.has("fprobe", "ops"):
        return Way(HOOKS["fprobe-exit"].attach, RETURN, 3)
    served = machine.opened.has("kprobe_ftrace_handler")
    return Way(HOOKS["kretprobe"].attach if served else breakpoints.untraced, RETURN, 1)


def _own(machine: RealMachine) -> Way:
    """The way to a kretprobe with instances of its own."""
    require(machine, "__kretprobe_trampoline")
    return Way(HOOKS["kretprobe-brk"].attach, RETURN, 1)


def _return(machine: RealMachine) -> Way:
    """The way to an fprobe as in the lab; where no tracer gets the structure, to the C function that looks for one."""
    require(machine, "return_to_handler")
    if machine.opened.has("fprobe_return"):
        return Way(HOOKS["fprobe-exit"].attach, RETURN, 3)
    if machine.opened.types.has("fgraph_ret_regs") or not machine.opened.types.has(_ARCH):
        raise Absent(f"return_to_handler of {machine.opened.version} passes no struct ftrace_regs")
    return Way(HOOKS["graph"].attach, "ftrace_return_to_handler", 0)


#: Provider -> function that gives its way on a kernel, or raises Absent.
_WAYS: dict[str, Callable[[RealMachine], Way]] = {
    "ftrace_caller": _hook("ops", "callback", 3),
    "ftrace_regs_caller": _regs,
    "kprobe_ftrace_handler": _kprobe,
    "breakpoint": _hook("kprobe-brk", ENTRY, 1),
    "arch_rethook_trampoline": _rethook,
    "__kretprobe_trampoline": _own,
    "return_to_handler": _return,
}
