"""The lab kernel on the CPU in front of the reader: the same trampolines, natively, in nanoseconds.

    from tramplab import native
    result = native.time_hooks(["ops", "ops:10", "direct"])
    result.rows, result.warnings

The guest's sources are built once more, as code for a process (what then differs is in `isa.user_space.differs` and
`LIMITS`). Hooks are attached by the code that emulated runs use; a child process maps the outcome and calls it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .result import LIMITS, Result, load

if TYPE_CHECKING:
    from .timing import check, default_hooks, time_hooks, time_shapes

__all__ = ["LIMITS", "Result", "check", "default_hooks", "load", "time_hooks", "time_shapes"]


def __getattr__(name: str) -> object:
    """Import the code that times only when it is asked for: saved and kept times are available without that wait."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".timing", __name__), name)
