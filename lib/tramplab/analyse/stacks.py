"""What a stack trace says of the frames that ought to be in it, at every instruction of a call: right, missing, doubled or wrong.

A frame is told by the return address that is truly in use, or for the traced function by its range. Frames of the hook's own may
stand between them. A function that has returned ought not to be there any more; if it is, because the way back into it lies in
a record, nothing false is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..emulate.walk import stepping
from ..errors import TramplabError
from ..lab.kernel import Kernel
from ..lab.reading.walk import require_same
from ..lab.run import Run
from ..lab.view import Function
from . import orc, recovery
from .call import RecordedCall
from .chain import Chain, Recover, as_it_is
from .unwind import RECORDS, live, stack, unwind

RIGHT, MISSING, DOUBLED, WRONG, RETURNED = STATES = ("right", "missing", "doubled", "wrong", "returned")
#: The ways to unwind: by frame pointers, by ORC's rules.
FP, ORC = "fp", "ORC"


@dataclass(frozen=True)
class Frame:
    """A frame that ought to be found: its addresses from `low` up to, not including, `high`. A return address counts as the byte
    before it, which is the call's."""

    low: int
    high: int

    @classmethod
    def returning_to(cls, address: int) -> Frame:
        """The frame of whoever goes on at an address."""
        return cls(address - 1, address + 1)


@dataclass(frozen=True)
class Seen:
    """Before one instruction: where that is, and what a chain says of the frames, innermost first: one of STATES each. error:
    why the chain ended before its end, or "". guessed: see chain.Chain. over: has the function returned? asleep: is it a call
    that the function makes, so that whoever sleeps in there is seen like this?"""

    pc: int
    states: tuple[str, ...]
    error: str
    guessed: bool
    over: bool
    asleep: bool


def found(chain: Chain, frames: Sequence[Frame], stand_in: int | None = None) -> tuple[str, ...]:
    """What a chain says of these frames, innermost first: one of RIGHT, MISSING, DOUBLED and WRONG each.

    Of frames that look the same the innermost are missing, or doubled. stand_in: an address that return addresses were replaced by;
    where it stands in a chain, the first frame behind the function that is not found before it has a wrong name. A frame that
    comes before one inside of it is wrong, too.
    """
    places = [chain.addresses[0], *(a - 1 for a in chain.addresses[1:])]
    out: list[str] = []
    firsts: list[int] = []
    last = -1
    for frame, alike in itertools.groupby(frames):
        wanted = len(list(alike))
        at = [n for n, place in enumerate(places) if frame.low <= place < frame.high]
        states = [RIGHT] * wanted
        if len(at) > wanted:
            states[0] = DOUBLED
        for n in range(wanted - len(at)):
            states[n] = MISSING
        if at and at[0] < last:
            states = [WRONG if state == RIGHT else state for state in states]
        last = at[-1] if at else last
        out += states
        firsts += [len(places)] * (wanted - len(at)) + at[:wanted]
    if stand_in in chain.addresses[1:]:
        hidden = chain.addresses.index(stand_in, 1)
        behind = [n for n in range(1, len(out)) if firsts[n] > hidden]
        for n in behind[:1]:
            out[n] = WRONG
    return tuple(out)


def watch(
    kernel: Kernel, caller: Function, function: Function, arguments: Sequence[int], recovered: bool = True
) -> tuple[Run, list[Seen]]:
    """Call `caller`, which calls `function` once, or is it: the run, and what a trace says before every instruction from the
    function's first up to its return to whoever called it.

    The frames are the function, its caller, that one's, and so on. The kernel is unwound by ORC's rules if it has them, else by
    frame pointers. recovered: what return hooks took the place of is looked up. Raises TramplabError if there is no such call,
    GuestFault, StepLimit.
    """
    run = kernel.call(caller, *arguments)
    call = RecordedCall.of(run)
    seen = list(itertools.islice(_stepped(kernel, caller, tuple(arguments), recovered), len(call.steps)))
    require_same(caller, [pc for pc, _ in seen], run)
    pcs, truth = [pc for pc, _ in seen], live(call)
    first = next((n for n, pc in enumerate(pcs) if pc == function.address), None)
    if first is None:
        raise TramplabError(f"{caller.name} did not call {function.name}; choose one of the functions it calls.")
    back = truth[first]
    last = next((n for n in range(first, len(pcs)) if pcs[n] == back[0]), len(pcs))
    own = Frame(function.address, function.address + function.size)
    inside = [n for n in range(first, last) if own.low <= pcs[n] < own.high]
    frames = (own, *map(Frame.returning_to, back if _has_record(kernel) else back[:-1]))
    stand_in, out = recovery.trampoline(kernel), []
    for n in range(first, last):
        chain = seen[n][1]
        states, over = found(chain, frames, stand_in), n > inside[-1]
        if over and states[0] != DOUBLED:
            states = (RETURNED, *states[1:])
        asleep = n in inside and n + 1 < last and pcs[n + 1] in _entries(kernel) and pcs[n + 1] != own.low
        out.append(Seen(pcs[n], states, chain.error, chain.guessed, over, asleep))
    return run, out


def way(kernel: Kernel) -> str:
    """How a kernel is unwound: FP or ORC."""
    return ORC if orc.of(kernel) else FP


def _has_record(kernel: Kernel) -> bool:
    """Has who calls from outside a frame record, as the lab's boot makes one for two ISAs? ORC's chains end there in any case."""
    place = kernel.passed((), {})[0][kernel.isa.fp] + RECORDS[kernel.isa.name].returns
    return way(kernel) == FP and kernel.machine.read_u64(place) == kernel.machine.return_to


def _entries(kernel: Kernel) -> set[int]:
    """The first bytes of traced functions."""
    return {kernel.function(name).address for name in kernel.functions}


def _stepped(kernel: Kernel, function: Function, arguments: tuple[int, ...], recovered: bool) -> Iterator[tuple[int, Chain]]:
    """The call, an instruction at a time: before each its address and the chain."""
    machine, isa, known = kernel.machine, kernel.isa, orc.of(kernel)
    for registers in stepping(machine, function.address, *kernel.passed(arguments, {})):
        pc = registers[isa.pc]
        if pc == machine.return_to:
            return
        read = stack(machine, registers[isa.sp])
        recover: Recover = (recovered and recovery.of(kernel)) or as_it_is
        if known:
            yield pc, known.unwind(registers, read, machine.is_text, recover)
        else:
            yield pc, unwind(isa, registers, read, machine.is_text, recover=recover)
