"""Running a guest that takes its own breakpoints: the engine stops at each, the machine does what the hardware would."""

from __future__ import annotations

from collections.abc import Callable

from ..engine import Engine, Stopped
from . import MODULES, Vector

_TRAP, _LEAVE, _OTHER = "trap", "leave", "other"


class Traps:
    """The breakpoints of one machine, if its guest has a vector for them; without, they end the run as any fault does."""

    def __init__(self, engine: Engine, vector: Vector | None) -> None:
        self._engine, self._own = engine, MODULES[engine.isa.name]
        self._seen, self._entry = "", 0
        self._end_leaving: Callable[[], None] | None = None
        self._vector: Vector | None = None
        if vector:
            self.install(vector)

    def install(self, vector: Vector) -> bool:
        """Take breakpoints from now on; watch() has to follow. False if they are taken already."""
        if self._vector:
            return False
        self._vector, self._entry = vector, vector.entry
        self._engine.hook_traps(self._interrupt, self._unknown)
        return True

    def watch(self) -> None:
        """Stop at the instruction that returns; behind every other hook, so that those see it issued."""
        if self._end_leaving:
            self._end_leaving()
        if self._vector:
            self._end_leaving = self._engine.hook_at(self._vector.leaves, self._leaving)

    def start(self, pc: int, until: int) -> None:
        """Run as Engine.start does, and go on through every breakpoint and back."""
        while True:
            self._seen = ""
            try:
                self._engine.start(pc, until)
            except Stopped:
                if self._seen != _TRAP:
                    raise
            if self._seen == _OTHER:
                raise Stopped("Unhandled CPU exception (an interrupt that is no breakpoint)")
            if not self._seen:
                return
            pc = self._go_on()
            if pc == until:
                self._engine.set_general({self._engine.isa.pc: pc})
                return

    def _go_on(self) -> int:
        if self._seen == _LEAVE:
            return self._own.leave(self._engine)
        self._own.enter(self._engine, self._engine.register(self._engine.isa.pc) - self._own.BEHIND)
        return self._entry

    def _interrupt(self, number: int) -> None:
        self._seen = _TRAP if number == self._own.INTERRUPT else _OTHER
        self._engine.stop()

    def _unknown(self) -> bool:
        if self._own.INTERRUPT is None and self._is_breakpoint():
            self._seen = _TRAP
            self._engine.stop()
            return True
        return False

    def _is_breakpoint(self) -> bool:
        """Is the instruction that the engine does not know the ISA's breakpoint?"""
        pc = self._engine.register(self._engine.isa.pc)
        return any(self._engine.read(pc, len(b)) == b for b in self._engine.isa.breakpoints)

    def _leaving(self) -> None:
        self._seen = _LEAVE
        self._engine.stop()
