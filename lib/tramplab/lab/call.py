"""A recorded call as the analyses take it: what ran, in order, and what each instruction is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from ..emulate.counting.trace import Issued, Recording
from ..emulate.decode import Instruction
from ..isa import Isa
from .run import Run

#: A run's call is made once, so that what is worked out of it can be kept.
_CALLS: weakref.WeakKeyDictionary[Run, RecordedCall] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class RecordedCall:
    """One call as an estimate reads it.

    instructions: address -> instruction, for every address in the recording.
    returns_to: the address where execution continues after the last step.
    name_of: address -> symbol+offset, None where no symbol is.
    """

    isa: Isa
    recording: Recording
    instructions: dict[int, Instruction]
    returns_to: int
    name_of: Callable[[int], str | None]

    @classmethod
    def of(cls, run: Run | RecordedCall) -> RecordedCall:
        """The call of a run; raises TramplabError for one that was only counted."""
        if isinstance(run, RecordedCall):
            return run
        if run not in _CALLS:
            _CALLS[run] = cls(run.isa, run.recording, run.instructions, run.registers[run.isa.pc], run.name_of)
        return _CALLS[run]

    @property
    def steps(self) -> list[Issued]:
        """Every instruction in order."""
        return self.recording.steps

    def destinations(self) -> list[int]:
        """Per step, the address of the instruction executed next."""
        return [*self.recording.pc[1:].tolist(), self.returns_to]

    def where(self, address: int) -> str:
        """symbol+offset of an address, or the bare address."""
        return self.name_of(address) or f"{address:#x}"
