"""Probes on function returns: how many calls can be seen returning at once, what a probe counts and holds, and what it can do."""

from ..base import signatures

#: No module is called so often that only its constructors check types.
INNER: tuple[str, ...] = ()
signatures.hold(__name__, INNER)

from .bounds import MISSED, NOTHING, STACK, Bound, Bounds
from .counted import CODE, NODES, PARTS, RINGS, SHADOW, STRUCTS, Counted, counted, held
from .nest import Nested, nest
from .tasks import StackEnded, Tasks

__all__ = [
    "CODE",
    "MISSED",
    "NODES",
    "NOTHING",
    "PARTS",
    "RINGS",
    "SHADOW",
    "STACK",
    "STRUCTS",
    "Bound",
    "Bounds",
    "Counted",
    "Nested",
    "StackEnded",
    "Tasks",
    "counted",
    "held",
    "nest",
]
