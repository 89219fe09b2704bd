"""One traced function and the ops on it, by letter: what its patch site holds, and where a call of it goes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tramplab.emulate.counting.counts import COMPONENTS
from tramplab.emulate.walk import accesses, stepping
from tramplab.ftrace.ops import Registered, Request
from tramplab.ftrace.releases import Features
from tramplab.ftrace.steps import text
from tramplab.lab import hooks
from tramplab.lab.kernel import Kernel
from tramplab.lab.run import Run
from tramplab.trampolines.plain import Ops

FUNCTION = "three_args"
#: What a letter stands for: plain ops, ops that want all registers, and an ops that asks for the recursion guard and so is
#: called through the assist function. A "d" is a direct call.
_OPS: dict[str, Callable[[], Ops]] = {
    "a": Ops,
    "b": Ops,
    "r": lambda: Ops(save="regs"),
    "s": lambda: Ops(save="regs"),
    "g": lambda: Ops(recursion=True),
}
#: The feature that a letter needs.
NEEDS = {"r": "regs", "s": "regs", "d": "direct"}


def request(letter: str, features: Features) -> Request:
    """What a letter stands for in a kernel: a direct call is far where none has code in the site's reach, and near elsewhere."""
    return hooks.requests(hooks.of_release("direct", features), 1)[0] if letter == "d" else _OPS[letter]()


class Hooked:
    """A kernel in which one function is hooked and called.

    Every register that the caller may choose has a value of its own in each call, so that it is known again in memory.
    Attaching raises TramplabError for what the release never had; `can` tells before.
    """

    def __init__(self, isa: str, release: str) -> None:
        self.kernel = Kernel(isa, release)
        self.isa, self.function = self.kernel.isa, self.kernel.function(FUNCTION)
        self._record = self.kernel.slowpath.records[FUNCTION]
        self._attached: list[tuple[str, Registered]] = []
        chosen = (r for r in self.isa.registers if r not in (*self.isa.fixed, self.isa.sp, self.isa.link))
        self._marks = {r: 0xA5A5 << 48 | 0x0101 * n for n, r in enumerate(chosen, 1)}
        self._result = self._call().value

    def can(self, letters: str) -> bool:
        """Has a release all that these letters need?"""
        return all(self.kernel.features[NEEDS[letter]] for letter in letters if letter in NEEDS)

    @property
    def letters(self) -> str:
        """The letters of what is attached, in order of attaching."""
        return " ".join(letter for letter, _ in self._attached)

    def attach(self, letter: str) -> None:
        """Attach what a letter stands for."""
        (ops,) = self.kernel.attach(self.function, request(letter, self.kernel.features))
        self._attached.append((letter, ops))

    def detach(self, place: int = -1) -> None:
        """Remove what was attached as the `place`th; without, what was attached last."""
        self.kernel.detach(self._attached.pop(place)[1])

    def reach(self, letters: str) -> None:
        """Attach and detach, last one first, until just these are attached, in this order: "a r"."""
        while self.letters != letters:
            if letters.startswith(self.letters):
                self.attach(letters[len(self.letters) :].split(maxsplit=1)[0])
            else:
                self.detach()

    # state

    @property
    def held(self) -> tuple[bytes, bytes]:
        """The function's first bytes up to its body, and the ops pointer before it; empty where there is none."""
        site, read = self.function.site, self.kernel.machine.read
        return read(site.entry, site.body - site.entry), b"" if site.literal is None else read(site.literal, 8)

    @property
    def other_text(self) -> list[bytes]:
        """All code but this function's site and ops pointer."""
        site, parts = self.function.site, []
        start = site.entry if site.literal is None else site.literal
        for s in self.kernel.image.segments:
            if s.executable:
                end = s.address + s.size
                spans = [(s.address, start), (site.body, end)] if s.address <= start < end else [(s.address, end)]
                parts += [self.kernel.machine.read(a, b - a) for a, b in spans]
        return parts

    def hold(self, site: bytes, literal: bytes) -> None:
        """Make the site and its ops pointer hold these bytes, past all bookkeeping; see `held`."""
        where = self.function.site
        self.kernel.apply([text(where.entry, site, "the site, by hand")])
        if where.literal is not None:
            self.kernel.apply([text(where.literal, literal, "the ops pointer, by hand")])

    # one call

    def observe(self) -> dict[str, object]:
        """The site's state and what one call did, as the columns of a row (see switching.rows)."""
        run = self._call()
        instructions = {c: run.counts.by_component[c].instructions for c in COMPONENTS}
        return {
            "count": self._record.count,
            "flags": " ".join(self._record.names),
            "site_bytes": self.held[0].hex(),
            "literal": self._literal(),
            **self._way(run),
            "ran": " ".join(self._ran(run)),
            "right": run.value == self._result,
            **instructions,
            "total": sum(instructions.values()),
        }

    def _call(self) -> Run:
        return self.kernel.call(self.function, *self._arguments, registers=self._marks)

    @property
    def _arguments(self) -> tuple[int, ...]:
        return tuple(self._marks[r] for r in self.isa.args[:3])

    def _literal(self) -> str:
        """Whose ops the site points at: a letter or the symbol of one of the kernel's own."""
        if not self.held[1]:
            return ""
        address = int.from_bytes(self.held[1], "little")
        letters = {o.address: letter for letter, o in self._attached}
        return letters.get(address) or self.kernel.image.where(address) or f"{address:#x}"

    def _way(self, run: Run) -> dict[str, Any]:
        """Where the call went, and what of the registers it left on the way for callbacks to read."""
        hook = [s for s in run.steps if run.component_of(s.pc) not in ("site", "function")]
        first = list(itertools.takewhile(lambda s: run.component_of(s.pc) == "trampoline", hook))
        stores = [address for s in first for address, _, is_store in s.accesses if is_store]
        # a direct call's stub runs after the trampoline, on the same stretch of stack
        readable = bool(hook) and "d" not in self.letters
        return {
            "target": run.symbol_of(hook[0].pc) if hook else "",
            "calls": run.symbol_of(hook[len(first)].pc) if len(hook) > len(first) else "",
            "saved": len(self._stored(run) & set(self._marks.values())) if readable else None,
            "stores": len(stores),
        }

    def _stored(self, run: Run) -> set[int]:
        """What the trampoline has stored where it first calls: at the call's end the function's own frame may lie there."""
        machine, pc = self.kernel.machine, self.isa.pc
        states = stepping(machine, self.function.address, *self.kernel.passed(self._arguments, self._marks))
        component = run.component_of(next(states)[pc])
        stored: dict[int, int | None] = {}
        for after in states:
            if component == "trampoline":
                stored |= {address: value for address, _, value in accesses(machine)[0]}
            elif stored:
                break
            component = run.component_of(after[pc])
        return {value for value in stored.values() if value is not None}

    def _ran(self, run: Run) -> list[str]:
        """The letters of those whose counter a callback wrote, in order."""
        address, hits = self.kernel.image.address, self.kernel.slowpath.memory.hits
        counters = {address("lab_direct_hits") if o.direct else hits(o.index): letter for letter, o in self._attached}
        inside = (s for s in run.steps if run.component_of(s.pc) == "callback")
        return [counters[a] for s in inside for a, _, is_store in s.accesses if is_store and a in counters]
