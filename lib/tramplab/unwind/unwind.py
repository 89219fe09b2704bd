"""Unwinders, tried at every instruction boundary of a call: what an interrupt there would make of the stack.

The plain one knows the program counter and follows frame records from the frame pointer on. A function that has not made
its record yet, or makes none, is seen through its program counter only, and its caller is lost. The second one also
takes the return address from where a call leaves it, in the link register or at the top of the stack, where the program
counter is a function's first instruction. It does not know when that address moves: at the second instruction it is
the plain one. A third one, by the rules of the kernel's ORC unwinder, knows that for every instruction; see `orc`.

None ever reads outside the stack. A chain that leaves it, goes down or round, or returns to where no code is ends with
an error in its result; none is raised.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..base.errors import TramplabError
from ..emulate.machine import Machine
from ..emulate.walk import stepping
from ..estimate.returnstack import events
from ..isa import Isa
from ..lab.call import RecordedCall
from ..lab.kernel import Kernel
from ..lab.reading.walk import require_same
from ..lab.run import Run
from ..lab.view import Function
from . import orc
from .chain import CROOKED, DOWN, NO_CODE, NO_NODE, OUTSIDE, WORD, Chain, IsText, Read, Recover, as_it_is


@dataclass(frozen=True)
class FrameRecord:
    """A frame record, and how a hooked return is found by it.

    previous, returns: the caller's frame pointer and the return address, in bytes from the address in the frame pointer.
    by_place: a return hook identifies the frame by the place of the return address, and not by the caller's frame pointer.
    graph_by_place: so does the function graph tracer.
    asks_first: a program counter at the return trampoline's first byte is taken for a return address, too.
    """

    previous: int
    returns: int
    by_place: bool = False
    graph_by_place: bool = False
    asks_first: bool = False


#: x86-64: what PUSH RBP finds below the return address. arm64: AAPCS64, the frame pointer. riscv64: the psABI's frame
#: pointer convention; s0 holds the stack pointer as it was at the function's entry, the record is below. How hooked returns are
#: found: unwind_recover_ret_addr() of x86, kunwind_recover_return_address() of arm64; of riscv64 walk_stackframe() looks for the
#: graph tracer's, by the word of the record, and for no others.
RECORDS = {
    "x86_64": FrameRecord(0, 8, by_place=True, graph_by_place=True),
    "arm64": FrameRecord(0, 8, asks_first=True),
    "riscv64": FrameRecord(-16, -8, graph_by_place=True),
}


@dataclass(frozen=True)
class Boundary:
    """The moment before one instruction: what the plain unwinder finds, what the second one finds, the return addresses that
    are truly in use, innermost first, and what ORC's rules find, None in a kernel without ORC data."""

    pc: int
    plain: Chain
    at_entry: Chain
    truth: tuple[int, ...]
    by_orc: Chain | None = None


#: Which of the two expected frames a chain contains: both adjacent, one, neither, or both out of order.
BOTH, FUNCTION, CALLER, NEITHER, APART = FOUND = ("both", "function only", "caller only", "neither", "apart")


@dataclass(frozen=True)
class ChainVerdict:
    """A chain held against the truth. found: the expected frames in it, one of FOUND. wrong: what is wrong in it, or ""."""

    found: str
    wrong: str


def unwind(
    isa: Isa, registers: dict[str, int], read: Read, is_text: IsText, entry: bool = False, recover: Recover = as_it_is
) -> Chain:
    """Follow frame records from these registers.

    read: address -> word, None outside the stack.
    entry: is the program counter a function's first instruction, so that its return address is where a call leaves it?
    recover: gives the return address that a hook replaced.
    """
    record, pc = RECORDS[isa.name], registers[isa.pc]
    by_place = record.graph_by_place if getattr(recover, "graph", False) else record.by_place
    first = recover(pc, registers[isa.fp]) if record.asks_first else pc
    if first is None:
        return Chain((pc,), NO_NODE)
    addresses = [first]
    if entry:
        back = registers[isa.link] if isa.link else read(registers[isa.sp])
        if back is None:
            return Chain(tuple(addresses), OUTSIDE)
        addresses.append(back)
    pointer, lowest = registers[isa.fp], registers[isa.sp]
    while pointer:
        base = pointer + min(record.previous, record.returns)
        previous, back = read(pointer + record.previous), read(pointer + record.returns)
        if previous is None or back is None:
            return Chain(tuple(addresses), OUTSIDE)
        if pointer % WORD:
            return Chain(tuple(addresses), CROOKED)
        if base < lowest:
            return Chain(tuple(addresses), DOWN)
        if not back:  # the outermost record
            break
        if not is_text(back):
            return Chain(tuple(addresses), NO_CODE)
        back = recover(back, pointer + record.returns if by_place else previous)
        if back is None:
            return Chain(tuple(addresses), NO_NODE)
        addresses.append(back)
        pointer, lowest = previous, base + 2 * WORD
    return Chain(tuple(addresses))


