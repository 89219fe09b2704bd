"""A callback: an ftrace_ops that one of the kernel's common trampolines serves, or on x86-64 a copy of one."""

from __future__ import annotations

from ...ftrace.ops import Request
from ..kind import Hook, Kind
from .maker import PlainOps
from .request import Ops

__all__ = ["KIND", "Ops", "PlainOps", "each"]


def each(count: int, save: str = "args") -> list[Request]:
    """A hook's requests: a number of ops with this save set."""
    return [Ops(save=save) for _ in range(count)]


KIND = Kind(
    PlainOps,
    (
        Hook("none", "nothing attached", "ops", False, lambda _: []),
        Hook("ops", "a dynamic ftrace_ops, which takes argument registers", "ops", True, each),
        Hook("ops-static", "the same, static: of the kernel's own data", "ops", False, lambda _: [Ops(dynamic=False)]),
        Hook("ops-regs", "an ftrace_ops that wants all registers", "regs", True, lambda k: each(k, "regs")),
    ),
)
