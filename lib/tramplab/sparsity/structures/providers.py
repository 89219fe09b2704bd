"""Providers of a register structure: hooks, named after the code that fills it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base.arguments import of_name
from ...base.errors import TramplabError
from ...ftrace.meant import fprobes_on_graph_tracer
from ...ftrace.ops import Request
from ...ftrace.releases import Features
from ...lab.kernel import Kernel
from ...trampolines.fprobe.request import Fprobe
from ...trampolines.kprobe import Kprobe, Kretprobe
from ...trampolines.plain import Ops
from .fields import FTRACE_REGS, PT_REGS

#: Places where a provider takes over: at a function's first byte; at a breakpoint in it. Others are the symbol that a function
#: returns to.
ENTRY, BREAKPOINT = "entry", "breakpoint"


@dataclass(frozen=True)
class Provider:
    """Code that fills a register structure.

    name: of that code, or of what is made of such a structure.
    request: attaches it.
    offered: does a kernel with these features have it?
    consumer: the guest function that gets the structure.
    argument: its number among that function's.
    struct: "pt_regs" or "ftrace_regs".
    takes_over: ENTRY, BREAKPOINT, or the guest symbol that a hooked function returns to.
    """

    name: str
    title: str
    request: Callable[[tuple[str, ...]], Request]
    offered: Callable[[Features], bool]
    consumer: str
    argument: int
    struct: str
    takes_over: str = ENTRY

    @property
    def at_return(self) -> bool:
        """Does it take over behind the function?"""
        return self.takes_over not in (ENTRY, BREAKPOINT)


def _kretprobe(name: str, whom: str, kept: str) -> Provider:
    """The provider that a kretprobe's return comes back to, in kernels with this value (kept) of the feature kretprobe."""
    return Provider(
        name,
        f"{name}, {whom}",
        lambda functions: Kretprobe(filter=functions, breakpoint=True, untraced=True),
        lambda f: f["kretprobe"] == kept,
        "lab_kretprobe_exit",
        1,
        PT_REGS,
        name,
    )


_PROVIDERS = (
    Provider(
        "ftrace_caller",
        "ftrace_caller, to an ops' callback",
        lambda functions: Ops(filter=functions),
        lambda f: bool(f["ops"]),
        "lab_callback",
        3,
        FTRACE_REGS,
    ),
    Provider(
        "ftrace_regs_caller",
        "ftrace_regs_caller, to the callback of an ops with SAVE_REGS",
        lambda functions: Ops(filter=functions, save="regs"),
        lambda f: bool(f["regs"]),
        "lab_callback",
        3,
        FTRACE_REGS,
    ),
    Provider(
        "kprobe_ftrace_handler",
        "kprobe_ftrace_handler(), behind ftrace_regs_caller, to a kprobe's handler",
        lambda functions: Kprobe(filter=functions),
        lambda f: bool(f["kprobes_on_ftrace"]),
        "lab_kprobe_pre",
        1,
        PT_REGS,
    ),
    Provider(
        "breakpoint",
        "the exception of a breakpoint, to a kprobe's handler",
        lambda functions: Kprobe(filter=functions, breakpoint=True),
        lambda f: bool(f["ops"]),
        "lab_kprobe_pre",
        1,
        PT_REGS,
        BREAKPOINT,
    ),
    _kretprobe("arch_rethook_trampoline", "to a kretprobe's handler, and up to v6.13 to an fprobe's", "rethook"),
    _kretprobe("__kretprobe_trampoline", "to a kretprobe's handler", "own"),
    Provider(
        "return_to_handler",
        "return_to_handler, to an fprobe's exit handler",
        lambda functions: Fprobe(filter=functions, exit=True),
        fprobes_on_graph_tracer,
        "lab_fprobe_exit",
        3,
        FTRACE_REGS,
        "return_to_handler",
    ),
)
PROVIDERS = {p.name: p for p in _PROVIDERS}


def provider(name: str) -> Provider:
    """The provider of this name; raises TramplabError with near matches."""
    return of_name("provider", name, PROVIDERS)


def require(chosen: Provider, kernel: Kernel) -> None:
    """Raise TramplabError, with those that there are, if a kernel does not have a provider."""
    if not chosen.offered(kernel.features):
        offered = ", ".join(p.name for p in of(kernel.features))
        raise TramplabError(f"{kernel} has no {chosen.name}; it has {offered}.")


def of(features: Features) -> list[Provider]:
    """The providers of a kernel with these features, in order."""
    return [p for p in _PROVIDERS if p.offered(features)]
