"""One ops for all direct calls, as x86-64's kernel has it since v7.0, and ways in which arm64 and riscv64 could have it, which no
kernel has.

There the callsite's word leads to an ops, and the ops names the one target of its direct calls: one ops is one target. With one
ops for all, ftrace_caller must find the target elsewhere where a site does not reach it. Where it does, the site calls it, and
nothing differs. A kernel made with `single=` and the name of a way has that way, for requests of the type Direct.
"""

from __future__ import annotations

from .slowpath import SingleSlowPath
from .ways import WAYS, Way, get, with_way

__all__ = ["WAYS", "SingleSlowPath", "Way", "get", "with_way"]
