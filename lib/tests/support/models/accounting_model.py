"""A model of the records, written from what kernel/trace/ftrace.c does and knowing nothing of the package's own rules.

Which flag is set when, where a site goes, what the common trampolines call, and which release has which variant.
"""

import itertools
from dataclasses import dataclass, field

import pytest

from tramplab import Bpf, Direct
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request

ISAS = ("x86_64", "arm64", "riscv64")
RELEASES = tuple(sorted({*releases.shown(), "v6.3", "v6.8"}, key=releases.parse))
KERNELS = list(itertools.product(ISAS, RELEASES))
every_kernel = pytest.mark.parametrize(("isa", "release"), KERNELS, ids=[f"{i}-{r}" for i, r in KERNELS])
MASK = (1 << 64) - 1
POOL_SIZE, HEAP_SIZE = 128, 64 * 4096

# --- What a release has, and what the flag bits are

#: dyn_ftrace.flags of include/linux/ftrace.h: v5.17; CALL_OPS by cbad0fb2d8d9, TOUCHED by e11b521a7b69, MODIFIED by 6ce2c04fcbca.
BITS = {
    "ENABLED": 31, "REGS": 30, "REGS_EN": 29, "TRAMP": 28, "TRAMP_EN": 27, "IPMODIFY": 26, "DISABLED": 25, "DIRECT": 24,
    "DIRECT_EN": 23, "CALL_OPS": 22, "CALL_OPS_EN": 21, "TOUCHED": 20, "MODIFIED": 19,
}  # fmt: skip
#: ftrace_ops.flags of the same header, v5.17 (FTRACE_OPS_FL_*).
FL_ENABLED, FL_DYNAMIC, FL_SAVE_REGS, FL_RECURSION = 1 << 0, 1 << 1, 1 << 2, 1 << 4
FL_IPMODIFY, FL_RCU, FL_DIRECT = 1 << 12, 1 << 14, 1 << 17
#: Save sets that a kernel's own trampolines have; any other one the lab makes for an ops, on every ISA.
KERNELS_OWN = ("args", "regs")
#: What a BPF request's direct call goes to: no symbol, but what was made for it.
MADE = "(made)"


@dataclass(frozen=True)
class Facts:
    """One release on one ISA."""

    isa: str
    release: str

    @property
    def version(self) -> tuple[int, int]:
        return tuple(int(n) for n in self.release[1:].split("."))

    @property
    def stacked(self) -> bool:
        """BPF trampolines take eight arguments, which only x86-64 passes on the stack in part."""
        return self.isa != "x86_64" or self.version >= (6, 6)

    @property
    def regs(self) -> bool:
        """ftrace_regs_caller exists."""
        return self.isa == "x86_64" or self.version <= {"arm64": (6, 1), "riscv64": (6, 9)}[self.isa]

    @property
    def args(self) -> bool:
        """Callbacks get an ftrace_regs, of which the ip may be changed without SAVE_REGS."""
        return self.isa == "x86_64" or self.version >= {"arm64": (6, 2), "riscv64": (6, 10)}[self.isa]

    @property
    def direct(self) -> bool:
        return self.version >= {"x86_64": (5, 5), "arm64": (6, 4), "riscv64": (6, 8)}[self.isa]

    @property
    def call_ops(self) -> bool:
        """Sites have an ops literal."""
        return self.isa != "x86_64" and self.version >= {"arm64": (6, 3), "riscv64": (6, 16)}[self.isa]

    @property
    def counter_bits(self) -> int:
        return 23 if self.version < (6, 3) else 21 if self.version == (6, 3) else 19

    @property
    def own_trampolines(self) -> bool:
        return self.isa == "x86_64"

    @property
    def jumps(self) -> bool:
        """A site jumps to a BPF trampoline that calls the function; an odd address says so (25e4e3565d45)."""
        return self.isa == "x86_64" and self.version >= (6, 19)

    @property
    def shares(self) -> bool:
        """A direct call with an ops_func shares a function with an ops that changes the ip (53cd885bc5c3)."""
        return self.version >= (6, 0)

    @property
    def makes_sharing_callers(self) -> bool:
        """The JIT makes BPF trampolines that call the function, as it is now, when they share."""
        return self.isa != "riscv64"

    @property
    def can_go_elsewhere(self) -> bool:
        """Not out of riscv64's 16-byte site, which takes the return address off the stack behind the call."""
        return self.isa != "riscv64" or self.version > (6, 2)


