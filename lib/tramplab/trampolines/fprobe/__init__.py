"""fprobes: handlers at a function's entry and return, on an ops of their own and a return hook, as kernels had them up to v6.13."""

from __future__ import annotations

from collections.abc import Callable

from ...ftrace.ops import Request
from ..kind import Hook, Kind
from .maker import Fprobes
from .request import Fprobe

__all__ = ["KIND", "Fprobe"]


def _hook(name: str, title: str, one: Callable[[], Request]) -> Hook:
    return Hook(name, title, "rethook", True, lambda k: [one() for _ in range(k)], offered="fprobe", probe=True)


KIND = Kind(
    Fprobes,
    (
        _hook("fprobe", "an fprobe: the function's entry", Fprobe),
        _hook("fprobe-exit", "an fprobe: the function's return", lambda: Fprobe(entry=False, exit=True)),
        _hook("fprobe-declined", "an fprobe whose entry handler wants no return", lambda: Fprobe(exit=True, declines=True)),
    ),
)
