"""Hypothetical: each function's site goes to the smallest trampoline that serves all ops on it. No kernel has it.

A kernel made with `fitting=True` has it, for ops of any save set (`Ops`), one or many on a function.
"""

from __future__ import annotations

from .slowpath import ORDER, FittingSlowPath

__all__ = ["ORDER", "FittingSlowPath"]
