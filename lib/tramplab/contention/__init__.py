"""CPUs that contend for the nodes of return hooks, interleaved at instructions: retries, instructions, misses, fairness."""

from ..base import signatures

#: No module is called so often that only its constructors check types.
INNER: tuple[str, ...] = ()
signatures.hold(__name__, INNER)

from .contend import SCHEDULES, Contended, contend
from .pools import POOLS

__all__ = ["POOLS", "SCHEDULES", "Contended", "contend"]
