"""The bytes that a CPU may fetch at an address at some moment of a plan.

coherent: what memory holds. stale: what it held at any moment since the last one at which every CPU was made to look again; one
fetch may find the new and the next one the old. torn: in addition one fetch may find parts of both, where the ISA does not
promise that it is atomic: on x86-64 a byte of one and a byte of the other, as nothing is promised for text that another CPU changes
(SDM volume 3, 9.1.3); on riscv64 two bytes, without Ziccif, or where an instruction is not aligned to its size; never on arm64.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Literal, get_args

from ...base.errors import TramplabError, unknown
from ...emulate import decode
from ...ftrace.steps import Write
from .executions import Executions, overlay
from .moments import Moment

Model = Literal["coherent", "stale", "torn"]
COHERENT, STALE, TORN = MODELS = get_args(Model)
#: Bytes that are fetched at once whatever happens.
PARCEL = {"x86_64": 1, "arm64": 4, "riscv64": 2}


class Fetches:
    """The text of a subject's machine over the moments of its plan, under one of MODELS."""

    def __init__(self, executions: Executions, moments: Sequence[Moment], model: str) -> None:
        if model not in MODELS:
            raise unknown("fetch model", model, MODELS)
        self._before, self._machine = executions.text, executions.subject.machine
        self._isa, self._moments, self._model = self._machine.isa, moments, model
        self._during = [m.during is not None for m in moments]
        self._writes = [(n, m.step) for n, m in enumerate(moments) if isinstance(m.step, Write) and m.step.text]

    def changes(self, pc: int, after: int = -1, until: int | None = None) -> bool:
        """Does the plan change text where an instruction at pc could lie, after some moment, until another one?"""
        found = self._changing(pc)
        return any(after < n <= (n if until is None else until) for n in found) if found else False

    @functools.cache  # noqa: B019 - as long-lived as the exploration it is for
    def _changing(self, pc: int) -> tuple[int, ...]:
        """The moments that such changes lead to."""
        return tuple(n for n, _ in self._near(pc))

    @functools.cache  # noqa: B019
    def _near(self, pc: int) -> tuple[tuple[int, Write], ...]:
        """The same with the writes."""
        end = pc + self._isa.max_insn
        return tuple((n, w) for n, w in self._writes if w.address < end and pc < w.address + len(w.data))

    def earliest(self, number: int, refetched: bool = False, pc: int | None = None) -> int:
        """The moment from which on a CPU may have its text, all of it or what lies at pc; refetched: one that has been made to look
        again in this moment."""
        if refetched or self._model == COHERENT:
            return number
        moment = self._moments[number]
        unseen = moment.unseen if pc is None else moment.unseen.intersection(self._changing(pc))
        return min((moment.horizon, *(n - 1 for n in unseen)))

    @functools.cache  # noqa: B019
    def at(self, number: int, pc: int, refetched: bool = False) -> tuple[bytes, ...]:
        """The instructions that a CPU may find at pc, in an order that is always the same."""
        if not self._changing(pc):
            return self._always(pc)
        moments = range(self.earliest(number, refetched, pc), number + 1)
        wholes = list(dict.fromkeys(w for n in moments for w in self._whole(n, pc)))
        return self._mixed(number, pc, wholes) if self._model == TORN else tuple(dict.fromkeys(self._cut(pc, w) for w in wholes))

    @functools.cache  # noqa: B019
    def written(self, number: int, pc: int) -> frozenset[bytes]:
        """The instructions that were ever at pc as a whole, up to a moment, or are when a write is done that is half done then."""
        last = number + bool(self._moments[number].during)
        # what lies there stays the same from one of these moments to the next
        starts = [0, *(n for n in self._changing(pc) if 0 < n <= last)]
        whole = (n for n, end in zip(starts, [*starts[1:], last + 1], strict=True) if not all(self._during[n:end]))
        return frozenset(self._cut(pc, w) for n in whole for w in self._whole(n, pc))

    # inside

    @functools.cache  # noqa: B019
    def _always(self, pc: int) -> tuple[bytes, ...]:
        return (self._cut(pc, self._before(pc, self._room(pc))),)

    @functools.cache  # noqa: B019
    def _whole(self, number: int, pc: int) -> list[bytes]:
        """What memory may hold there: one thing, or in the middle of a write each of its granules old or new."""
        since = max((n for n in self._changing(pc) if n <= number), default=0)
        if since < number:
            return self._whole(since, pc)
        size = self._room(pc)
        content = bytearray(self._before(pc, size))
        for n, done in self._near(pc):
            if n <= number and not self._moments[n].during:
                overlay(content, pc, done.address, done.data)
        write = self._moments[number].during
        if write is None:
            return [bytes(content)]
        pieces = [(at, data) for at, data in write.pieces if at < pc + size and pc < at + len(data)]
        contents = []
        for chosen in itertools.product((False, True), repeat=len(pieces)):
            mixed = bytearray(content)
            for (at, data), is_new in zip(pieces, chosen, strict=True):
                if is_new:
                    overlay(mixed, pc, at, data)
            contents.append(bytes(mixed))
        return list(dict.fromkeys(contents))

    def _mixed(self, number: int, pc: int, wholes: list[bytes]) -> tuple[bytes, ...]:
        """What parcels of these make together: all instructions that were ever written, and of the others, which are all of a
        kind and may be thousands, one."""
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
