"""CPUs that contend for the nodes of return hooks, interleaved at instructions: retries, instructions, misses, fairness."""

from .contend import SCHEDULES, Contended, contend
from .pools import POOLS

__all__ = ["POOLS", "SCHEDULES", "Contended", "contend"]
