"""What bounds how many calls can be seen returning at once: tasks that are all in a call, and what their probe counts and holds."""

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
