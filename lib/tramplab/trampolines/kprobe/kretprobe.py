"""A kretprobe: a kprobe at a function's entry that hooks its return. What is asked for, and what there is beside the kprobe."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TramplabError
from ...ftrace.arch.common import rethook_pool
from ...ftrace.meant import kretprobes_on_return_hooks, takes_kretprobe
from ...ftrace.ops import Request
from ...ftrace.releases import history
from ...ftrace.steps import Step
from .. import pool_layout
from ..guest import Guest
from .request import Kprobe

STRUCT = "kretprobe"
#: The feature that says whether, and how, a kretprobe comes in at a function that ftrace can trace.
ENTRY = "kretprobe_entry"
#: The advice in the error for a function that has a kprobe already.
TOGETHER = "; several kretprobes on one function are one request, such as Kretprobe(several=2)"
#: The guest's functions that run at the entry, and for a return hook at the return.
_PRE, _RETURN = "pre_handler_kretprobe", "kretprobe_rethook_handler"
#: The handler at the return that runs the programs of a trace event.
_DISPATCHER = "kretprobe_dispatcher"
#: KRETPROBE_MAX_DATA_SIZE (include/linux/kprobes.h): register_kretprobe() says -E2BIG above it, since v5.16
#: (<163836995040.432120.10322772773821182925.stgit@devnote2>).
MOST_DATA = 4096
#: How many calls are followed at a time at least, if nobody says (register_kretprobe(), where kernels may be preempted).
_LEAST = 10


@dataclass(frozen=True, eq=False)
class Kretprobe(Kprobe):
    """A kretprobe on each of the functions; handler= and what belongs to others is not for it.

    entry: it has a handler at the entry too.
    declines: the handler at the entry says that the return is of no interest, each time.
    maxactive: how many calls of a function can be followed at a time; 0 stands for as many as a preemptible kernel makes: ten, or
        two for each CPU where that is more.
    data: bytes of its own that each call has, for the handler at the entry to leave something for the other, up to MOST_DATA.
    several: so many kretprobes on each function, behind a kprobe that stands for all of them.
    watch: handlers of guest/consumers/returns.c, which do what they are told.
    untraced: as a function without a patch site has it, by a breakpoint; here it is behind the site, whatever the release does with
        traced functions.

    Of Kprobe's fields, bpf: its handler runs a BPF program, as perf events bring it there; observe: that program, or the handlers,
    write down what they see instead of counting.
    """

    entry: bool = False
    declines: bool = False
    maxactive: int = 0
    data: int = 0
    several: int = 1
    watch: bool = False
    untraced: bool = False

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        if self.post or self.go_to or self.handler != Kprobe.handler:
            raise TramplabError("a kretprobe has handlers of its own: leave handler=, go_to= and post= out.")
        if self.bpf and (self.entry or self.watch or self.data):
            raise TramplabError("bpf=True runs a program at the return alone: leave entry=, declines=, watch= and data= out.")
        if self.declines and not self.entry:
            raise TramplabError("declines= is for a kretprobe with a handler at the entry: give it entry=True.")
        if self.declines and self.observe:
            raise TramplabError("a kretprobe whose entry handler declines sees no return: leave observe= or declines= out.")
        if self.maxactive < 0:
            raise TramplabError(f"no kretprobe has {self.maxactive} instances; give maxactive= 1 or more, or 0: the default.")
        if self.several < 1:
            raise TramplabError(f"{self.several} kretprobes on a function are none; give several= 1 or more.")
        if self.data < 0:
            raise TramplabError(f"a call cannot have {self.data} bytes of its own; give data= 0 or more.")
        if self.data > MOST_DATA:
            raise TramplabError(f"a kretprobe's calls have {MOST_DATA} bytes each at most, not {self.data}: give a smaller data=.")
        if self.untraced and not self.breakpoint:
            raise TramplabError("untraced= is for a kretprobe by a breakpoint: give it breakpoint=True.")
        if self.watch and (self.observe or self.declines):
            raise TramplabError("watch= brings its own handlers: leave observe= and declines= out.")


def check(guest: Guest, request: Kretprobe) -> None:
    """Raise TramplabError for what the kretprobes of this kernel do not have."""
    if not request.breakpoint and not guest.features["regs"]:
        raise TramplabError(
            f"a kretprobe changes where its function returns in the pt_regs that it is given, and {guest.features} has no "
            "ftrace_regs_caller to take that up; breakpoint=True asks for one by a breakpoint."
        )
    if request.breakpoint and not request.untraced and not takes_kretprobe(guest.features):
        isa = guest.features.isa
        raise TramplabError(
            f"{guest.features} takes no kretprobe at a function that ftrace can trace; {isa} does {history(isa, ENTRY)}; "
            "untraced=True asks for one as other functions have it."
        )
    if kretprobes_on_return_hooks(guest.features) and rethook_pool(guest.features) == "shadow" and request.maxactive:
        raise TramplabError("rethook='shadow' has a stack for each task and no pool: leave maxactive= out.")


def handlers(request: Kretprobe) -> dict[str, str]:
    """Member of struct kretprobe, or of its kprobe -> the guest function that it leads to."""
    seen = "observe_" if request.observe else "watch_" if request.watch else ""
    found = {"pre_handler": _PRE, "handler": _DISPATCHER if request.bpf else f"lab_kretprobe_{seen}exit"}
    if request.entry:
        found["entry_handler"] = "lab_kretprobe_decline" if request.declines else f"lab_kretprobe_{seen}entry"
    return found


def members(guest: Guest, take: pool_layout.Take, request: Kretprobe, probe: int) -> tuple[dict[str, int], list[Step]]:
    """The members of the struct kretprobe at this address beside its kprobe, and the steps that make what they lead to. Raises
    TramplabError where there is not enough memory."""
    count = request.maxactive or max(_LEAST, 2 * guest.cpus)
    own = {n: guest.image.address(f) for n, f in handlers(request).items() if n != "pre_handler"}
    own |= {"maxactive": count, "data_size": request.data}
    if kretprobes_on_return_hooks(guest.features):
        hook, steps = pool_layout.rethook(guest, take, pool_layout.INSTANCE, _RETURN, probe, count, request.data)
        return own | {"rh": hook}, steps
    made, steps = pool_layout.instances(guest, take, probe, count, request.data)
    return own | made, steps
