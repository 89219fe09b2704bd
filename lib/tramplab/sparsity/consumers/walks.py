"""The callers that a stack walk finds when it starts from the registers that a consumer was given."""

from __future__ import annotations

from dataclasses import dataclass

from ...lab.kernel import Kernel
from ...unwind.chain import Chain
from ...unwind.unwind import stack, unwind
from ..structures.frames import Seen, seen
from ..structures.views import View
from .consumers import STARTS, read
from .matrix import Place

#: The hooked function, and its caller.
FUNCTION, CALLER = "three_args", "calls_others"
_ARGUMENTS = (1, 2, 3)
#: Bytes of the stack that are left above, so that a structure lies on it wherever it ends.
_ABOVE = 0x400


@dataclass(frozen=True)
class Walk:
    """One walk.

    start: how the callchain began, one of STARTS.
    wanted: the functions on the stack, innermost first, up to the last traced one.
    found: those of them that it found.
    strange: functions that it found between them.
    error: why it ended early, else "".
    """

    view: View
    start: str
    wanted: tuple[str, ...]
    found: tuple[str, ...]
    strange: tuple[str, ...]
    error: str


def walk(kernel: Kernel, view: View) -> Walk:
    """Hook a function that another one calls, and walk by frame records from where the structure's callchain starts."""
    hooked = kernel.function(FUNCTION)
    low = {kernel.isa.sp: kernel.machine.stack_top - _ABOVE}
    with kernel.attached(None, view.provider.request((FUNCTION,))) as (ops,):
        one = seen(kernel, view.provider, ops, hooked, 0, 0, lambda: kernel.call(CALLER, *_ARGUMENTS, registers=low))
        name_of = kernel.names()
        place = Place(kernel, view)
        reading = read(kernel, "callchain", view.kind, place.restored(one))
        start = STARTS[reading.answer or 0]
        chain = _chain(kernel, one, start, reading.start)
        names = [(name_of(address) or hex(address)).partition("+")[0] for address in chain.addresses]
    wanted = (CALLER,) if view.provider.at_return else (FUNCTION, CALLER)
    if start == "here":  # what is below the frame that the stack pointer tells is left out
        while names and names[0] not in wanted:
            del names[0]
    inside = names[: max((n + 1 for n, name in enumerate(names) if name in wanted), default=0)]
    found = tuple(name for name in wanted if name in inside)
    return Walk(view, start, wanted, found, tuple(name for name in inside if name not in wanted), chain.error)


def _chain(kernel: Kernel, one: Seen, start: str, told: tuple[int, ...]) -> Chain:
    """The chain of the plain unwinder: from the structure's registers, or from its consumer's own frame."""
    if start == STARTS[0]:
        return Chain(())
    isa, machine = kernel.isa, kernel.machine
    if start == "here":
        return unwind(isa, {**one.handed, isa.pc: one.handed["pc"]}, stack(machine, one.handed[isa.sp]), machine.is_text)
    ip, sp, fp = told
    registers = {isa.pc: ip, isa.fp: fp, isa.sp: sp}
    return unwind(isa, registers, stack(machine, sp), machine.is_text)
