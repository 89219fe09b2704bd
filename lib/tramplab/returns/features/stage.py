"""A kernel, and a probe in it whose handlers write down what they see of calls and do what they are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ...base.arguments import of_name
from ...base.errors import GuestFault, StepLimit, TramplabError
from ...build.dwarf import Field
from ...ftrace.arch.common import rethook_pool
from ...ftrace.layout import fields
from ...ftrace.meant import kretprobes_on_return_hooks
from ...ftrace.ops import Registered, Request
from ...lab import boot
from ...lab.kernel import Kernel
from ...trampolines.bpf import Bpf
from ...trampolines.fprobe import Fgraph, Fprobe
from ...trampolines.kprobe import Kretprobe
from ..counted import counted_missed

#: The guest's structs and variables (guest/consumers/returns.c).
_TOLD, _ROW, _COUNT = "lab_watching", "lab_watched", "lab_watched_count"
#: Request -> what makes it watch at the entry and at the return, and what it calls the data of a call and the size of its pool.
_WATCHES: dict[type[Request], dict[str, Any]] = {
    Kretprobe: {"entry": True, "watch": True},
    Fprobe: {"entry": True, "exit": True, "watch": True},
    Fgraph: {"watch": True},
    Bpf: {"fentry": 1, "fexit": 1, "watch": True},
}
_DATA = (Kretprobe, Fprobe)
#: Request -> what leaves it the handler at the return alone.
_ALONE: dict[type[Request], dict[str, Any]] = {
    Kretprobe: {"entry": False, "declines": False},
    Fprobe: {"entry": False, "declines": False},
    Bpf: {"fentry": 0, "fexit": 1},
}
_POOL: dict[type[Request], str] = {Kretprobe: "maxactive", Fprobe: "nodes"}
#: Keepers of a probe's returns that are no pool: each task has a stack.
_NO_POOL = ("fgraph", "shadow")
WORD = 8


@dataclass(frozen=True)
class Row:
    """What a handler wrote down of one call.

    entered: was it the handler at the entry?
    value: what the call returned.
    data: the first word that the entry's handler left for this call, 0 for none.
    intact: how many words are as they were left.
    arguments: the arguments, according to its registers.
    """

    entered: bool
    value: int
    data: int
    intact: int
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """A call and what was seen of it.

    value: what it returned, None where it did not.
    warnings: that the kernel gave.
    panicked: it ended in panic().
    """

    value: int | None
    rows: tuple[Row, ...]
    warnings: int
    panicked: bool = False

    @property
    def entries(self) -> list[Row]:
        """The rows of the handler at the entry."""
        return [row for row in self.rows if row.entered]

    @property
    def exits(self) -> list[Row]:
        """The rows of the handler at the return."""
        return [row for row in self.rows if not row.entered]


class Stage:
    """Calls with a probe in a kernel. request: a probe on returns; whatever handlers it asks for, it gets those that watch.

    Raises TramplabError for one that sees no returns.
    """

    def __init__(self, kernel: Kernel, request: Request) -> None:
        if type(request) not in _WATCHES:
            kinds = ", ".join(kind.__name__ for kind in _WATCHES)
            raise TramplabError(f"{type(request).__name__} sees no function return; these do: {kinds}.")
        if not (getattr(request, "exit", True) and getattr(request, "fexit", 1)):
            raise TramplabError("this probe sees entries alone: give it exit=True, or fexit=1.")
        if getattr(request, "several", 1) != 1 or request.filter or request.notrace:
            raise TramplabError("one probe is tried, on functions of the lab's: leave several=, filter= and notrace= out.")
        self.kernel, self.request = kernel, request
        self._plain: dict[tuple[str, tuple[int, ...]], int] = {}
        self.notes: dict[object, Any] = {}  # of runs that several features are made of

    @property
    def keeps_data(self) -> bool:
        """Can a call have data, whether that is asked for with the probe or at each call?"""
        return not isinstance(self.request, Bpf)

    def sized(self, words: Iterable[int]) -> Iterator[Request]:
        """The probe without a handler at the entry, with so many words of data for a call, one after the other; where it can have
        none, once."""
        alone = dataclasses.replace(self.request, **_ALONE.get(type(self.request), {}))
        if not isinstance(alone, _DATA):
            yield alone
            return
        for n in words:
            yield dataclasses.replace(alone, data=WORD * n)

    @property
    def pooled(self) -> bool:
        """Does each call take something from a pool that was made for so many?"""
        return bool(self._pool)

    def address(self, function: str) -> int:
        """The address of a traced function."""
        return self.kernel.function(function).address

    def expected(self, function: str, *arguments: int) -> int:
        """What a call returns without a probe; only while there is none."""
        key = function, arguments
        if key not in self._plain:
            self._plain[key] = self.kernel.call(function, *arguments).value
        return self._plain[key]

    @contextmanager
    def attached(self, *functions: str, words: int = 0, calls: int | None = None, **told: int) -> Iterator[tuple[Registered, ...]]:
        """The probe on these functions, for a `with`.

        words: words of data that each call has.
        calls: how many calls can be followed at a time, None for the probe's default.
        told: see tell().

        Raises TramplabError for what is refused.
        """
        chosen: dict[str, Any] = dict(_WATCHES[type(self.request)])
        if isinstance(self.request, _DATA):
            chosen["data"] = WORD * words
        if calls is not None and self._pool:
            chosen[self._pool] = calls
        names: list[tuple[str, ...]] = [(name,) for name in functions] if isinstance(self.request, Bpf) else [functions]
        requests = [dataclasses.replace(self.request, **chosen, filter=some) for some in names]
        self.tell(words=words if self.keeps_data else 0, **told)
        try:
            with self.kernel.attached(None, *requests) as registered:
                yield registered
        finally:
            self.end_task()
            self.tell()

    def tell(self, **told: int) -> None:
        """Set what handlers do from now on: members of the guest's struct lab_watching, the others 0."""
        for member in told:
            self._member(member)
        self.kernel.machine.write(self.kernel.image.address(_TOLD), fields(self.kernel.image, _TOLD, told))

    def told(self, member: str) -> int:
        """A member of struct lab_watching, as it is now."""
        at = self.kernel.image.address(_TOLD) + self._member(member).offset
        return self.kernel.machine.read_u64(at)

    def _member(self, name: str) -> Field:
        return of_name(f"member of {_TOLD}", name, self.kernel.image.struct(_TOLD).fields)

    def call(self, function: str, *arguments: int) -> Seen:
        """Call a function; if the call goes astray, the task ends and another begins."""
        machine, image = self.kernel.machine, self.kernel.image
        machine.write_u64(image.address(_COUNT), 0)
        before, value = self._trouble(), None
        with suppress(GuestFault, StepLimit):
            value = self.kernel.call(function, *arguments).value
        warnings, panics = (now - then for now, then in zip(self._trouble(), before, strict=True))
        return Seen(value, self._rows(), warnings, bool(panics))

    def missed(self, registered: tuple[Registered, ...]) -> int:
        """The missed calls in the counters of these probes."""
        return sum(counted_missed(self.kernel, ops) for ops in registered)

    def end_task(self) -> None:
        """The task ends and another begins: nothing is on its lists or on its shadow stack."""
        boot.boot(self.kernel.machine, self.kernel.cpus[0])

    # inside

    def _trouble(self) -> tuple[int, int]:
        """Warnings and panics so far."""
        machine, image = self.kernel.machine, self.kernel.image
        return machine.read_u64(image.address("lab_warnings")), machine.read_u64(image.address("lab_panics"))

    @property
    def _pool(self) -> str:
        """What the request calls the size of its pool; "" where there is none."""
        features = self.kernel.features
        hooks = features["rethook"] if isinstance(self.request, Fprobe) else ""
        if isinstance(self.request, Kretprobe) and kretprobes_on_return_hooks(features):
            hooks = rethook_pool(features)
        return "" if hooks in _NO_POOL else _POOL.get(type(self.request), "")

    def _rows(self) -> tuple[Row, ...]:
        machine, image = self.kernel.machine, self.kernel.image
        layout, symbol = image.struct(_ROW), image.symbol(_ROW)
        count = machine.read_u64(image.address(_COUNT))
        if count > symbol.size // layout.size:
            raise TramplabError(f"handlers were called {count} times in one call; there is room for {symbol.size // layout.size}.")
        return tuple(self._row(symbol.address + n * layout.size) for n in range(count))

    def _row(self, at: int) -> Row:
        layout = self.kernel.image.struct(_ROW)
        data = self.kernel.machine.read(at, layout.size)

        def words(name: str) -> list[int]:
            field = layout.fields[name]
            member = data[field.offset : field.offset + field.size]
            return [int.from_bytes(member[i : i + WORD], "little") for i in range(0, field.size, WORD)]

        (entered,), (value,), (left,), (intact,) = map(words, ("entered", "value", "data", "intact"))
        return Row(bool(entered), value, left, intact, tuple(words("arguments")))
