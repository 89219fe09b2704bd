"""One ops for all direct calls, as x86-64's kernel has it since v7.0, and ways in which arm64 and riscv64 could have it, which no
kernel has.

There the callsite's word leads to an ops, and the ops names the one target of its direct calls: one ops is one target. With one
ops for all, ftrace_caller must find the target elsewhere where a site does not reach it. Where it does, the site calls it, and
nothing differs. A kernel made with `slow_path=` and the name of a way has that way, for requests of the type Direct.
"""

from __future__ import annotations

from functools import partial

from ..kind import SlowPathKind
from .slowpath import SingleSlowPath
from .ways import WAYS, Way, check, with_way


def _slow_path(way: Way) -> SlowPathKind:
    note = f" with one ops for all direct calls ({way.name})" + ", which no kernel has" * way.hypothetical
    return SlowPathKind(partial(check, way), partial(with_way, way), partial(SingleSlowPath, way=way), note)


SLOW_PATHS = {name: _slow_path(way) for name, way in WAYS.items()}

__all__ = ["SLOW_PATHS", "WAYS", "SingleSlowPath", "Way"]
