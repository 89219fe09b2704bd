"""Making shapes: a direct call to code of the shape, near the text."""

from __future__ import annotations

from typing import Protocol

from ...build.assemble import assemble
from ...emulate.image import Image
from ...ftrace.ops import Registered, Request
from ...ftrace.steps import Free, Step, text
from ...isa.record import Branch
from ..direct import check_direct, registered
from ..guest import ROOM, Guest
from . import arm64, riscv64, x86_64
from .request import Shape


class ShapeArch(Protocol):
    """What the module of each ISA has."""

    @property
    def CALL(self) -> Branch:
        """The branch by which a trampoline calls."""

    @property
    def SAVED(self) -> list[str]:
        """The registers that a trampoline can save, in order."""

    def before(self, saved: list[str]) -> str:
        """Assembly before the calls: make the frame and save."""

    def after(self, saved: list[str], balanced: bool) -> str:
        """Assembly behind them: restore and leave, balanced or not."""


_MODULES: dict[str, ShapeArch] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}


def code(image: Image, shape: Shape, address: int | None = None) -> bytes:
    """The trampoline's bytes, as lying at an address; by default at the first address of the room near the text."""
    isa, module, leaf = image.isa, _MODULES[image.isa.name], image.address(shape.leaf)
    address = image.address(ROOM) if address is None else address
    saved = module.SAVED[: shape.saves]
    assembled = assemble(isa, module.before(saved), address)
    for _ in range(shape.nested):
        assembled += module.CALL.encode(address + len(assembled), leaf)
    return assembled + assemble(isa, module.after(saved, shape.balanced), address + len(assembled))


class ShapeCalls:
    """The maker of direct calls to shapes, and of the shapes."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def serves(self, request: Request) -> bool:
        """Is it a shape?"""
        return isinstance(request, Shape)

    def check(self, request: Request, functions: tuple[str, ...]) -> None:
        """Raise TramplabError if the release has no direct calls."""
        check_direct(self._guest, request)

    def make(self, request: Shape, functions: tuple[str, ...]) -> Registered:
        """The registration: alone on its functions, and called by their sites themselves, as a call through a common trampoline
        would be another measurement."""
        ops = registered(self._guest, request, functions)
        ops.alone = "a shape must be alone on {}, or it would be called through a common trampoline: detach the others first."
        ops.must_reach = "the patch site of {} cannot reach the shape; choose an earlier function."
        return ops

    def create(self, ops: Registered) -> list[Step]:
        """The steps that make the shape; raises TramplabError if there is no room left."""
        image = self._guest.image
        ops.direct = self._guest.near.take(len(code(image, ops.request)))
        return [text(ops.direct, code(image, ops.request, ops.direct), f"{ops.request}")]

    def free(self, ops: Registered) -> list[Step]:
        """The steps that clear and free the shape's room."""
        if not ops.direct:
            return []
        near = self._guest.near
        empty = text(ops.direct, bytes(near.taken(ops.direct)), "the room is empty again")
        return [empty, Free(near, ops.direct, "the shape")]
