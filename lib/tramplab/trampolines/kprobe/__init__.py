"""kprobes at a function's entry: through ftrace, where the ISA serves them so, and through a breakpoint exception. And kretprobes,
which are kprobes that hook the return."""

from __future__ import annotations

from collections.abc import Callable

from ...ftrace.ops import Request
from ..kind import Hook, Kind
from .kretprobe import ENTRY, Kretprobe
from .maker import MODULES, Kprobes
from .request import Kprobe

__all__ = ["KIND", "MODULES", "Kprobe", "Kretprobe"]

_FTRACE, _BREAKPOINT = "a {} on the patch site, through ftrace", "a {} by a breakpoint, at the first instruction that may have one"
_BARE, _PROGRAM = "with a bare handler", "with a BPF program"


def _each(of: type[Kprobe], breakpoint: bool, bpf: bool) -> Callable[[int], list[Request]]:
    """What registers one of them, or so many kretprobes."""
    if of is Kretprobe:
        return lambda k: [Kretprobe(breakpoint=breakpoint, bpf=bpf, several=k)]
    return lambda _: [of(breakpoint=breakpoint, bpf=bpf)]


def _kinds(name: str, of: type[Kprobe], where: str = "") -> tuple[Hook, ...]:
    """The hooks of one kind of probe: through ftrace and by a breakpoint, each with a bare handler and with a BPF program."""
    out = []
    for way, other, title, needs, breakpoint in (
        ("", "-brk", _FTRACE, "kprobes_on_ftrace", False),
        ("-brk", "", _BREAKPOINT, ENTRY if of is Kretprobe else "ops", True),
    ):
        for runs, handler, bpf in (("", _BARE, False), ("-bpf", _PROGRAM, True)):
            said, made, instead = f"{title.format(name)}, {handler}{where}", _each(of, breakpoint, bpf), f"{name}{other}{runs}"
            out.append(Hook(f"{name}{way}{runs}", said, needs, False, made, probe=True, traps=breakpoint, instead=instead))
    return tuple(out)


KIND = Kind(Kprobes, (*_kinds("kprobe", Kprobe), *_kinds("kretprobe", Kretprobe, ": the function's return")))
