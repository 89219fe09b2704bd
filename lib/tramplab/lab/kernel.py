"""The facade: a small kernel on one ISA, with functions to call and ops to attach.

>>> from tramplab import Kernel, Ops
>>> k = Kernel("riscv64", release="v6.16")
>>> f = k.function("three_args")
>>> with k.attached(f, Ops()):
...     run = k.call(f, 1, 2, 3)
>>> run.value, run.hits
(34, (1,))
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .. import isa as isas
from ..base.arguments import WORDS, folder, of_name, switch, whole
from ..base.errors import TramplabError, shown
from ..build.dwarf import Prototype
from ..build.toolchain import GUEST
from ..emulate.code import settle
from ..emulate.machine import DEFAULT_BUDGET, NONE, RECORD, Machine
from ..ftrace import arch, releases
from ..ftrace.ops import Registered, Request
from ..ftrace.releases import LATEST
from ..ftrace.steps import Free, Step, Write
from ..isa import Isa
from ..trampolines import KINDS
from ..trampolines import slow_path as chosen
from ..trampolines.arguments import passing
from ..trampolines.guest import Guest
from . import boot
from .guest import load
from .places import places, vector
from .run import Run
from .view import Components, Function, View, names


class Kernel:
    """A lab kernel, booted and idle.

    isa: "x86_64", "arm64" or "riscv64".
    release: a mainline tag; it decides trampolines, patch sites and core paths.
    meter: "record" (default) sees every access of every call, "count" only counts.
    guest: the folder of guest sources.
    cpus: how many CPUs it has; they run one at a time.
    traps: breakpoints go through the guest's entry to its handler, which x86-64's patching needs when calls run between its steps;
        without it, a breakpoint ends a call with an error.
    slow_path: by name (SLOW_PATHS of trampolines/), one that differs from the release's: "fitting", each site goes to the smallest
        trampoline that serves all ops on it; or a way to have one ops for all direct calls (trampolines/single).
    room_at: addresses at which code is to have room (trampolines/placed).
    overrides: features by name (see data/releases.yml), e.g. call_ops=False; str(kernel) shows them.

    Raises TramplabError for an unknown ISA, release or feature, and for numbers, switches and paths that are none.
    """

    def __init__(
        self,
        isa: str | Isa,
        release: str = LATEST,
        *,
        meter: str = RECORD,
        guest: str | Path = GUEST,
        cpus: int = 1,
        traps: bool = False,
        slow_path: str = "",
        room_at: Iterable[int] = (),
        **overrides: object,
    ) -> None:
        self.isa = isas.get(isa)
        if meter == NONE:
            raise TramplabError(
                "a kernel needs the meter count or record: without one an endless loop would never end."
            )
        features = releases.features(self.isa, release, overrides)
        path = chosen(slow_path, features)
        self.features, self._note = path.features(features), path.note
        self.image = load(self.isa, arch.of(self.isa).config(self.features), folder(guest, "guest"))
        room = places(self.image, whole(cpus, "cpus", 1), switch(traps, "traps"), room_at)
        self.machine = Machine(self.image, room, meter)
        empty = Guest.of(self.image, self.features, room)
        self.heap = empty.heap
        self.slowpath = path.make(empty, [kind.maker(empty) for kind in KINDS])
        self._asked: dict[Registered, Request] = {}  # each request as it was given, so without the function that it was attached to
        self._components = Components(self.image, empty.sites.values())
        self.machine.name_of = lambda address: self.names()(address)
        weakref.finalize(self, settle, self.machine.memory.code.pending).atexit = False  # for who keeps only what calls have shown
        self.cpus = boot.cpus(self.machine, self.heap)
        for cpu in self.cpus:
            boot.boot(self.machine, cpu)
        self.apply(self.slowpath.boot())

    def __str__(self) -> str:
        return str(self.features) + self._note

    # functions

    def function(self, name: str | Function) -> Function:
        """A traced function by name; a Function is returned as it is, also one of the image's without a patch site. Raises
        TramplabError with near matches, or if it is of another kernel."""
        symbol_name = name.name if isinstance(name, Function) else name
        if isinstance(name, Function) and self._has_untraced(name):
            return name
        site = of_name("traced function", symbol_name, self.slowpath.records).site
        traced = Function(symbol_name, site, site.entry, self.image.functions[symbol_name].size)
        if isinstance(name, Function) and name != traced:
            where = f"{symbol_name} at {name.address:#x}"
            raise TramplabError(f"{where} is a function of another kernel: ask this one for its own, by function({symbol_name!r}).")
        return traced

    def _has_untraced(self, function: Function) -> bool:
        symbol = None if function.name in self.slowpath.records else self.image.symbols.get(function.name)
        return symbol is not None and symbol.address == function.address

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of all traced functions."""
        return tuple(self.slowpath.records)

    # attaching

    def attach(self, function: Function | str | None, *requests: Request) -> tuple[Registered, ...]:
        """Register ops one after the other; those without a filter get `function` as theirs (None: all functions).

        If one is refused, the ones before it are taken back; so is one that is attached already, as each is one registration.
        """
        wanted = None if function is None else self.function(function)
        done: list[Registered] = []
        try:
            for r in requests:
                self._check_new(r)
                ops, steps = self.slowpath.register(self.filtered(r, wanted))
                self._asked[ops] = r
                done.append(ops)
                if ops.breakpoint:
                    self.machine.take_traps(vector(self.image))
                self.apply(steps)
        except TramplabError:
            self.detach(*done)
            raise
        return tuple(done)

    def detach(self, *ops: Registered) -> None:
        """Unregister ops, last one first."""
        for o in reversed(ops):
            if not isinstance(o, Registered):
                raise TramplabError(f"detach() takes what attach() gave, one by one, as in detach(*ops), not {shown(o)}.")
            self.apply(self.slowpath.unregister(o))
            self._asked.pop(o, None)

    def modify(self, ops: Registered, request: Request) -> None:
        """Give BPF's trampoline of a function other programs: the attached ops becomes what this request asks for."""
        self.apply(self.slowpath.modify(ops, dataclasses.replace(request, filter=ops.functions)))
        self._asked[ops] = request

    @contextmanager
    def attached(self, function: Function | str | None, *requests: Request) -> Iterator[tuple[Registered, ...]]:
        """Attach for the length of a `with`."""
        ops = self.attach(function, *requests)
        try:
            yield ops
        finally:
            self.detach(*ops)

    def filtered(self, request: Request, function: Function | None) -> Request:
        """A request with a function as its filter, if it has none of its own; None stands for all functions."""
        if request.filter or function is None:
            return request
        return dataclasses.replace(request, filter=(function.name,))

    def apply(self, steps: Iterable[Step]) -> None:
        """Carry out a plan to its end; with one CPU there is nobody to wait for."""
        for _ in self.stepwise(steps):
            pass

    def stepwise(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Carry out a plan a step at a time: each is done when it is given, and anything may be called before the next."""
        for step in steps:
            if isinstance(step, Write):
                store = self.machine.poke if self.machine.is_text(step.address) else self.machine.write
                store(step.address, step.data)
            elif isinstance(step, Free):
                step.owner.give(step.what)
            yield step

    # calling

    def call(
        self,
        function: Function | str,
        *arguments: int,
        registers: dict[str, int] | None = None,
        budget: int = DEFAULT_BUDGET,
        cpu: int = 0,
    ) -> Run:
        """Call a traced function with integer arguments, as compiled code would, and watch. A struct by value is its words, one
        argument each.

        registers: further registers to set at entry.
        budget: instructions before StepLimit is raised.
        cpu: the number of the CPU that runs it.

        Negative numbers are passed as in C. Raises GuestFault, StepLimit; the kernel stays usable.
        """
        f = self.function(function)
        before = self._hits()
        with self.machine.on(whole(cpu, "cpu")):
            start, stack = self.passed(arguments, registers or {}, f.name)
            try:
                raw = self.machine.call(f.address, start, stack, budget)
            except TramplabError:
                boot.boot(self.machine, self.cpus[cpu])  # the call may have ended with a guard held or preemption off
                raise
        after = self._hits()
        hits = tuple(b - a for a, b in zip(before, after, strict=True))
        executed = self.machine.memory.code.later(lambda: raw.tally.issued)  # whatever text has become by then
        return Run(f, View(self.isa, str(self), self.names(), self._components.of, executed), raw, hits)

    def passed(
        self, arguments: tuple[int, ...], registers: dict[str, int], function: str = ""
    ) -> tuple[dict[str, int], list[int]]:
        """How a caller passes words of arguments: all registers that it sets, `registers` among them, and the words on the stack.
        function: the name of the one that is called, whose structs decide where words are; by default all are integers."""
        isa, words = self.isa, [whole(a, f"argument {n}", *WORDS) for n, a in enumerate(arguments, 1)]
        if not isinstance(registers, Mapping):
            raise TramplabError(f"registers= is names with numbers, such as {{{isa.fp!r}: 0}}, not {shown(registers)}.")
        chosen = {name: whole(value, f"register {name}", *WORDS) for name, value in registers.items()}
        places = passing(isa, self.image.prototypes.get(function, Prototype(function, ())), len(words))
        found = dict(zip(places, words, strict=True))
        start = {isa.fp: self.machine.stack_top - 32, **chosen, **{p: w for p, w in found.items() if isinstance(p, str)}}
        return start, [w for _, w in sorted((p, w) for p, w in found.items() if isinstance(p, int))]

    def names(self) -> Callable[[int], str | None]:
        """address -> symbol+offset, the trampolines that exist now included; None where nothing has a name."""
        return names(self.image, self.slowpath.everyone)

    def memory(self, *words: int) -> int:
        """A fresh stretch of guest memory holding these 8-byte words, one at least; returns its address."""
        if not words:
            raise TramplabError("memory() of no words has no address: give it one word or more.")
        values = [whole(w, f"word {n}", *WORDS) for n, w in enumerate(words, 1)]
        address = self.heap.take(8 * len(values))
        for i, value in enumerate(values):
            self.machine.write_u64(address + 8 * i, value)
        return address

    # inside

    def _check_new(self, request: object) -> None:
        """Raise TramplabError for what is no request, or one that is attached already."""
        if not isinstance(request, Request):
            raise TramplabError(f"what is attached is a request, such as Ops(), not {shown(request)}.")
        if any(self._asked.get(o) is request for o in self.slowpath.everyone):
            kind = type(request).__name__
            raise TramplabError(f"that {kind} is attached already: detach it first, or make another {kind}().")

    def _hits(self) -> list[int]:
        """Calls of each registered ops, in list order, with the requests that share an ops in its place; read at once, which is
        quicker for many."""
        places = [self.slowpath.memory.hits(o.index) for o in self.slowpath.counted]
        first, last = min(places, default=0), max(places, default=0)
        counters = self.machine.read(first, last - first + 8) if places else b""
        return [int.from_bytes(counters[at - first : at - first + 8], "little") for at in places]
