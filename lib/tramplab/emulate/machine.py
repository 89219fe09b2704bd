"""An emulated machine with an image loaded: memory, CPUs, and a meter that watches what they execute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ..base.arguments import whole
from ..base.errors import Recursion, TramplabError, unknown
from . import decode, recursion, trouble
from .counting.counters import RawRun, Tally
from .counting.meter import CMeter, library
from .engine import ACCESS, CODE, PAGE, Engine, Stopped
from .image import Image
from .memory.memory import Area, Memory
from .places import Places
from .traps import Vector
from .traps.taking import Traps

DEFAULT_BUDGET = 2_000_000
#: Instructions that a meter can count at most.
_MOST_BUDGET = (1 << 64) - 1
MAX_EVENTS = 200_000
NONE, COUNT, RECORD = METERS = ("none", "count", "record")


class Machine:
    """One or several CPUs over one memory, of which one runs at a time. meter: "none", "count" or "record"."""

    def __init__(self, image: Image, places: Places, meter: str = COUNT) -> None:
        self.image, self.isa, self.places = image, image.isa, places
        self._engine = Engine(image.isa)
        self.memory = Memory(self._engine, image.segments, (places.modules, places.heap, *places.stacks, *places.more))
        self.name_of: Callable[[int], str | None] = image.where  # code generators replace this by one that knows their code, too
        self.return_to = places.return_to
        self.cpu = 0
        self._contexts: dict[int, object] = {}  # of the CPUs that are not running
        self._traps = Traps(self._engine, places.vector)
        self._meter = CMeter(library(), self.text, *self._engine.addresses(), self._engine.register_id(self.isa.sp))
        self._hooks: list[Callable[[], None]] = []
        self._looking: dict[int, list[Callable[[], None]]] = {}
        self.meter = NONE
        self.set_meter(meter)

    # memory

    @property
    def text(self) -> list[tuple[int, int]]:
        """(address, size) of everything executable."""
        return self.memory.text

    def is_text(self, address: int) -> bool:
        """Does an address lie in executable memory?"""
        return self.memory.is_text(address)

    def poke(self, address: int, data: bytes) -> None:
        """Write text; see Memory.poke."""
        self.memory.poke(address, data)

    def write(self, address: int, data: bytes) -> None:
        """Write data; refuses text."""
        self.memory.write(address, data)

    def read(self, address: int, size: int) -> bytes:
        """The bytes in memory; raises TramplabError where nothing is mapped."""
        return self.memory.read(address, size)

    def read_u64(self, address: int) -> int:
        """The word of 8 bytes at an address."""
        return int.from_bytes(self.read(address, 8), "little")

    def write_u64(self, address: int, value: int) -> None:
        """Write a word of 8 bytes of data."""
        self.write(address, (value & (1 << 64) - 1).to_bytes(8, "little"))

    def keep(self) -> None:
        """Keep memory, and the CPU's registers, as they are now, for put_back()."""
        self.memory.keep()
        self._engine.forget_all()  # translations made before a hook was added do not call it
        self._kept = self._engine.save()

    def put_back(self) -> None:
        """Undo what calls, and writes from Python, have changed since keep()."""
        self.memory.put_back()
        self._engine.restore(self._kept)

    def instructions(self, addresses: Iterable[int]) -> dict[int, decode.Instruction]:
        """The instructions in memory at these addresses now, decoded."""
        return self.memory.code.all(addresses)

    def instruction_at(self, pc: int) -> decode.Instruction:
        """Decode what memory holds at pc now."""
        return self.memory.code.at(pc)

    # CPUs

    @contextmanager
    def on(self, cpu: int) -> Iterator[None]:
        """For a `with`: another CPU has its turn. Registers and stack are its own, memory and the meter are shared; it starts
        with the registers of the first CPU as they are then."""
        if not 0 <= cpu < len(self.places.stacks):
            raise TramplabError(f"there is no CPU {cpu}: this machine has {len(self.places.stacks)}; ask for more with cpus=.")
        before = self.cpu
        self._switch(cpu)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, cpu: int) -> None:
        if cpu == self.cpu:
            return
        self._contexts[self.cpu] = self._engine.save()
        self.cpu = cpu
        if cpu in self._contexts:
            self._engine.restore(self._contexts.pop(cpu))

    @property
    def stack(self) -> Area:
        """The stack of the CPU whose turn it is."""
        return self.places.stacks[self.cpu]

    @property
    def stack_top(self) -> int:
        """The address above that stack."""
        return self.stack.end

    # registers

    def register_id(self, name: str) -> int:
        """The engine's number of a register (general or special, e.g. GS_BASE)."""
        return self._engine.register_id(name)

    def set_register(self, name: str, value: int) -> None:
        """Set a register, general or special, by its name."""
        self._engine.set_register(name, value)

    def set_registers(self, values: Mapping[str, int]) -> None:
        """Set general registers by their names, all at once; raises TramplabError for another name."""
        self._engine.set_general(values)

    def register(self, name: str) -> int:
        """The value of a register, general or special, by its name."""
        return self._engine.register(name)

    def registers(self) -> dict[str, int]:
        """All general registers and the program counter, as they are now."""
        return self._engine.registers()

    def watch(self, address: int, call: Callable[[], None]) -> None:
        """Call call() before the instruction at an address is executed, from now on."""
        if address not in self._looking:
            calls = self._looking[address] = []

            def arrived() -> None:
                for one in tuple(calls):
                    one()

            self._engine.hook_at(address, arrived)
            self._engine.forget_all()  # translations made before a hook was added do not call it
        self._looking[address].append(call)

    @contextmanager
    def watching(self, address: int, call: Callable[[], None]) -> Iterator[None]:
        """Watch an address, as watch() does, for the length of a `with`. The hook stays, as a change of hooks flushes all
        translations."""
        self.watch(address, call)
        try:
            yield
        finally:
            self._looking[address].remove(call)

    @property
    def engine(self) -> Engine:
        """The engine that executes the guest, for code that lets several CPUs take turns; see interleave/."""
        return self._engine

    def take_traps(self, vector: Vector) -> None:
        """From now on take the guest's breakpoints through a vector, if they are not taken already."""
        if self._traps.install(vector):
            self._traps.watch()
            self._engine.forget_all()  # translations made before a hook was added do not call it

    # running

    def set_meter(self, kind: str) -> None:
        """Choose what is observed from the next call on: "none", "count" or "record"."""
        if kind not in METERS:
            raise unknown("meter", kind, METERS)
        if kind == self.meter:
            return
        for end in self._hooks:
            end()
        wanted = {NONE: (), COUNT: ((CODE, "count"),), RECORD: ((CODE, "record"), (ACCESS, "access"))}[kind]
        self._hooks = [self._meter.watch(self._engine, of, which) for of, which in wanted]
        self._traps.watch()
        self._engine.forget_all()  # translations made before a hook was added do not call it
        self.meter = kind

    def call(
        self, address: int, registers: dict[str, int], stack: Sequence[int] = (), budget: int = DEFAULT_BUDGET
    ) -> RawRun:
        """Call the function at an address and run until it returns.

        registers: name -> value, set before the call (the rest keep their values).
        stack: 8-byte words above the return address.
        budget: instructions before StepLimit is raised.

        Raises GuestFault or StepLimit; memory keeps what the guest did until then.
        """
        self.enter(registers, stack)
        return self.run(address, self.return_to, budget)

    def enter(self, registers: dict[str, int], stack: Sequence[int] = ()) -> None:
        """Set registers and stack as a caller does who is to be returned to; see call."""
        isa, words = self.isa, list(stack)
        sp = registers.get(isa.sp, self.stack_top - 64)
        sp -= 8 * len(words)
        sp &= ~15
        if isa.link is None:
            words.insert(0, self.return_to)
            sp -= 8
        self._engine.write(sp, b"".join((w & (1 << 64) - 1).to_bytes(8, "little") for w in words))
        self.set_registers({**registers, **({isa.link: self.return_to} if isa.link else {}), isa.sp: sp})

    def run(self, start: int, until: int, budget: int = DEFAULT_BUDGET) -> RawRun:
        """Run from start until pc == until, with the registers as they are; see call."""
        budget = whole(budget, "budget", 0, _MOST_BUDGET)
        self._meter.begin(start, budget, MAX_EVENTS if self.meter == RECORD else 0)
        try:
            self._traps.start(start, until)
        except Stopped as e:
            # a translation of nothing has no size, so dropping it by address would miss it
            self._engine.forget_all()
            raise trouble.fault(self.situation(), str(e)) from None
        pc = self.register(self.isa.pc)
        tally = self._meter.end(pc) if self.meter != NONE else Tally((), False)
        if tally.stopped:
            where = self.situation()
            raise trouble.endless(where, self._watched(until), budget)
        if pc != until:
            raise trouble.halted(self.situation())
        return RawRun(self.registers(), tally, self.events())

    def step(self, until: int, pc: int | None = None, count: int = 1) -> bool:
        """Go on by one instruction, or by so many, from pc or from where the CPU is; False if it cannot. Needs a meter: its budget
        ends it.

        The engine's own count is of no use: it does not end code that was translated, and chained to itself, before.
        """
        pc = self.register(self.isa.pc) if pc is None else pc
        self._meter.begin(pc, count, MAX_EVENTS if self.meter == RECORD else 0, clear=False)
        try:
            self._traps.start(pc, until)
        except Stopped:
            return False
        return True

    def events(self) -> np.ndarray:
        """The recording of the last run or step, see counters.EVENT; nothing without the meter "record"."""
        return self._meter.events() if self.meter == RECORD else np.zeros(0)

    def situation(self) -> trouble.Situation:
        """Where the CPU is and what it did last, as errors tell it."""
        isa, pc = self.isa, self._meter.last if self.meter != NONE else None
        pc = self.register(isa.pc) if pc is None else pc
        try:
            text = self.instruction_at(pc).text
        except TramplabError:
            text = "no instruction there"
        named = decode.registers_in(text, isa)
        shown = dict.fromkeys([isa.pc, isa.sp, *([isa.link] if isa.link else []), *named])
        access, low = self._engine.invalid_access, self.stack.address
        exhausted = access is not None and low - PAGE <= access[1] < low
        values = tuple((r, self.register(r)) for r in shown)
        again = self._repeated() if exhausted else None
        return trouble.Situation(isa.name, self._place(pc), text, values, access, exhausted, again)

    # inside

    def _place(self, pc: int) -> str:
        return self.name_of(pc) or f"{pc:#x}"

    def _repeated(self) -> Recursion | None:
        """The recursion that fills the stack, from its lowest word on."""
        words = np.frombuffer(self.read(self.stack.address, self.stack.size), "<u8").tolist()
        return recursion.found(words, lambda address: self.name_of(address) if self.is_text(address) else None)

    def _watched(self, until: int) -> list[str]:
        """The places that a run which does not end comes by."""
        seen = []
        for _ in range(trouble.WATCHED):
            seen.append(self._place(self.register(self.isa.pc)))
            if not self.step(until):
                break
        return seen
