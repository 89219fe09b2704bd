"""Trampolines of one ops that differ in nothing but what they save; no kernel has them.

Each is made at run time for an ops that is alone on its functions. It knows its ops as a constant and calls the callback
itself, with (ip, parent_ip, ops, fregs) as every trampoline does. What it saves is one of SETS. It always saves what
makes its own C call possible: the way back into the function and to the function's caller, where these are in registers.
And it hands over a struct ftrace_regs in which the slots of what it saved are right and the others rubbish; where there is
a mark for that (x86-64's cs), it is set.

`ip` needs a word. To change only the instruction pointer, a callback has to be shown nothing but its slot. The function it
then goes on in takes the same arguments, though, and the callback is C and may use any register that carries one. So the
trampoline must keep every register that can carry an argument, or, where it knows the function, does (that set is `live`).

The trampolines lie in the room that shapes have, near the patch sites: since v6.16 a site of riscv64 calls nothing that is
further than 2 KiB from ftrace_caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from ...build.assemble import assemble
from ...emulate.image import Image
from ...errors import TramplabError
from ...ftrace.layout import Heap
from ...ftrace.ops import Registered
from ...ftrace.releases import Features, history
from ...ftrace.steps import Step, text
from ...isa import Isa
from ..arguments import live_registers
from ..shapes import ROOM
from . import arm64, riscv64, x86_64
from .plan import Plan

#: One module per ISA: ARGUMENTS, CLOBBERED, ARGS and REGS, names of registers; and the code.
_MODULES: dict[str, ModuleType] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}

#: Save set -> what it is.
SETS = {
    "live": "the registers that carry the function's arguments, known from its prototype",
    "clobbered": "every register that C may clobber",
    "ip": "every register that can carry an argument; shows ip, which may be changed",
    "ip+sp": "the same; shows ip, sp and the return address, which may be changed",
    "own-args": "what ftrace_caller saves for an ftrace_regs",
    "own-regs": "what ftrace_regs_caller saves, all general registers",
}


@dataclass(frozen=True)
class Code:
    """A trampoline in parts: assembly up to the load of the ops' address, and from behind the call on."""

    before: str
    after: str


def plan(image: Image, name: str, functions: tuple[str, ...]) -> Plan:
    """What a trampoline with this save set does for these functions; for `live`, what any of them takes."""
    own = _MODULES[image.isa.name]
    if name == "live":
        taken = {r for f in functions for r in live_registers(image.isa, image.prototypes[f])}
        return Plan(keeps=tuple(r for r in own.ARGUMENTS if r in taken))
    return {
        "clobbered": Plan(keeps=own.CLOBBERED),
        "ip": Plan(keeps=own.ARGUMENTS, ip=True),
        "ip+sp": Plan(keeps=own.ARGUMENTS, ip=True, sp=True, stack=True),
        "own-args": Plan(keeps=own.ARGS, ip=True, sp=True, whole=True),
        "own-regs": Plan(keeps=own.REGS, ip=True, sp=True, whole=True, full=True),
    }[name]


def code(image: Image, features: Features, name: str, functions: tuple[str, ...]) -> Code:
    """The assembly of a trampoline, in parts; nothing in it depends on where it lies."""
    own, wanted = _MODULES[image.isa.name], plan(image, name, functions)
    return Code(own.before(image, features, wanted), own.after(image, features, wanted))


def linked(isa: Isa, parts: Code, address: int, ops: int, func: int) -> bytes:
    """The bytes of a trampoline that lies at an address, passes these ops on and calls this function."""
    own = _MODULES[isa.name]
    out = assemble(isa, parts.before)
    out += own.load_ops(address + len(out), ops)
    out += own.CALL.encode(address + len(out), func)
    return out + assemble(isa, parts.after)


class SavingTrampolines:
    """Makes and frees them; remembers which lie where."""

    def __init__(self, image: Image, features: Features) -> None:
        self.image, self.features = image, features
        room = image.symbol(ROOM)
        self._heap = Heap(
            room.address, room.size, "the room for trampolines of given save sets is full: detach one first."
        )

    def check(self, name: str, registered: list[Registered]) -> None:
        """Raise TramplabError if the release has no ftrace_regs to hand over, or if something else has the room."""
        if not self.features["args"]:
            when = history(self.features.isa, "args")
            raise TramplabError(
                f"the save set {name} hands over an ftrace_regs, which {self.features} has not; {self.features.isa} has it "
                f"{when}."
            )
        if any(o.direct == self.image.address(ROOM) for o in registered):
            raise TramplabError("a shape is attached and has the room for other trampolines: detach it first.")

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make an ops' trampoline; raises TramplabError if there is no room left."""
        parts = code(self.image, self.features, ops.request.save, ops.functions)
        func = self.image.address("ftrace_ops_assist_func") if ops.assisted else ops.func
        size = len(linked(self.image.isa, parts, self.image.address(ROOM), ops.address, func))
        ops.trampoline, ops.trampoline_size = self._heap.take(size), size
        whole = linked(self.image.isa, parts, ops.trampoline, ops.address, func)
        return [text(ops.trampoline, whole, f"a trampoline that saves {ops.request.save}, for this ops alone")]

    def free(self, ops: Registered) -> list[Step]:
        """Give the room back, empty again, once everybody has left it."""
        if not ops.trampoline_size:
            return []
        self._heap.give(ops.trampoline)
        return [text(ops.trampoline, bytes(ops.trampoline_size), "the room is empty again")]
