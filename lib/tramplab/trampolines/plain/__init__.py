"""A callback: an ftrace_ops that one of the kernel's common trampolines serves, or on x86-64 a copy of one."""

from __future__ import annotations

from ...ftrace.ops import Request
from ..kind import Hook, Kind
from .maker import PlainOps
from .request import Ops

__all__ = ["KIND", "Ops", "PlainOps", "each"]


def each(count: int, save: str = "args") -> list[Request]:
    """So many ops of this save set."""
    return [Ops(save=save) for _ in range(count)]


KIND = Kind(
    PlainOps,
    (
        Hook("none", "nothing attached", "ops", False, lambda _: []),
        Hook("ops", "an ftrace_ops that takes the argument registers", "ops", True, each),
        Hook("ops-regs", "an ftrace_ops that wants all registers", "regs", True, lambda k: each(k, "regs")),
    ),
)
