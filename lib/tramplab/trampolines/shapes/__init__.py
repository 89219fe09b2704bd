"""Trampolines of a given shape, to hold estimates against: so many registers saved, so many calls made, and a way out.

A shape is called from the patch site as a direct call is. It saves registers in a frame of its own, calls a small leaf,
restores, and goes on to the traced function's body. (There are no landing pads.) How it goes there is what matters to
the return stack, on which the patch site's call has pushed the body's address, above the caller's:

balanced      by what the CPU takes for a return: x86-64 RET, arm64 RET x10, riscv64 JR t0. It pops what the site's call
              pushed, so the return stack is right and stays right.
unbalanced    by an indirect jump that is no return: x86-64 POP r11 and JMP *r11, arm64 BR x10, riscv64 JR t1. The site's
              push stays, and the return of the function itself meets it: one misprediction a call, and one entry too
              many below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from ...build.assemble import assemble
from ...errors import TramplabError
from ...ftrace.ops import Direct
from . import arm64, riscv64, x86_64

if TYPE_CHECKING:
    from ...lab.kernel import Function, Kernel

#: One module per ISA: CALL, how a trampoline calls; SAVED, what it can save, in order; before() and after() the calls.
_MODULES: dict[str, ModuleType] = {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}
ROOM = "lab_shape"
MIN_SAVES, MAX_SAVES, MAX_NESTED = 2, 14, 3
GRID_SAVES = (2, 5, 8, 11, 14)


@dataclass(frozen=True)
class Shape:
    """What a trampoline does.

    saves: registers saved and restored (2 to 14), the argument registers first; so it fits functions with no more
    arguments than that. nested: calls of the leaf (0 to 3). balanced: see the module. observe: the leaf writes down the
    arguments it sees and then spoils every register it may, instead of returning at once.
    """

    saves: int
    nested: int
    balanced: bool
    observe: bool = False

    def __post_init__(self) -> None:
        if not (MIN_SAVES <= self.saves <= MAX_SAVES and 0 <= self.nested <= MAX_NESTED):
            raise TramplabError(
                f"a shape saves {MIN_SAVES} to {MAX_SAVES} registers and makes 0 to {MAX_NESTED} calls, "
                f"not {self.saves} and {self.nested}."
            )

    def __str__(self) -> str:
        return f"shape-{self.saves}-{self.nested}-{'balanced' if self.balanced else 'unbalanced'}"

    @property
    def leaf(self) -> str:
        """The guest function it calls."""
        return "lab_observe_direct_clobber" if self.observe else "ftrace_stub"


#: Forty shapes that estimates are held against: every combination of few to many saves, 0 to 3 calls, both ways out.
GRID = tuple(Shape(s, n, b) for b in (True, False) for n in range(MAX_NESTED + 1) for s in GRID_SAVES)


@dataclass(frozen=True, eq=False)
class ShapeCall(Direct):
    """A direct call to the trampoline that was installed last."""

    @property
    def target(self) -> str:
        return ROOM


def code(kernel: Kernel, shape: Shape) -> bytes:
    """The trampoline's bytes, as lying in its room in this kernel."""
    isa, own = kernel.isa, _MODULES[kernel.isa.name]
    address, leaf = kernel.image.address(ROOM), kernel.image.address(shape.leaf)
    saved = own.SAVED[: shape.saves]
    out = assemble(isa, own.before(saved), address)
    for _ in range(shape.nested):
        out += own.CALL.encode(address + len(out), leaf)
    return out + assemble(isa, own.after(saved, shape.balanced), address + len(out))


def install(kernel: Kernel, shape: Shape) -> int:
    """Write the trampoline into its room, over the one that was there; returns its address.

    Nothing may be attached that calls the old one.
    """
    if any(isinstance(o.request, ShapeCall) for o in kernel.slowpath.ops):
        raise TramplabError("a shape is attached, and there is room for one: detach it before installing another.")
    room, data = kernel.image.symbol(ROOM), code(kernel, shape)
    if any(room.address <= o.trampoline < room.address + room.size for o in kernel.slowpath.ops):
        raise TramplabError("a trampoline of a given save set is attached and has the room: detach its ops first.")
    kernel.machine.poke(room.address, data + bytes(room.size - len(data)))
    return room.address


@contextmanager
def attached(kernel: Kernel, function: Function, shape: Shape) -> Iterator[None]:
    """Install a shape and attach it to a function for the length of a `with`.

    Raises TramplabError where the release has no direct calls, or where the patch site cannot call it by itself.
    """
    address = install(kernel, shape)
    with kernel.attached(function, ShapeCall()):
        if kernel.slowpath.target(function.name) != address:
            raise TramplabError(
                f"the patch site of {function.name} cannot reach the shape; choose an earlier function."
            )
        yield
