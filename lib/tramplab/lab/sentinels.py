"""One hooked call with a value of its own in every register: what is stored, passed, restored and lost.

Nothing is declared. The call is stepped through; whenever it comes back from a callback, or from the core, into a
trampoline, every register that a callee may change is overwritten, and every slot of the stack that holds a register's value
gets another value that stands for the same register. So at the function's first own instruction a register that still
has its value was left alone, one with a slot's value was loaded from there, and any other is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..base.arguments import whole
from ..base.errors import TramplabError
from ..emulate.machine import RECORD
from ..emulate.walk import accesses, stepping
from ..ftrace.ops import Request
from ..isa import Isa
from ..trampolines.direct import Direct
from ..trampolines.plain import Ops
from .kernel import Kernel
from .measure import FUNCTIONS
from .run import Run
from .view import Function

RESTORED, KEPT, LOST = "restored", "kept", "lost"
_SENTINEL, _SLOT, _SPOILED = (n << 48 for n in (0x5EED, 0x5107, 0x6B6C))
_REGISTER = 1 << 16  # a register's values are this far apart
_CALLER = 32 * 8  # bytes above the stack pointer at a function's entry that are its caller's


@dataclass(frozen=True)
class Flags:
    """A register of condition flags: its name, and three values that it can hold."""

    name: str
    sentinel: int
    slot: int
    spoiled: int


#: riscv64 has none. Without x86-64's direction flag, which is clear at every call.
FLAGS = {"x86_64": Flags("eflags", 0x8D7, 0x8D6, 0x46), "arm64": Flags("nzcv", 0xA << 28, 0x6 << 28, 0x5 << 28)}


@dataclass
class Fate:
    """What happened to one register between the call and the function's own first instruction.

    slots: the places of the stack that trampolines stored it to, in bytes from the stack pointer at the function's first byte.
    handed: a callback can read it.
    by_hook: the site or a trampoline changed it, even if only for a time.
    at_body: "restored" (from a slot), "kept" or "lost".
    """

    register: str
    slots: list[int] = field(default_factory=list)
    handed: bool = False
    by_hook: bool = False
    at_body: str = KEPT


def play(kernel: Kernel, function: Function | str, requests: tuple[Request, ...], arguments: int) -> dict[str, Fate]:
    """Call a function that these requests are attached to; register -> its fate, for all but the stack pointer.

    arguments: how many integers the function takes. The registers of condition flags are among those of the result, by
    the names in FLAGS. Raises GuestFault, and TramplabError without the meter "record".
    """
    if kernel.machine.meter != RECORD:
        raise TramplabError("to follow registers through a call, make the Kernel with meter='record'.")
    call = _Play(kernel, kernel.function(function), requests, whole(arguments, "arguments", 0, len(FUNCTIONS) - 1))
    platform = {r: kernel.machine.register(r) for r in kernel.isa.fixed if r != kernel.isa.sp}
    try:
        call.step_through()
    finally:
        for r, value in platform.items():
            kernel.machine.set_register(r, value)
    return call.fates


class _Play:
    def __init__(self, kernel: Kernel, function: Function, requests: tuple[Request, ...], arguments: int) -> None:
        self.kernel, self.isa, self.machine = kernel, kernel.isa, kernel.machine
        self.function, self.requests, self.arguments = function, requests, arguments
        # a call that nobody meddles with tells what belongs to what
        self.run: Run = kernel.call(function, *range(1, arguments + 1))
        self.flags = FLAGS.get(self.isa.name)
        names = [r for r in self.isa.registers if r != self.isa.sp] + ([self.flags.name] if self.flags else [])
        self.numbers = {r: n for n, r in enumerate(names, 1)}
        self.fates = {r: Fate(r) for r in names}
        self.meant: dict[int, str] = {}  # a value -> the register that it stands for
        self.held: dict[int, str] = {}  # a place on the stack -> the register whose value it holds
        self.marked: set[int] = set()

    def _start(self) -> dict[str, int]:
        """A value for every register that the caller may choose; the others have one that is known."""
        free = [r for r in self.numbers if r not in (self.isa.link, "tp") and not self._is_flags(r)]
        start = {r: _SENTINEL + _REGISTER * self.numbers[r] for r in free}
        self.meant = {value: r for r, value in start.items()}
        for r in (self.isa.link, "tp"):
            if r in self.numbers:
                self.meant[self.machine.return_to if r == self.isa.link else self.machine.register(r)] = r
        if self.flags:
            self.machine.set_register(self.flags.name, self.flags.sentinel)
            self.meant[self.machine.register(self.flags.name)] = self.flags.name
        return start

    def _is_flags(self, register: str) -> bool:
        return self.flags is not None and register == self.flags.name

    def _states(self, start: dict[str, int]) -> Iterator[dict[str, int]]:
        for state in stepping(self.machine, self.function.address, start):
            yield {**state, self.flags.name: self.machine.register(self.flags.name)} if self.flags else state

    def step_through(self) -> None:
        states = self._states(self._start())
        before = next(states)
        self.top, body = before[self.isa.sp], False
        self.first = {r: before[r] for r in self.numbers}
        part = self._part(before)
        for state in states:
            after = state
            next_part = self._part(after) if after[self.isa.pc] != self.machine.return_to else "caller"
            if not body:
                self._note(part, before, after)
            if next_part == "callback" != part:
                self._hand(after)
            if next_part == "function" and not body:
                body = True
                self._look(after)
            elif next_part == "trampoline" and part in ("callback", "core") and not body:
                after = self._meddle(after)
            before, part = after, next_part

    def _part(self, state: dict[str, int]) -> str:
        return self.run.component_of(state[self.isa.pc])

    def _note(self, part: str, before: dict[str, int], after: dict[str, int]) -> None:
        """Note what one instruction stored, and which registers it changed."""
        for address, size, value in accesses(self.machine)[0]:
            for word in range(address, address + size, 8):
                stored = int.from_bytes(self.machine.read(word, 8), "little") if size > 8 else value
                register = None if stored is None else self.meant.get(stored)
                if self.top - self.machine.stack.size < word < self.top + _CALLER:
                    self.held.pop(word, None)
                    if register and part == "trampoline" and size >= 8:
                        self.held[word] = register
                        self.fates[register].slots.append(word - self.top)
        if part in ("site", "trampoline"):
            for r in self.numbers:
                if after[r] != before[r] and self.meant.get(after[r]) != r:
                    self.fates[r].by_hook = True

    def _hand(self, state: dict[str, int]) -> None:
        """Note what a callback can read, at its first instruction; how it is given registers depends on the hook."""
        args, name = self.isa.args, self.run.symbol_of(state[self.isa.pc])
        ops = [r for r in self.requests if isinstance(r, Ops) and r.callback == name]
        if not ops and any(isinstance(r, Direct) for r in self.requests):
            handed = [r for r in args if self.meant.get(state[r]) == r]
        elif ops:
            handed = self._within(state[args[3]], self._register_frame(ops[0]))
        else:
            handed = self._within(state[args[0]], 8 * self.arguments)
        for r in handed:
            self.fates[r].handed = True

    def _register_frame(self, ops: Ops) -> int:
        """Bytes of what an ftrace callback's last argument points at; none where that is nothing it may read."""
        structs, features = self.kernel.image.structs, self.kernel.features
        if features["args"]:
            return structs["ftrace_regs"].size
        return structs["pt_regs"].size if ops.save == "regs" else 0

    def _within(self, start: int, size: int) -> list[str]:
        return [r for place, r in self.held.items() if start <= place < start + size]

    def _meddle(self, state: dict[str, int]) -> dict[str, int]:
        """Overwrite what the callee may change, except its return value, and mark the slots."""
        change: dict[str, int] = {}
        for r in spoilable(self.isa):
            if r not in self.isa.returns or self.meant.get(state[r]):
                change[r] = _SPOILED + _REGISTER * self.numbers[r]
        if self.flags:
            change[self.flags.name] = self.flags.spoiled
        for r, value in change.items():
            self.machine.set_register(r, value)
        for place, r in self.held.items():
            if r != self.isa.link:
                value = _SLOT + _REGISTER * self.numbers[r] + len(self.marked)
                if self.flags and r == self.flags.name:
                    value = self.flags.slot
                self.machine.write_u64(place, value)
                self.meant[value] = r
                self.marked.add(value)
        return {**state, **change}

    def _look(self, state: dict[str, int]) -> None:
        """Note what became of each register, at the function's own first instruction."""
        for r, fate in self.fates.items():
            loaded = state[r] in self.marked or (fate.slots and fate.by_hook)
            if self.meant.get(state[r]) != r:
                fate.at_body = LOST
            elif loaded:
                fate.at_body = RESTORED


def spoilable(isa: Isa) -> tuple[str, ...]:
    """The registers that a callee may change and that nobody else needs, in the order of the ISA's list.

    A link register is not among them: the call that leads to the callee has changed it already.
    """
    mine = {*isa.args, *isa.scratch, *isa.returns} - {*isa.fixed, isa.link}
    return tuple(r for r in isa.registers if r in mine)
