"""fprobes: handlers at a function's entry and return. Up to v6.13 each has an ops of its own and a return hook; from v6.14 on all
share one function graph tracer, and from v6.19 on those that see no return share an ops instead."""

from __future__ import annotations

from collections.abc import Callable

from ...ftrace.maker import Maker
from ...ftrace.meant import fprobes_on_graph_tracer
from ...ftrace.ops import Request
from ..guest import Guest
from ..kind import MAX_CALLBACKS, Hook, Kind
from .fgraph import Fgraph
from .graph import GraphFprobes, Shared
from .maker import Fprobes
from .request import Fprobe

__all__ = ["KIND", "Fgraph", "Fprobe", "Shared"]


#: Fprobes with an exit handler on one function at most: the tracer that they share keeps so many words of a call, of which each
#: takes one. With one more none is called.
MOST_EXITS = 32


_BARE, _LINK = "an fprobe with a bare handler", "BPF's kprobe_multi link, an fprobe with a BPF program"


def _hook(name: str, title: str, one: Callable[[], Request], most: int = MAX_CALLBACKS) -> Hook:
    return Hook(name, title, "rethook", True, lambda k: [one() for _ in range(k)], offered="fprobe", probe=True, most=most)


#: The hook of a proposal, which was made for fprobes on return hooks and which no kernel has.
_PROPOSED = Hook(
    "fprobe-bpf",
    "an fprobe with a BPF program, as was proposed for arm64; kernels have kprobe-multi",
    "rethook",
    True,
    lambda k: [Fprobe(bpf=True) for _ in range(k)],
    hypothetical=True,
    probe=True,
    unlike="fgraph",
)


def _maker(guest: Guest) -> Maker:
    return GraphFprobes(guest) if fprobes_on_graph_tracer(guest.features) else Fprobes(guest)


KIND = Kind(
    _maker,
    (
        _hook("fprobe", f"{_BARE}: the function's entry", Fprobe),
        _hook("fprobe-exit", f"{_BARE}: the function's return", lambda: Fprobe(entry=False, exit=True), MOST_EXITS),
        _hook(
            "fprobe-declined", "an fprobe whose entry handler wants no return", lambda: Fprobe(exit=True, declines=True), MOST_EXITS
        ),
        _PROPOSED,
        _hook("kprobe-multi", f"{_LINK}: the function's entry", lambda: Fprobe(multi=True)),
        _hook("kretprobe-multi", f"{_LINK}: the function's return", lambda: Fprobe(entry=False, exit=True, multi=True), MOST_EXITS),
        Hook(
            "kprobe-session",
            f"{_LINK} at the entry and, if it so decides, at the return",
            "kprobe_session",
            True,
            lambda k: [Fprobe(exit=True, multi=True) for _ in range(k)],
            offered="kprobe_session",
            probe=True,
            most=MOST_EXITS,
        ),
        Hook("fgraph", "the function graph tracer: entry and return", "fgraph", False, lambda _: [Fgraph()], probe=True),
    ),
)
