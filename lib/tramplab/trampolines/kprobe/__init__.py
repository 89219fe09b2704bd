"""kprobes at a function's entry: through ftrace, where the ISA serves them so, and through a breakpoint exception. And kretprobes,
which are kprobes that hook the return."""

from __future__ import annotations

from ..kind import Hook, Kind
from .kretprobe import Kretprobe
from .maker import MODULES, Kprobes
from .request import Kprobe

__all__ = ["KIND", "MODULES", "Kprobe", "Kretprobe"]

KIND = Kind(
    Kprobes,
    (
        Hook("kprobe", "a kprobe on the patch site, through ftrace", "kprobes_on_ftrace", False, lambda _: [Kprobe()], probe=True),
        Hook(
            "kprobe-brk",
            "a kprobe by a breakpoint, at the first instruction that may have one",
            "ops",
            False,
            lambda _: [Kprobe(breakpoint=True)],
            probe=True,
            traps=True,
        ),
        Hook(
            "kretprobe",
            "a kretprobe through ftrace: the function's return",
            "kprobes_on_ftrace",
            False,
            lambda _: [Kretprobe()],
            probe=True,
        ),
        Hook(
            "kretprobe-brk",
            "a kretprobe by a breakpoint: the function's return",
            "ops",
            False,
            lambda _: [Kretprobe(breakpoint=True)],
            probe=True,
            traps=True,
        ),
    ),
)
