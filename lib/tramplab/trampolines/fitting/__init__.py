"""Hypothetical: each function's site goes to the smallest trampoline that serves all ops on it. No kernel has it.

A kernel made with `slow_path="fitting"` has it, for ops of any save set (`Ops`), one or many on a function.
"""

from __future__ import annotations

from ..kind import SlowPathKind
from .slowpath import ORDER, FittingSlowPath

SLOW_PATH = SlowPathKind(make=FittingSlowPath, note=" with fitted trampolines, which no kernel has")

__all__ = ["ORDER", "SLOW_PATH", "FittingSlowPath"]
