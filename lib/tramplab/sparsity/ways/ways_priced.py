"""The price of a way: what it adds to the link that makes nothing, in instructions, memory traffic, bytes and fields."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.arguments import of_name
from ...base.errors import TramplabError
from ...emulate.counting.counters import STORE
from ...ftrace.ops import Request
from ...lab.kernel import Kernel
from ...lab.run import Run
from ...trampolines.fprobe.multi import program
from ...trampolines.fprobe.request import Fprobe
from ...trampolines.plain import Ops
from ..structures.fields import PT_REGS, touched
from .ways import CPU, READ, Way

#: The function that is called, with what.
FUNCTION, ARGUMENTS = "two_args", (7, 9)
#: A link whose program reads a pt_regs.
_PLAIN = "stack_plain"
#: The function that copies registers where the compiler does not inline the copy.
_COPY = "memcpy"
#: Kind of trampoline -> the compared save sets of an ops, the larger first. No kernel has the second pair.
SAVED = {"regs": ("regs", "args"), "own": ("own-regs", "own-args")}


@dataclass(frozen=True)
class Price:
    """What a way adds to a call.

    stack: bytes by which the call goes deeper.
    memory: bytes of each CPU that are kept for it.
    wrote: fields of the pt_regs that are written, in order.
    """

    instructions: int
    loads: int
    stores: int
    stack: int
    memory: int = 0
    wrote: tuple[str, ...] = ()


def call(kernel: Kernel, link: str = "", exits: bool = False) -> Run:
    """A warm call of FUNCTION with a link on it, "" for no link. exits: is the link at the return, too?"""
    return _warm(kernel, *([Fprobe(link=link, exit=exits)] if link else []))


def _warm(kernel: Kernel, *requests: Request) -> Run:
    """The second of two calls of FUNCTION with these on it."""
    function = kernel.function(FUNCTION)
    with kernel.attached(function, *requests):
        kernel.call(function, *ARGUMENTS)
        return kernel.call(function, *ARGUMENTS)


def saving(kernel: Kernel, saved: str) -> tuple[Run, Run]:
    """Calls with an ops whose trampoline saves all registers, and with one that saves the arguments. saved: a key of SAVED."""
    larger, smaller = (_warm(kernel, Ops(save=save)) for save in of_name("save set", saved, SAVED))
    return larger, smaller


def price(with_it: Run, without: Run) -> Price:
    """The price by two calls, with the way and without it."""
    added = with_it.counts.total - without.counts.total
    return Price(added.instructions, added.loads, added.stores, with_it.frame.deepest - without.frame.deepest)


def rewritten(kernel: Kernel) -> Price:
    """The price of a program that reads its arguments from what the trampoline saved, over one that reads them from a pt_regs."""
    counts = [call(kernel, link).counts.by_symbol[program(link)] for link in (READ, _PLAIN)]
    added = counts[0] - counts[1]
    return Price(added.instructions, added.loads, added.stores, 0)


def of_way(kernel: Kernel, way: Way, made: Run, read: Run) -> Price:
    """The price of a way. made, read: a call with its link, and one with ways.READ."""
    priced = price(made, read)
    size = kernel.image.struct(PT_REGS).size if way.place == CPU else 0
    return Price(priced.instructions, priced.loads, priced.stores, priced.stack, size, wrote(kernel, way.link))


def wrote(kernel: Kernel, link: str) -> tuple[str, ...]:
    """Fields of the pt_regs for a link's program that the link's handler writes, itself or by memcpy(), in the order of the first
    store; none for a link whose program takes another structure. Stores of the trampoline and of the program do not count."""
    if program(link) != program(""):
        return ()
    machine, function, at = kernel.machine, kernel.function(FUNCTION), []
    with (
        kernel.attached(function, Fprobe(link=link)),
        machine.watching(kernel.image.address(program(link)), lambda: at.append(machine.register(kernel.isa.args[0]))),
    ):
        run = kernel.call(function, *ARGUMENTS)
    if not at:
        raise TramplabError(f"{link!r} is no link of {kernel} that has a handler.")
    fields: dict[str, None] = {}
    size = kernel.image.struct(PT_REGS).size
    for pc, address, _, width, what in machine.events().tolist():
        made = run.component_of(pc) == "callback" or run.symbol_of(pc) == _COPY
        if what == STORE and address < at[0] + size and at[0] < address + width and made:
            fields |= dict.fromkeys(touched(kernel.image, PT_REGS, address - at[0], width))
    return tuple(fields)
