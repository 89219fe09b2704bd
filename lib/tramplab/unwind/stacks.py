"""The frames that a stack trace should contain, at every instruction of a call: right, missing, doubled or wrong.

A frame is told by the return address that is truly in use, or for the traced function by its range. Frames of the hook's own may
stand between them. A function that has returned should not be there any more; if it is, because the way back into it lies in
a record, nothing false is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..base.errors import TramplabError
from ..emulate.walk import stepping
from ..ftrace import releases
from ..lab.call import RecordedCall
from ..lab.kernel import Kernel
from ..lab.reading.walk import require_same
from ..lab.run import Run
from ..lab.view import Function
from . import orc, recovery
from .chain import DOWN, OUTSIDE, WORD, Chain, Read, Recover, as_it_is
from .unwind import RECORDS, live, stack, unwind

RIGHT, MISSING, DOUBLED, WRONG, RETURNED = STATES = ("right", "missing", "doubled", "wrong", "returned")
#: The ways to unwind: by frame pointers, by ORC's rules.
FP, ORC = "fp", "ORC"


@dataclass(frozen=True)
class Frame:
    """A frame that should be found: its addresses from `low` up to, not including, `high`. A return address counts as the byte
    before it, which is the call's."""

    low: int
    high: int

    @classmethod
    def returning_to(cls, address: int) -> Frame:
        """The frame of the function that continues at an address."""
        return cls(address - 1, address + 1)


@dataclass(frozen=True)
class Seen:
    """What a chain says of the frames before one instruction.

    pc: that instruction.
    states: of the frames, innermost first, one of STATES each.
    error: why the chain ended before its end, or "".
    guessed: see chain.Chain.
    over: has the function returned?
    asleep: is it a call that the function makes, so that a task that sleeps in there is seen like this?
    """

    pc: int
    states: tuple[str, ...]
    error: str
    guessed: bool
    over: bool
    asleep: bool


def found(
    chain: Chain, frames: Sequence[Frame], stand_ins: Collection[int] = (), exact: Collection[int] = (0,)
) -> tuple[str, ...]:
    """The state of each of these frames in a chain, innermost first: RIGHT, MISSING, DOUBLED or WRONG.

    Of frames that look the same the innermost are missing, or doubled. stand_ins: addresses that return addresses were replaced by;
    for each that stands in a chain, the first frame behind the function that is not found before it has a wrong name. A frame that
    comes before one inside of it is wrong, too. exact: which of the chain's addresses are no return addresses: the program counter,
    and that of what an exception interrupted.
    """
    places = [a - (n not in exact) for n, a in enumerate(chain.addresses)]
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
    named: set[int] = set()
    for hidden in (at for at, address in enumerate(chain.addresses) if at and address in stand_ins):
        behind = (n for n in range(1, len(out)) if firsts[n] > hidden and n not in named)
        named |= set(itertools.islice(behind, 1))
    return tuple(WRONG if n in named else state for n, state in enumerate(out))


def watch(
    kernel: Kernel, caller: Function | str, function: Function | str, arguments: Sequence[int], recovered: bool = True
) -> tuple[Run, list[Seen]]:
    """Call `caller`, which calls `function` once, or is it: the run, and what a trace says before every instruction from the
    function's first up to its return to the caller.

    The frames are the function, its caller, that one's, and so on. The kernel is unwound by ORC's rules if it has them, else by
    frame pointers. recovered: are the return addresses that hooks replaced looked up? Raises TramplabError if there is no such
    call, GuestFault, StepLimit.
    """
    run, seen = watch_both(kernel, caller, function, arguments, (recovered,))
    return run, seen[recovered]


def watch_both(
    kernel: Kernel, caller: Function | str, function: Function | str, arguments: Sequence[int], recovered: Collection[bool]
) -> tuple[Run, dict[bool, list[Seen]]]:
    """What watch() gives, of one call: the run, and for each value of recovered what a trace says."""
    caller, function = kernel.function(caller), kernel.function(function)
    run = kernel.call(caller, *arguments)
    call = RecordedCall.of(run)
    stepped = list(itertools.islice(_stepped(kernel, caller, tuple(arguments), recovered), len(call.steps)))
    pcs, truth = [pc for pc, _ in stepped], live(call)
    require_same(caller, pcs, run)
    first = next((n for n, pc in enumerate(pcs) if pc == function.address), None)
    if first is None:
        raise TramplabError(f"{caller.name} did not call {function.name}; choose one of the functions it calls.")
    back = truth[first]
    last = next((n for n in range(first, len(pcs)) if pcs[n] == back[0]), len(pcs))
    traced = Frame(function.address, function.address + function.size)
    inside = [n for n in range(first, last) if traced.low <= pcs[n] < traced.high]
    called = _entries(kernel) - {traced.low}
    sleeping = {n for n in inside if n + 1 < last and pcs[n + 1] in called}
    frames = (traced, *map(Frame.returning_to, back if _has_record(kernel) else back[:-1]))
    stand_ins, entry = recovery.trampolines(kernel), _exception_entry(kernel)
    all_seen: dict[bool, list[Seen]] = {looked_up: [] for looked_up in recovered}
    memo: dict[object, tuple[str, ...]] = {}  # from one instruction to the next it is mostly the same
    for n in range(first, last):
        for looked_up, chain in stepped[n][1].items():
            pc = chain.addresses[0]
            alike = pc in entry, tuple([frame.low <= pc < frame.high for frame in frames]), chain.addresses[1:]
            if alike not in memo:
                exact = {0, *(at for at, before in enumerate(chain.addresses, 1) if before in entry)}
                memo[alike] = found(chain, frames, stand_ins, exact)
            states, over = memo[alike], n > inside[-1]
            if over and states[0] != DOUBLED:
                states = (RETURNED, *states[1:])
            all_seen[looked_up].append(Seen(pcs[n], states, chain.error, chain.guessed, over, n in sleeping))
    return run, all_seen


