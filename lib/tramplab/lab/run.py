"""The result of one call: its value, its counts by component, its way through the code."""

from __future__ import annotations

import functools

import numpy as np

from ..base.arguments import whole
from ..base.errors import TramplabError
from ..emulate.counting import counts as _counts
from ..emulate.counting import trace as _trace
from ..emulate.counting.counters import RawRun
from ..emulate.counting.counts import Counts, RunCounts
from ..emulate.decode import Instruction
from .reading.listing import listing
from .view import Function, View


class Run:
    """One call, with its result and its counts.

    value: the first return register.
    registers: all of them after the return.
    hits: calls seen per registered ops, in list order (newest first).
    config: the kernel's release and what was overridden.
    component_of, name_of: see View.
    """

    def __init__(self, function: Function, view: View, raw: RawRun, hits: tuple[int, ...]) -> None:
        self.function, self._raw, self.hits = function, raw, hits
        self.isa, self.registers = view.isa, raw.registers
        self.value = raw.registers[view.isa.returns[0]]
        self.config = view.config
        self.name_of, self.component_of = view.name_of, view.component_of
        self._instructions = view.instructions

    @functools.cached_property
    def instructions(self) -> dict[int, Instruction]:
        """Address -> instruction, for all that were executed."""
        return self._instructions()

    @functools.cached_property
    def counts(self) -> RunCounts:
        """The counts of what was issued, by component; raises TramplabError at an instruction that no table knows."""
        return _counts.count(self.isa, self._raw.tally, self.instructions, self.component_of, self.symbol_of)

    def symbol_of(self, pc: int) -> str:
        """The function that an address is in."""
        return (self.name_of(pc) or f"{pc:#x}").split("+")[0]

    @property
    def symbols(self) -> set[str]:
        """The symbols of everything that was executed."""
        return set(map(self.symbol_of, self._raw.tally.issued))

    def executed(self, address: int) -> bool:
        """Was the instruction at an address executed? Asks neither what it is nor what it is in."""
        return self._raw.tally.has(address)

    @functools.cached_property
    def recording(self) -> _trace.Recording:
        """Every instruction in order, as arrays; needs a kernel that records."""
        if not len(self._raw.events):
            raise TramplabError("this run was only counted; make the Kernel with meter='record' to see its steps.")
        repeated = [pc for pc, i in self.instructions.items() if i.repeated]
        return _trace.Recording(self._raw.events, self.instructions, repeated)

    @property
    def steps(self) -> list[_trace.Issued]:
        """Every instruction in order; needs a kernel that records."""
        return self.recording.steps

    @functools.cached_property
    def frame(self) -> _trace.StackFrame:
        """The trampolines' use of the stack, in bytes."""
        return _trace.frame_of(self.recording, lambda pc: self.component_of(pc) == "trampoline")

    @functools.cached_property
    def _body(self) -> tuple[int, int]:
        """Index of the first and the last step in the traced function's own body."""
        lo, hi = self.function.site.body, self.function.address + self.function.size
        inside = np.flatnonzero((self.recording.pc >= lo) & (self.recording.pc < hi))
        if not len(inside):
            raise TramplabError(f"{self.function.name}'s body did not run.")
        return int(inside[0]), int(inside[-1])

    @property
    def entry(self) -> Counts:
        """The counts from the function's first byte to its body, without callbacks."""
        return self._sum(0, self._body[0])

    @property
    def exit(self) -> Counts:
        """The counts from the body's last instruction to the caller, without callbacks."""
        return self._sum(self._body[1] + 1, len(self.recording))

    def disassembly(self, limit: int = 400) -> str:
        """The executed instructions, in order, with symbols, stack depth and accesses; at most `limit` of them, 72 columns."""
        texts = {pc: i.text for pc, i in self.instructions.items()}
        return listing(self.steps, texts, self.component_of, self.name_of, whole(limit, "limit", 0))

    @functools.cached_property
    def _outside_callbacks(self) -> np.ndarray:
        return self.recording.each(lambda pc: self.component_of(pc) != "callback")

    @functools.cached_property
    def _taken(self) -> np.ndarray:
        """Per step: did execution go on elsewhere than behind it?"""
        call = self.recording
        behind = call.each(lambda pc: pc + self.instructions[pc].size)
        return np.append(behind[:-1] != call.pc[1:], True)

    def _sum(self, start: int, stop: int) -> Counts:
        """The counts of steps[start:stop], callbacks left out."""
        call, outside = self.recording, self._outside_callbacks
        accesses = slice(*np.searchsorted(call.step, (start, stop)))
        chosen, size = outside[call.step[accesses]], call.size[accesses]
        stores, loads = chosen & call.is_store[accesses], chosen & ~call.is_store[accesses]
        steps, taken = outside[start:stop], self._taken[start:stop]
        return Counts(*(int(s.sum()) for s in (steps, loads, stores, size[loads], size[stores], steps & taken)))
