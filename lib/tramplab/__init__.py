"""Tramplab: five design arguments about Linux function tracing, re-run under emulation."""

import importlib

_MODULES = {
    "Bpf": "trampolines.bpf",
    "Direct": "trampolines.direct",
    "Fgraph": "trampolines.fprobe",
    "Fprobe": "trampolines.fprobe",
    "GuestFault": "base.errors",
    "Kernel": "lab.kernel",
    "Kprobe": "trampolines.kprobe",
    "Kretprobe": "trampolines.kprobe",
    "Ops": "trampolines.plain",
    "StepLimit": "base.errors",
    "TramplabError": "base.errors",
}
__all__ = ["Bpf", "Direct", "Fgraph", "Fprobe", "GuestFault", "Kernel", "Kprobe", "Kretprobe", "Ops", "StepLimit", "TramplabError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """The names above, imported when they are asked for: no part of the package waits for parts that it does not use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
