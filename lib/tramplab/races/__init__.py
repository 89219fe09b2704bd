"""Every interleaving of threads that call a traced function with the steps that change it, executed as machine code.

A Subject is what is explored: a function, the threads' way through it, and a plan of the slow path's steps. Moments are the
places between those steps; Fetches says what a CPU may find at an address then. Threads executes their instructions, one at a
time, and judges them; explore() visits all states, finds the shortest schedule that ends badly, or that there is none.
"""

from ..base import signatures

#: Modules of which only constructors check types, since they are called for every instruction.
INNER: tuple[str, ...] = (
    "search.automaton", "model.cpu", "model.executions", "model.fetches", "model.judge", "model.locals", "model.threads"
)
signatures.hold(__name__, INNER)

from .explore import Result, explore
from .model.fetches import MODELS
from .subject import Subject

__all__ = ["MODELS", "Result", "Subject", "explore"]
