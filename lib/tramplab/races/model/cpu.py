"""One instruction of one thread, executed by the emulator from any state that a thread may be in."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...emulate.counting.counters import LOAD, STORE
from ...emulate.engine import Engine
from ...emulate.machine import Machine
from ...emulate.traps import MODULES
from ..subject import Subject
from .locals import FLAGS, SYSTEM, Local

_WORD = 8
#: The value of registers that carry nothing: no address of anything.
LEFT_OVER = 0x0BAD_0000_0000_0000


@dataclass(frozen=True)
class Executed:
    """The effects of one instruction.

    pc: the next program counter; None if the CPU could not go on.
    reads: (address, size) of its loads.
    stores: addresses of its stores.
    lost: the address that it jumped to, if that is why the CPU could not go on.
    """

    pc: int | None
    registers: tuple[int, ...]
    memory: tuple[tuple[int, int], ...]
    reads: tuple[tuple[int, int], ...]
    stores: tuple[int, ...]
    lost: int | None = None


class Cpu:
    """Puts threads on the machine and takes them off again. Memory is left as it was found by restore()."""

    def __init__(self, subject: Subject) -> None:
        self._machine: Machine = subject.machine
        self._engine: Engine = subject.machine.engine
        self._subject, isa = subject, subject.machine.isa
        self._special = FLAGS[isa.name] | (SYSTEM.get(isa.name, {}) if subject.vector else {})
        self.names = (*isa.registers, *self._special)
        self._sp = self.names.index(isa.sp)
        self._stack = subject.machine.stack
        self._traps = MODULES[isa.name]
        self._on: tuple[int, ...] = ()
        self._held: dict[int, int] = {}  # words of memory that are the thread's that is on
        self._before = _snapshot(subject.machine)
        self._text: dict[int, bytes] = {}  # what was in place of an instruction that was put there
        self._data: dict[int, bytes] = {}

    def begin(self, registers: dict[str, int], stack: tuple[int, ...]) -> tuple[int, ...]:
        """The registers with which a call begins: these, and in all others what nobody should use."""
        isa = self._machine.isa
        left = {name: LEFT_OVER + n for n, name in enumerate(isa.registers) if name not in isa.fixed}
        self._machine.set_registers(left)
        for name, value in self._special.items():
            self._engine.set_register(name, value)
        self._machine.enter(registers, stack)
        return self.registers()

    def registers(self) -> tuple[int, ...]:
        """The registers as they are on the machine now."""
        registers_now = self._engine.registers()
        return tuple(registers_now[n] if n in registers_now else self._engine.register(n) for n in self.names)

    def set_data(self, values: dict[int, bytes]) -> None:
        """Set memory that the plan writes, address -> bytes."""
        for address, data in values.items():
            if self._data.get(address) != data:
                self._store(address, data)
                self._data[address] = data

    def execute(self, local: Local, instruction: bytes) -> Executed:
        """Execute a thread's next instruction, which is this one; gives its effects."""
        self._put(local)
        isa, pc, engine = self._machine.isa, local.pc, self._engine
        vector, skips = self._subject.vector, self._subject.skips
        if instruction in isa.breakpoints and pc in skips and not vector:
            return self._taken(local, skips[pc], (), ())
        if vector and instruction in isa.breakpoints:
            low = engine.register(isa.sp)
            self._traps.enter(engine, pc)
            pushed = range(engine.register(isa.sp) & -_WORD, low, _WORD)
            return self._taken(local, vector.entry, (), tuple(pushed))
        if vector and pc == vector.leaves:
            return self._taken(local, self._traps.leave(engine), (), ())
        self._place(pc, instruction)
        try:
            ran = self._machine.step(self._machine.return_to, pc)
            events = self._machine.events()
        finally:
            self._replace(pc)
        if not ran:
            self._engine.forget_all()
            self._on = ()
            lost = self._engine.register(isa.pc)
            return Executed(None, local.registers, local.memory, (), (), lost if lost != pc else None)
        accesses = [(address, size, kind) for _, address, _, size, kind in events.tolist()]
        loads = tuple([(address, size) for address, size, kind in accesses if kind == LOAD])
        words = [w for address, size, kind in accesses if kind == STORE for w in _words(address, size)]
        return self._taken(local, self._engine.register(isa.pc), loads, tuple(words))

    def word(self, address: int) -> int:
        """A word of memory as the thread that is on sees it."""
        return self._machine.read_u64(address)

    def before(self, address: int, size: int) -> bytes:
        """Data as it was before any thread and before the plan."""
        first = address & -_WORD
        whole = b"".join(self._initial(a) for a in range(first, address + size, _WORD))
        return whole[address - first : address - first + size]

    def restore(self) -> None:
        """Make memory what it was before any thread and before the plan."""
        for address in self._held:
            self._engine.write(address, self._initial(address))
        for address, data in self._data.items():
            self._store(address, self.before(address, len(data)))
        self._held, self._data, self._on = {}, {}, ()

    # inside

    def _taken(self, local: Local, pc: int, reads: tuple[tuple[int, int], ...], stores: tuple[int, ...]) -> Executed:
        """The effects of the instruction just executed. Memory further below the stack pointer than the subject says is not kept:
        an interrupt would have used it."""
        registers = self.registers()
        self._on = registers
        stored = {address: self._machine.read_u64(address) for address in stores}
        self._held = held = {**self._held, **stored}
        low, high = self._stack.address, (registers[self._sp] & -_WORD) - self._subject.below
        same = {a for a, value in stored.items() if value.to_bytes(_WORD, "little") == self._initial(a)}
        kept = {a: value for a, value in held.items() if a not in same and not low <= a < high}
        return Executed(pc, registers, tuple(sorted(kept.items())), reads, stores)

    def _put(self, local: Local) -> None:
        wanted = dict(local.memory)
        for address in [a for a in self._held if a not in wanted]:
            self._engine.write(address, self._initial(address))
            del self._held[address]
        for address, value in wanted.items():
            if self._held.get(address) != value:
                self._engine.write(address, value.to_bytes(_WORD, "little"))
                self._held[address] = value
        if self._on != local.registers:
            on = self._on or (None,) * len(self.names)
            for name, value, current in zip(self.names, local.registers, on, strict=True):
                if value != current:
                    self._engine.set_register(name, value)
            self._on = local.registers

    def _initial(self, address: int) -> bytes:
        """Eight bytes as they were before any thread."""
        for base, data in self._before:
            if base <= address < base + len(data):
                return data[address - base : address - base + _WORD]
        return self._read_only(address)

    @functools.cache  # noqa: B019 - no longer than the exploration it is for
    def _read_only(self, address: int) -> bytes:
        """Eight bytes of text, which only the plan changes; first asked for before it does."""
        return self._machine.read(address, _WORD)

    def _store(self, address: int, data: bytes) -> None:
        """Write what the plan writes: text too, as literals lie among code."""
        (self._machine.poke if self._machine.is_text(address) else self._machine.write)(address, data)

    def _place(self, pc: int, instruction: bytes) -> None:
        before = self._machine.read(pc, len(instruction))
        if before != instruction:
            self._text[pc] = before
            self._machine.poke(pc, instruction)

    def _replace(self, pc: int) -> None:
        if pc in self._text:
            self._machine.poke(pc, self._text.pop(pc))


def _snapshot(machine: Machine) -> list[tuple[int, bytes]]:
    """All memory that a guest can write, as it is now: (address, bytes)."""
    room = machine.places
    areas = [(a.address, a.size) for a in (*room.stacks, room.heap)]
    areas += [(s.address, s.size) for s in machine.image.segments if s.writable]
    return [(base, machine.read(base, size)) for base, size in areas]


def _words(address: int, size: int) -> range:
    """The addresses of the words that some bytes lie in."""
    return range(address & -_WORD, address + size, _WORD)
