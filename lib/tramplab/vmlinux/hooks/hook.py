"""A way to hook a function of a real kernel, and what must then be seen of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...base.errors import TramplabError
from ...ftrace.ops import Request
from ...lab import names
from ...lab.hooks import several
from ...lab.view import Function
from ..run.arguments import FIRST
from ..run.machine import RealMachine

__all__ = ["FIRST", "Absent", "Expected", "Hook", "Observed", "each", "require"]


class Absent(TramplabError):
    """The image has no such hook; the text says why."""


@dataclass(frozen=True)
class Observed:
    """A block that own code fills: its address, how often it must be called, and what it must be given, None where that is not
    looked at. `what` names it in a complaint. value: the second thing must be what the function returns."""

    block: int
    hits: int
    first: int | None
    second: int | None
    what: str
    value: bool = False


@dataclass(frozen=True)
class Expected:
    """The expected state of a call.

    observed: the values that own code was given.
    arguments: registers that must reach the body unchanged, None for all that can carry arguments; code that is made for one
        function keeps only those that this one takes.
    arrays: the words of arguments, as BPF programs were given them.
    """

    observed: tuple[Observed, ...] = ()
    arguments: tuple[str, ...] | None = None
    arrays: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class Hook:
    """A hook of real kernels.

    name: as on the command line; of a hook of the lab's as in lab.names.
    attach: attaches it and returns the expected state of a call; raises Absent.
    notes: differences to a booted kernel, beside state.FAKED, for the reader.
    asked: the lab's requests for the same, where no hook of the lab's has this name or it asks otherwise.
    """

    name: str
    attach: Callable[[RealMachine, Function], Expected]
    notes: str = ""
    asked: Callable[[], list[Request]] | None = None

    def lab(self) -> list[Request]:
        """The lab's requests for the same; raises TramplabError where it has nothing like it."""
        if self.asked:
            return self.asked()
        hook, callbacks = names.of_image(self.name)
        return hook.requests(callbacks)


def each(name: str, attach: Callable[[RealMachine, Function, int], Expected], notes: str = "") -> Iterator[Hook]:
    """A hook for each number of consumers of one kind on a function, as in "fprobe" and "fprobe:2". attach is given the number."""
    for n in (1, 2, 10):
        yield Hook(several(name, n), lambda m, f, n=n: attach(m, f, n), notes)  # type: ignore[misc]


def require(machine: RealMachine, *symbols: str) -> None:
    """Raise Absent unless the image has these functions."""
    for symbol in symbols:
        if not machine.opened.has(symbol):
            raise Absent(f"{machine.opened.version} has no {symbol}()")