# --- The model


@dataclass(eq=False)
class Tracer:
    """One registered ops as the model sees it; `real` is what the package returned for it."""

    functions: frozenset[str]
    filter: frozenset[str]
    notrace: frozenset[str]
    flags: int
    direct: str | None  # the stub's symbol, or MADE
    func: str = "call_direct_funcs"
    save: str = ""
    goes_to: str = ""  # where its callback sends calls
    programs: int = 0
    jumped: bool = False
    calls: bool = False  # its trampoline calls the function
    real: object = None

    @property
    def own_set(self) -> bool:
        return self.save not in ("", *KERNELS_OWN)

    @property
    def changes_stack(self) -> bool:
        return self.func == "lab_call_instead"

    @property
    def assisted(self) -> bool:
        return bool(self.flags & (FL_RECURSION | FL_RCU))


@dataclass
class Entry:
    """A function's record."""

    count: int = 0
    flags: set[str] = field(default_factory=set)

    def put(self, name: str, on: bool) -> None:
        (self.flags.add if on else self.flags.discard)(name)


class Model:
    """The list of ops, newest first, and a record per function."""

    def __init__(self, facts: Facts, functions: tuple[str, ...]) -> None:
        self.facts = facts
        self.tracers: list[Tracer] = []
        self.entries = {f: Entry() for f in functions}

    def wanting(self, function: str) -> list[Tracer]:
        return [t for t in self.tracers if function in t.functions]

    def has_trampoline(self, t: Tracer) -> bool:
        return self.facts.own_trampolines or t.own_set or bool(t.direct)  # a direct call names the common one as its own

    def make(self, request: Request) -> Tracer:
        every = frozenset(self.entries)
        wanted, notrace = frozenset(request.filter), frozenset(request.notrace)
        if isinstance(request, Direct | Bpf):
            flags = FL_ENABLED | FL_DYNAMIC | FL_DIRECT | (FL_SAVE_REGS if self.facts.regs else 0)
            if isinstance(request, Bpf):
                calls_function = request.fexit + request.fmod_ret > 0
                programs = request.fentry + request.fexit + request.fmod_ret
                jumped = self.facts.jumps and calls_function
                return Tracer(wanted, wanted, notrace, flags, MADE, programs=programs, jumped=jumped, calls=calls_function)
            where = "far" if request.far else "near"
            return Tracer(wanted, wanted, notrace, flags, f"lab_direct_{where}")
        flags = FL_ENABLED
        flags |= FL_SAVE_REGS if request.save == "regs" else 0
        flags |= (FL_RECURSION if request.recursion else 0) | (FL_RCU if request.rcu else 0)
        flags |= (FL_DYNAMIC if request.dynamic else 0) | (FL_IPMODIFY if request.go_to else 0)
        names = {"func": request.callback, "save": request.save, "goes_to": request.go_to}
        return Tracer((wanted or every) - notrace, wanted, notrace, flags, None, **names)

    def meeting(self, t: Tracer) -> list[Tracer]:
        """The direct calls that come to share a function with an ops that changes the ip by registering this one."""
        pairs = [(t, o) for f in t.functions for o in self.wanting(f)]
        pairs += [(b, a) for a, b in pairs]
        return [a for a, b in pairs if a.direct and b.flags & FL_IPMODIFY]

    def refusal(self, t: Tracer) -> str | None:
        """Why a registration must not work, as a pattern for the message, which need name only one of several reasons."""
        flags = {n for f in t.functions for n in self.entries[f].flags}
        others = {o for f in t.functions for o in self.wanting(f)}
        ipmodify = bool(t.flags & FL_IPMODIFY)
        meeting = self.meeting(t)
        reasons = {
            "no direct calls": t.direct and not self.facts.direct,
            "made for one function": t.direct == MADE and len(t.functions) != 1,
            "makes no BPF trampoline for eight_args": t.direct == MADE and "eight_args" in t.functions and not self.facts.stacked,
            "no ftrace_regs_caller": not t.direct and t.flags & FL_SAVE_REGS and not self.facts.regs,
            "hands over an ftrace_regs": t.own_set and not self.facts.args,
            "lets only an ops with save='regs' change the ip": ipmodify and t.save == "args" and not self.facts.args,
            "a direct call already": t.direct and "DIRECT" in flags,
            "changes the ip of": ipmodify and "IPMODIFY" in flags,
            "both a direct call and": any(d.direct != MADE or not self.facts.shares for d in meeting),
            "cannot share it": any(d.calls and not self.facts.makes_sharing_callers for d in meeting),
            "must be alone": others and (t.changes_stack or any(o.changes_stack for o in others)),
            "room for 128": len(self.tracers) == POOL_SIZE,
        }
        return "|".join(reason for reason, applies in reasons.items() if applies) or None

    def register(self, t: Tracer) -> None:
        for d in self.meeting(t):
            d.jumped = False  # it is called from now on, and looks where from
        self.tracers.insert(0, t)
        for f in t.functions:
            e = self.entries[f]
            e.count += 1
            if t.direct:
                e.put("DIRECT", True)
            if t.flags & FL_IPMODIFY:
                e.put("IPMODIFY", True)
            e.put("TRAMP", e.count == 1 and self.has_trampoline(t))
            if t.flags & FL_SAVE_REGS:
                e.put("REGS", True)
            self.call_ops(e, t)
            self.enable(e)

    def unregister(self, t: Tracer) -> None:
        self.tracers.remove(t)
        for f in t.functions:
            e, left = self.entries[f], self.wanting(f)
            e.count -= 1
            if t.direct:
                e.put("DIRECT", False)
            if t.flags & FL_IPMODIFY:
                e.put("IPMODIFY", False)
            if t.flags & FL_SAVE_REGS and not any(o.flags & FL_SAVE_REGS for o in left):
                e.put("REGS", False)
            e.put("TRAMP", e.count == 1 and self.has_trampoline(left[0]))
            self.call_ops(e, t)
            self.enable(e)

    def call_ops(self, e: Entry, t: Tracer) -> None:
        """As in the kernel, the ops asked whether it needs the assist function is the one that comes or *goes*."""
        e.put("CALL_OPS", self.facts.call_ops and e.count == 1 and not t.assisted)

    def enable(self, e: Entry) -> None:
        """The _EN flags follow the others; two of them hold for a lone ops only."""
        if not e.count:
            e.flags &= {"TOUCHED", "MODIFIED"}
            return
        alone = e.count == 1
        before = {n for n in e.flags if n.endswith("_EN")} | (e.flags & {"ENABLED"})
        e.put("REGS_EN", "REGS" in e.flags)
        e.put("TRAMP_EN", "TRAMP" in e.flags)
        e.put("DIRECT_EN", "DIRECT" in e.flags and alone)
        e.put("CALL_OPS_EN", "CALL_OPS" in e.flags and alone)
        e.put("ENABLED", True)
        if {n for n in e.flags if n.endswith("_EN")} | {"ENABLED"} != before:  # only a record that changes is touched
            e.put("TOUCHED", True)
            if "DIRECT" in e.flags:
                e.put("MODIFIED", True)

    def word(self, function: str) -> int:
        """dyn_ftrace.flags, the counter included; bits that are part of the counter do not exist as flags."""
        e = self.entries[function]
        return e.count | sum(1 << BITS[n] for n in e.flags if BITS[n] >= self.facts.counter_bits)
