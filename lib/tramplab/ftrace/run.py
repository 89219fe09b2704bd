"""What one call showed: its result, its counts by component, its way through the code."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..emulate import counts as _counts
from ..emulate import trace as _trace
from ..emulate.counts import Counts, RunCounts
from ..emulate.machine import RawRun
from ..errors import TramplabError
from .listing import listing

if TYPE_CHECKING:
    from .kernel import Function, Kernel


class Run:
    """One call of a traced function.

    value: the first return register. registers: all of them after the return. hits: calls seen per registered ops, in
    list order (newest first). instructions: what was executed, by address.
    """

    def __init__(self, kernel: Kernel, function: Function, raw: RawRun, hits: tuple[int, ...]) -> None:
        self._kernel, self.function, self._raw, self.hits = kernel, function, raw, hits
        self.isa, self.registers = kernel.isa, raw.registers
        self.value = raw.registers[kernel.isa.returns[0]]
        self.config = str(kernel)
        self._bodies = sorted((r.site.entry, r.site.body, r.site.function) for r in kernel.slowpath.records.values())
        # text may change after this call, so what depends on it is taken now
        self.name_of = kernel.names()
        self.counts: RunCounts = _counts.count(kernel.machine, raw.tally, self.component_of, self.symbol_of)
        self.instructions = {pc: kernel.machine.instruction_at(pc) for pc in raw.tally.issued}

    def component_of(self, pc: int) -> str:
        """site, trampoline, core, callback or function; a site reaches from a function's first byte to its body."""
        component = self._kernel.image.component_at(pc) or "trampoline"
        if component == "function" and any(entry <= pc < body for entry, body, _ in self._bodies):
            return "site"
        return component

    def symbol_of(self, pc: int) -> str:
        """The function that an address is in."""
        return (self.name_of(pc) or f"{pc:#x}").split("+")[0]

    @functools.cached_property
    def steps(self) -> list[_trace.Step]:
        """Every instruction in order; needs a kernel that records."""
        if not len(self._raw.events):
            raise TramplabError("this run was only counted; make the Kernel with meter='record' to see its steps.")
        return _trace.steps(self._raw.events)

    @functools.cached_property
    def frame(self) -> _trace.Frame:
        """The trampolines' use of the stack, in bytes."""
        return _trace.frame_of(self.steps, lambda pc: self.component_of(pc) == "trampoline")

    @functools.cached_property
    def _body(self) -> tuple[int, int]:
        """Index of the first and the last step in the traced function's own body."""
        lo, hi = self.function.site.body, self.function.address + self.function.size
        inside = [i for i, s in enumerate(self.steps) if lo <= s.pc < hi]
        if not inside:
            raise TramplabError(f"{self.function.name}'s body did not run.")
        return inside[0], inside[-1]

    @property
    def entry(self) -> Counts:
        """From the function's first byte to its body, without callbacks."""
        return self._sum(0, self._body[0])

    @property
    def exit(self) -> Counts:
        """From the body's last instruction until the caller, without callbacks."""
        return self._sum(self._body[1] + 1, len(self.steps))

    def disassembly(self, limit: int = 400) -> str:
        """What was executed, in order, with symbols, stack depth and accesses; `limit` instructions, 72 columns."""
        return listing(
            self.steps, {pc: i.text for pc, i in self.instructions.items()}, self.component_of, self.name_of, limit
        )

    def _sum(self, start: int, stop: int) -> Counts:
        """The counts of steps[start:stop], callbacks left out."""
        total = Counts()
        for i in range(start, stop):
            s = self.steps[i]
            if self.component_of(s.pc) == "callback":
                continue
            loads = [size for _, size, is_store in s.accesses if not is_store]
            stores = [size for _, size, is_store in s.accesses if is_store]
            behind = s.pc + self.instructions[s.pc].size
            taken = i + 1 == len(self.steps) or self.steps[i + 1].pc != behind
            total += Counts(1, len(loads), len(stores), sum(loads), sum(stores), int(taken))
        return total
