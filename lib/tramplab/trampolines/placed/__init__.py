"""A direct call of code at a place of one's own choice, as far from the patch site as one likes: no kernel lets its user choose,
but its allocators do, and which way a call takes follows from the place."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...build.assemble import assemble
from ...ftrace import window
from ...ftrace.ops import Generated, Registered, Request
from ...ftrace.steps import Free, Step, text
from ..direct import check_direct, registered
from ..guest import Guest
from ..kind import Kind

#: The code at the place: entered as a direct call is, it continues in the function, with the caller's return address in the link
#: register where the ISA has one.
_CODE = {"x86_64": "ret", "arm64": "mov x10, x30\nmov x30, x9\nret x10", "riscv64": "jr t0"}


@dataclass(frozen=True, eq=False)
class Placed(Request):
    """A direct call of code at an address, for which Kernel(room_at=) has set room aside, or where the kernel's text has a gap."""

    at: int = 0


class PlacedCalls:
    """The maker of these direct calls, which writes and clears their code."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        isa = guest.image.isa
        self._code = assemble(isa, _CODE[isa.name])
        self._taken: list[int] = []

    def serves(self, request: Request) -> bool:
        """Is it a direct call of code at a chosen place?"""
        return isinstance(request, Placed)

    def check(self, request: Placed, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if the release has no direct calls, or if there is no room at the place."""
        check_direct(self._guest, request)
        isa, end = self._guest.image.isa, request.at + len(self._code)
        step = window.step(isa, self._guest.features)
        if request.at % step:
            raise TramplabError(
                f"a direct call of {self._guest.features} has no target at {request.at:#x}: choose a multiple of {step}."
            )
        if not any(start <= request.at and end <= behind for start, behind in self._guest.gaps):
            raise TramplabError(f"there is no room for code at {request.at:#x}: name it in Kernel(room_at=), outside the image.")
        if any(at < end and request.at < at + len(self._code) for at in self._taken):
            raise TramplabError(f"other code lies at {request.at:#x} already: detach that first.")

    def make(self, request: Placed, functions: tuple[str, ...]) -> Registered:
        """The registration, whose target is the place."""
        ops = registered(self._guest, request, functions)
        ops.direct = request.at
        return ops

    def create(self, ops: Registered) -> list[Step]:
        """The steps that write the code at its place."""
        self._taken.append(ops.direct)
        ops.generated = (Generated(ops.direct, len(self._code), "placed_trampoline"),)
        return [text(ops.direct, self._code, "code that goes on to the function")]

    def free(self, ops: Registered) -> list[Step]:
        """The steps that clear the place, and free it."""
        return [
            step
            for made in ops.generated
            for step in (text(made.address, bytes(made.size), "the place is empty again"), Free(self, made.address, "the place"))
        ]

    def give(self, what: int) -> None:
        """Take a place back."""
        self._taken.remove(what)


KIND = Kind(PlacedCalls)
