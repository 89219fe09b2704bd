"""A guest function, run on structures of registers in guest memory: which of their fields it reads and writes, as it is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...base.errors import GuestFault, TramplabError
from ...emulate.counting.counters import INSTRUCTION, STORE
from ...emulate.engine import PAGE
from ...emulate.machine import RECORD
from ...lab.kernel import Kernel
from .fields import WORD, touched

#: Words of room for what a function tells besides its result.
MORE = 4


@dataclass(frozen=True)
class Watched:
    """One watched run of a guest function.

    result: what it returned, None if it ended with a fault.
    more: the further words of its answer.
    read, wrote: kind of structure -> its fields, in the order of the first access.
    beyond: addresses of the words that it read elsewhere, without its own stack and what the image never changes.
    instructions, loads, stores: how many it took, its return among them.
    fault: how it ended, else "".
    """

    result: int | None
    more: tuple[int, ...]
    read: dict[str, tuple[str, ...]]
    wrote: dict[str, tuple[str, ...]]
    beyond: tuple[int, ...]
    instructions: int
    loads: int
    stores: int
    fault: str


def run(kernel: Kernel, function: str, structures: Mapping[str, int], *arguments: int) -> Watched:
    """Call a guest function; the addresses of these structures (kind -> address) are its first arguments, then come the others,
    and last a pointer to MORE words.

    It runs on the lowest page of the CPU's stack, so that frames of an earlier call, and what they hold, stay as they were. Raises
    TramplabError for a structure that lies there, and for a kernel that does not record.
    """
    machine, isa = kernel.machine, kernel.isa
    if machine.meter != RECORD:
        raise TramplabError("to see which fields are read, make the Kernel with meter='record'.")
    stack = range(machine.stack.address, machine.stack.address + PAGE)
    spans = {kind: (at, at + kernel.image.struct(kind).size) for kind, at in structures.items()}
    for kind, (start, end) in spans.items():
        if start < stack.stop and end > stack.start:
            raise TramplabError(f"the {kind} at {start:#x} lies in the lowest page of the stack, where its reader runs; move it.")
    machine.write(stack.start, bytes(WORD * MORE))
    given = dict(zip(isa.args, (*structures.values(), *arguments, stack.start), strict=False))
    fault, result, instructions = "", None, 0
    try:
        raw = machine.call(kernel.image.address(function), {**given, isa.sp: stack.stop - 2 * WORD})
    except GuestFault as e:
        fault = str(e)
    else:
        result, instructions = raw.registers[isa.returns[0]], raw.tally.instructions
    seen: dict[bool, dict[str, dict[str, None]]] = {store: {kind: {} for kind in spans} for store in (False, True)}
    beyond: dict[int, None] = {}
    tables = [range(s.address, s.address + s.size) for s in kernel.image.segments if not s.writable]
    accesses = [(address, size, what == STORE) for _, address, _, size, what in machine.events().tolist() if what != INSTRUCTION]
    for address, size, is_store in accesses:
        inside = [kind for kind, (start, end) in spans.items() if start <= address < end]
        for kind in inside:
            seen[is_store][kind] |= dict.fromkeys(touched(kernel.image, kind, address - spans[kind][0], size))
        if not inside and not is_store and not any(address in area for area in (stack, *tables)):
            beyond[address] = None
    more = tuple(machine.read_u64(stack.start + WORD * n) for n in range(MORE))
    read, wrote = ({kind: tuple(names) for kind, names in seen[store].items()} for store in (False, True))
    stores = sum(is_store for *_, is_store in accesses)
    return Watched(result, more, read, wrote, tuple(beyond), instructions, len(accesses) - stores, stores, fault)