def way(kernel: Kernel) -> str:
    """The way in which a kernel is unwound: FP or ORC."""
    return ORC if orc.of(kernel) else FP


#: ISAs whose exceptions make no frame record -> where their pt_regs has the program counter, the frame pointer and the stack
#: pointer of what was interrupted.
INTERRUPTED = {"riscv64": ("epc", "s0", "sp")}
#: ISAs whose exceptions make one -> since when the program counter is not read from there, but from the pt_regs: that a handler has
#: changed it counts. arm64: c2c6b27b5aa1; the link register is not used (32ed1205682e).
RECORDED = {"arm64": "v6.13"}


class _UpToExceptions:
    """A Recover that ends a chain at a return to where exceptions enter, and keeps which address that is and where it lies."""

    graph = True  # so it is told where

    def __init__(self, recover: Recover, read: Read, entry: range) -> None:
        self._recover, self._read, self._entry = recover, read, entry
        self.returns, self.place = 0, 0

    def __call__(self, address: int, place: int) -> int | None:
        if address in self._entry:
            self.returns, self.place = address, place
            return None
        frame = place if getattr(self._recover, "graph", False) else self._read(place - WORD)
        return None if frame is None else self._recover(address, frame)


def follow(kernel: Kernel, registers: dict[str, int], read: Read, recover: Recover = as_it_is) -> Chain:
    """Follow frame records from these registers as unwind() does, and where exceptions make none, from the registers on of what
    was interrupted, which lie where the frame of what an exception calls begins: so walk_stackframe()."""
    isa, is_text = kernel.isa, kernel.machine.is_text
    if isa.name not in INTERRUPTED:
        return unwind(isa, registers, _as_it_is_now(kernel, read), is_text, recover=recover)
    ends = _UpToExceptions(recover, read, _exception_entry(kernel))
    chain = unwind(isa, registers, read, is_text, recover=ends)
    if not ends.returns:
        return chain
    addresses, at, fields = (*chain.addresses, ends.returns), ends.place + WORD, kernel.image.struct("pt_regs").fields
    pc, fp, sp = (read(at + fields[name].offset) for name in INTERRUPTED[isa.name])
    if pc is None or fp is None or sp is None:
        return Chain(addresses, OUTSIDE)
    if sp <= at:
        return Chain(addresses, DOWN)
    rest = follow(kernel, {isa.pc: pc, isa.fp: fp, isa.sp: sp}, read, recover)
    return Chain((*addresses, *rest.addresses), rest.error)


def _as_it_is_now(kernel: Kernel, read: Read) -> Read:
    """Reads an exception's record with the program counter that its pt_regs has now, where the kernel's unwinder does so."""
    since = RECORDED.get(kernel.isa.name)
    if since is None or releases.parse(kernel.features.release) < releases.parse(since):
        return read
    at, fields = kernel.machine.read_u64(kernel.image.address("lab_trap_regs")), kernel.image.struct("pt_regs").fields
    pc, kept = at + fields["pc"].offset, at + fields["stackframe"].offset + WORD
    return lambda address: read(pc if address == kept else address)


def _exception_entry(kernel: Kernel) -> range:
    """The addresses of the code that exceptions enter by."""
    entry = kernel.image.symbols["lab_trap_entry"]
    return range(entry.address, entry.address + entry.size)


def _has_record(kernel: Kernel) -> bool:
    """Has the lab's caller a frame record, which boot makes for two ISAs? ORC's chains end there in any case."""
    place = kernel.passed((), {})[0][kernel.isa.fp] + RECORDS[kernel.isa.name].returns
    return way(kernel) == FP and kernel.machine.read_u64(place) == kernel.machine.return_to


def _entries(kernel: Kernel) -> set[int]:
    """The first bytes of traced functions."""
    return {kernel.function(name).address for name in kernel.functions}


def _stepped(
    kernel: Kernel, function: Function, arguments: tuple[int, ...], recovered: Collection[bool]
) -> Iterator[tuple[int, dict[bool, Chain]]]:
    """The call, an instruction at a time: before each its address and the chain, with return hooks looked up or not."""
    machine, isa, unwinder = kernel.machine, kernel.isa, orc.of(kernel)
    hooked = recovery.asking(kernel)
    for registers in stepping(machine, function.address, *kernel.passed(arguments, {})):
        pc = registers[isa.pc]
        if pc == machine.return_to:
            return
        read = stack(machine, registers[isa.sp])
        chains = {}
        for looked_up in recovered:
            recover: Recover = hooked() if looked_up and hooked else as_it_is
            if unwinder:
                chains[looked_up] = unwinder.unwind(registers, read, machine.is_text, recover)
            else:
                chains[looked_up] = follow(kernel, registers, read, recover)
        yield pc, chains