def watch(kernel: Kernel, caller: Function | str, function: Function | str, *arguments: int) -> tuple[Run, list[Boundary]]:
    """Call `caller`, which calls `function` once: the run, and every instruction boundary of that inner call, from the
    function's first instruction to its return. Raises TramplabError if it makes no such call, GuestFault, StepLimit."""
    caller, function = kernel.function(caller), kernel.function(function)
    run = kernel.call(caller, *arguments)
    call = RecordedCall.of(run)
    seen = list(itertools.islice(_stepped(kernel, caller, arguments), len(call.steps) + 1))
    require_same(caller, [pc for pc, *_ in seen], run)
    truth = live(call)
    first = next((n for n, s in enumerate(call.steps) if s.pc == function.address), None)
    if first is None:
        raise TramplabError(f"{caller.name} did not call {function.name}; choose one of the functions it calls.")
    behind = truth[first][0]
    last = next(n for n in range(first, len(seen) + 1) if n == len(seen) or seen[n][0] == behind)
    return run, [
        Boundary(pc, plain, at_entry, truth[n], by_orc)
        for n, (pc, plain, at_entry, by_orc) in enumerate(seen[:last])
        if n >= first
    ]


def live(call: RecordedCall) -> list[tuple[int, ...]]:
    """Before each step, the return addresses in use, innermost first, told by calls and returns and not by the stack.

    The outermost stands there twice: the lab's caller has a record that says it is called from where it returns to. A
    return to an address that no call has left is a jump. A return right behind an instruction that makes the link
    register's value is a call: so arm64's BPF trampoline calls the function.
    """
    happened = {e.step: e for e in events(call)}
    stack, boundaries = [call.returns_to] * 2, []
    for step in range(len(call.steps)):
        boundaries.append(tuple(reversed(stack)))
        if step not in happened:
            continue
        e = happened[step]
        if e.link.pops and _made_by_hand(call, step):
            stack.append(e.behind)
            continue
        if e.link.pops and e.went in stack:
            while stack.pop() != e.went:
                pass
        if e.link.pushes:
            stack.append(e.behind)
    return boundaries


def _made_by_hand(call: RecordedCall, step: int) -> bool:
    """Does the instruction before a step put an address of the code into the link register?"""
    before = call.instructions[call.steps[step - 1].pc] if step else None
    return before is not None and before.mnemonic == "adr" and before.operands.split(",")[0] == call.isa.link


def judge(
    chain: Chain, truth: Iterable[int], function: str, caller: str, name_of: Callable[[int], str | None]
) -> ChainVerdict:
    """Compare a chain with the truth. It may leave out return addresses; one that is not in use, or stands in the wrong
    order, is wrong, and so is a chain that ends with an error."""
    names = [(name_of(address) or "").split("+")[0] for address in chain.addresses]
    left = iter(truth)
    stray = next((a for a in chain.addresses[1:] if a not in left), None)
    wrong = chain.error or (f"{name_of(stray) or hex(stray)} is no caller" if stray is not None else "")
    if (function, caller) in itertools.pairwise(names):
        return ChainVerdict(BOTH, wrong)
    has = {(True, True): APART, (True, False): FUNCTION, (False, True): CALLER, (False, False): NEITHER}
    return ChainVerdict(has[function in names, caller in names], wrong)


_Step = tuple[int, Chain, Chain, Chain | None]


def _stepped(kernel: Kernel, function: Function, arguments: tuple[int, ...]) -> Iterator[_Step]:
    """The call, an instruction at a time: before each its address and what the unwinders find."""
    machine, isa, name_of, unwinder = kernel.machine, kernel.isa, kernel.names(), orc.of(kernel)
    for registers in stepping(machine, function.address, *kernel.passed(arguments, {})):
        pc = registers[isa.pc]
        if pc == machine.return_to:
            return
        read = stack(machine, registers[isa.sp])
        plain = unwind(isa, registers, read, machine.is_text)
        first = "+" not in (name_of(pc) or "+")
        at_entry = unwind(isa, registers, read, machine.is_text, entry=True) if first else plain
        yield pc, plain, at_entry, unwinder.unwind(registers, read, machine.is_text) if unwinder else None


def stack(machine: Machine, sp: int) -> Callable[[int], int | None]:
    """Reads words of the stack as it is now, and nothing else; below the stack pointer, where no chain goes on, all are 0."""
    low, top = machine.stack.address, machine.stack.end
    start = sp if low <= sp <= top else low
    held, word = machine.read(start, top - start), struct.Struct("<Q").unpack_from

    def read(address: int) -> int | None:
        if start <= address <= top - WORD:
            return word(held, address - start)[0]
        return 0 if low <= address < start else None

    return read
