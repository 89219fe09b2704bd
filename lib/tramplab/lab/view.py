"""What a run needs to know of its kernel, copied, so that later changes of the kernel do not reach it."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..emulate.decode import Instruction
from ..emulate.image import Image
from ..ftrace.ops import Registered
from ..ftrace.site import Site
from ..isa import Isa


@dataclass(frozen=True)
class Function:
    """A traced function: its name, patch site, address and size in bytes."""

    name: str
    site: Site
    address: int
    size: int

    def __repr__(self) -> str:
        return f"<{self.name} at {self.address:#x}>"


class Components:
    """The parts of a kernel by address. They never change, so the answers are kept."""

    def __init__(self, image: Image, sites: Iterable[Site]) -> None:
        self._image, self._sites = image, sorted(sites, key=lambda s: s.entry)
        self._entries = [s.entry for s in self._sites]
        self._known: dict[int, str] = {}

    def of(self, pc: int) -> str:
        """site, trampoline, core, callback or function; a site reaches from a function's first byte to its body."""
        if pc not in self._known:
            self._known[pc] = self._at(pc)
        return self._known[pc]

    def _at(self, pc: int) -> str:
        component = self._image.component_at(pc) or "trampoline"  # what is in no image was made for an ops
        before = bisect.bisect_right(self._entries, pc)
        return "site" if component == "function" and before and pc < self._sites[before - 1].body else component


@dataclass(frozen=True)
class View:
    """What a run needs to know of its kernel.

    config: the release, with what was overridden.
    name_of: address -> symbol+offset, None where no symbol is.
    component_of: see Components.of.
    instructions: gives what was executed, by address.
    """

    isa: Isa
    config: str
    name_of: Callable[[int], str | None]
    component_of: Callable[[int], str]
    instructions: Callable[[], dict[int, Instruction]]


def names(image: Image, registered: Iterable[Registered]) -> Callable[[int], str | None]:
    """address -> symbol+offset, the code that was made for these ops included; None where nothing has a name."""
    made = sorted((g.address, g.size, f"{g.name}[{o.index}]") for o in registered for g in o.generated)
    starts = [start for start, *_ in made]

    def name(address: int) -> str | None:
        if at := bisect.bisect_right(starts, address):
            start, size, symbol = made[at - 1]
            if address < start + size:
                return f"{symbol}+{address - start:#x}" if address > start else symbol
        return image.where(address)

    return name
