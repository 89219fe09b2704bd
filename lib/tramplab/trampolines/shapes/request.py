"""The request for a trampoline of a given shape."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...ftrace.ops import Request

MIN_SAVES, MAX_SAVES, MAX_NESTED = 2, 14, 3
GRID_SAVES = (2, 5, 8, 11, 14)


@dataclass(frozen=True)
class Shape(Request):
    """A trampoline's shape; two requests for the same are equal.

    saves: registers saved and restored (2 to 14), the argument registers first; so it fits functions with no more arguments than
        that.
    nested: calls of the leaf (0 to 3).
    balanced: see the module.
    observe: the leaf writes down the arguments it sees and then overwrites every register it may, instead of returning at once.
    """

    saves: int
    nested: int
    balanced: bool
    observe: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
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
