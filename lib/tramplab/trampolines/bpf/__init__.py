"""BPF trampolines: for one function and a list of programs, code made at run time that the patch site calls directly.

The kernel's JITs make them for fentry, fexit and fmod_ret programs and attach them as direct calls. Everything a trampoline
saves follows from the function's signature, which the kernel has from BTF and the lab from DWARF.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ftrace.ops import Request
from ..kind import Hook, Kind
from .request import MOST_PROGRAMS, Bpf
from .trampolines import BpfTrampolines

__all__ = ["KIND", "MOST_PROGRAMS", "Bpf", "BpfTrampolines"]


def _programs(kind: str, what: str, requests: Callable[[int], list[Request]]) -> Hook:
    """The hook of BPF programs of a kind, in one trampoline made for the function."""
    name = f"bpf-{kind.replace('_', '')}"
    return Hook(name, f"{kind} programs, {what}", "bpf", True, requests, MOST_PROGRAMS, offered="direct", placed="far")


KIND = Kind(
    BpfTrampolines,
    (
        _programs("fentry", "before the function", lambda k: [Bpf(fentry=k)]),
        _programs("fexit", "behind the function, which the trampoline calls", lambda k: [Bpf(fexit=k)]),
        _programs("fmod_ret", "that can keep the function from running", lambda k: [Bpf(fmod_ret=k)]),
    ),
)
