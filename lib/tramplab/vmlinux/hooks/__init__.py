"""The hooks for a function of a real kernel: each kind in a file, found here by name."""

from __future__ import annotations

from ...base.arguments import of_name
from ...lab.hooks import CALLED
from . import bpf, breakpoints, callbacks, directs, fprobes, graph, kprobes, livepatches
from .hook import Absent, Expected, Hook, Observed

__all__ = ["HOOKS", "Absent", "Expected", "Hook", "Observed", "get"]

#: By name, in the order in which results list them.
_KINDS = (callbacks, livepatches, directs, bpf, graph, fprobes, kprobes, breakpoints)
HOOKS: dict[str, Hook] = {h.name: h for kind in _KINDS for h in kind.HOOKS}


#: Hooks of the lab's that no kernel has, and what kernels have instead.
_INSTEAD = {"fprobe-bpf": "kprobe-multi, by which kernels run a BPF program on an fprobe"}


def get(name: str) -> Hook:
    """A hook by name; raises TramplabError with near matches."""
    return of_name("hook", name, HOOKS, CALLED | _INSTEAD)
