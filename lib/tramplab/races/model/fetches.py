"""The bytes that a CPU may fetch at an address at some moment of a plan.

coherent: what memory holds. stale: what it held at any moment since the last one at which every CPU was made to look again; one
fetch may find the new and the next one the old. torn: in addition one fetch may find parts of both, where the ISA does not
promise that it is atomic: on x86-64 a byte of one and a byte of the other, as nothing is promised for text that another CPU changes
(SDM volume 3, 9.1.3); on riscv64 two bytes, without Ziccif, or where an instruction is not aligned to its size; never on arm64.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from ...base.errors import TramplabError, unknown
from ...emulate import decode
from ...ftrace.steps import Write
from .executions import Executions, overlay
from .moments import Moment

Model = Literal["coherent", "stale", "torn"]
COHERENT, STALE, TORN = MODELS = get_args(Model)
#: Bytes of which a fetch never mixes old and new.
PARCEL = {"x86_64": 1, "arm64": 4, "riscv64": 2}


class Fetches:
    """The text of a subject's machine over the moments of its plan, under one of MODELS."""

    def __init__(self, executions: Executions, moments: Sequence[Moment], model: str) -> None:
        if model not in MODELS:
            raise unknown("fetch model", model, MODELS)
        self._before, self._machine = executions.text, executions.subject.machine
        self._isa, self._moments, self._model = self._machine.isa, moments, model
        self._writes = [(number, w) for number, w in enumerate(executions.subject.steps) if isinstance(w, Write) and w.text]
        made = [(n, m.done) for n, m in enumerate(moments)]
        self._first = {number: next((n for n, done in made if done >> number & 1), len(made)) for number, _ in self._writes}
        self._during = {m.during for m in moments}

    @functools.cache  # noqa: B019 - as long-lived as the exploration it is for
    def near(self, pc: int) -> tuple[tuple[int, Write], ...]:
        """The plan's writes of text where an instruction at pc could lie, with their numbers."""
        end = pc + self._isa.max_insn
        return tuple((n, w) for n, w in self._writes if w.address < end and pc < w.address + len(w.data))

    def settled(self, pc: int, number: int, refetched: bool, until: int) -> bool:
        """Does a CPU find one instruction only at pc, the same from one moment up to another?"""
        near = self.near(pc)
        if not near:
            return True
        now, since = self._moments[number].done, self._moments[self.earliest(number, refetched, pc)].done
        return all(since >> n & 1 if now >> n & 1 else self._first[n] > until for n, _ in near)

    def earliest(self, number: int, refetched: bool = False, pc: int | None = None) -> int:
        """The earliest moment of which a CPU may still have the text, all of it or what lies at pc. refetched: has the CPU been
        made to look again in this moment?"""
        if refetched or self._model == COHERENT:
            return number
        moment = self._moments[number]
        unseen = moment.unseen if pc is None else moment.unseen.intersection(n for n, _ in self.near(pc))
        return min((moment.horizon, *(self._before_it(n) for n in unseen)))

    @functools.cache  # noqa: B019
    def at(self, number: int, pc: int, refetched: bool = False) -> tuple[bytes, ...]:
        """The instructions that a CPU may find at pc, in an order that is always the same."""
        if not self.near(pc):
            return (self._cut(pc, self._content(pc, 0)),)
        wholes = list(dict.fromkeys(self._wholes(self.earliest(number, refetched, pc), number, pc)))
        return self._mixed(number, pc, wholes) if self._model == TORN else tuple(dict.fromkeys(self._cut(pc, w) for w in wholes))

    @functools.cache  # noqa: B019
    def written(self, number: int, pc: int) -> frozenset[bytes]:
        """The instructions that were at pc as a whole at some moment up to this one, or are when a write that is half done is
        done."""
        last = self._count(number, pc) + (self._moments[number].during is not None)
        return frozenset(self._cut(pc, self._content(pc, done)) for done in range(min(last, len(self.near(pc))) + 1))

    # inside

    @functools.cache  # noqa: B019
    def _before_it(self, number: int) -> int:
        """The last moment before the first one at which a write is done, of those with no step done that is not done then."""
        first = self._first[number]
        return next(n for n in reversed(range(first)) if not self._moments[n].done & ~self._moments[first].done)

    def _count(self, number: int, pc: int) -> int:
        """How many of the writes near pc are done; they are done in the plan's order."""
        done = self._moments[number].done
        return sum(done >> n & 1 for n, _ in self.near(pc))

    def _wholes(self, since: int, number: int, pc: int) -> Iterator[bytes]:
        """What memory has held at pc since a moment; in the middle of a write each of its granules old or new."""
        near, last = self.near(pc), self._count(number, pc)
        for done in range(self._count(since, pc), last + 1):
            yield self._content(pc, done)
            following = near[done][1] if done < len(near) else None
            if following == self._moments[number].during if done == last else following in self._during:
                yield from self._halves(pc, done, following)

    @functools.cache  # noqa: B019
    def _content(self, pc: int, done: int) -> bytes:
        """The bytes at pc when so many of the writes near pc are done."""
        content = bytearray(self._before(pc, self._room(pc)))
        for _, write in self.near(pc)[:done]:
            overlay(content, pc, write.address, write.data)
        return bytes(content)

    def _halves(self, pc: int, done: int, write: Write | None) -> Iterator[bytes]:
        """The bytes that may be at pc while `write`, the next of these writes, is half done; none where it is None."""
        if write is None:
            return
        content = self._content(pc, done)
        pieces = [(at, data) for at, data in write.pieces if at < pc + len(content) and pc < at + len(data)]
        for chosen in itertools.product((False, True), repeat=len(pieces)):
            mixed = bytearray(content)
            for (at, data), is_new in zip(pieces, chosen, strict=True):
                if is_new:
                    overlay(mixed, pc, at, data)
            yield bytes(mixed)

    def _mixed(self, number: int, pc: int, wholes: list[bytes]) -> tuple[bytes, ...]:
        """The instructions that parcels of these bytes make together: all that were ever written, and one of the others, which are
        all of a kind and may be thousands."""
        size, written = PARCEL[self._isa.name], self.written(number, pc)
        columns = [dict.fromkeys(w[at : at + size] for w in wholes) for at in range(0, len(wholes[0]), size)]
        made = [i for i in sorted(written) if all(i[n * size : (n + 1) * size] in columns[n] for n in range(len(i) // size))]
        longest = max(len(self._cut(pc, w)) for w in wholes)
        for parts in itertools.product(*columns[: longest // size]):
            found = self._cut(pc, b"".join(parts) + wholes[0][longest:])
            if found not in written:
                return (*made, found)
        return tuple(made)

    def _cut(self, pc: int, data: bytes) -> bytes:
        """The one instruction that such bytes begin with."""
        try:
            return data[: decode.at(self._isa, pc, data).size]
        except TramplabError:  # parts of two that make no third
            return data

    def _room(self, pc: int) -> int:
        """Bytes that an instruction at pc could have."""
        end = next((base + size for base, size in self._machine.text if base <= pc < base + size), pc + self._isa.max_insn)
        return min(self._isa.max_insn, end - pc)
