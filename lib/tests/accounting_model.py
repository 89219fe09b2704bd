"""A model of the records, written from what kernel/trace/ftrace.c does and knowing nothing of the package's own rules.

Which flag is set when, where a site goes, what the common trampolines call, and which release has which variant.
"""

import itertools
from dataclasses import dataclass, field

import pytest

from tramplab import Direct
from tramplab.ftrace import releases
from tramplab.ftrace.ops import Request

ISAS = ("x86_64", "arm64", "riscv64")
RELEASES = tuple(sorted({*releases.shown(), "v6.3", "v6.8"}, key=releases.parse))
KERNELS = list(itertools.product(ISAS, RELEASES))
every_kernel = pytest.mark.parametrize(("isa", "release"), KERNELS, ids=[f"{i}-{r}" for i, r in KERNELS])
MASK = (1 << 64) - 1
POOL_SIZE, HEAP_SIZE = 128, 64 * 4096

# --- What a release has, and what the flag bits are

BITS = {
    "ENABLED": 31, "REGS": 30, "REGS_EN": 29, "TRAMP": 28, "TRAMP_EN": 27, "IPMODIFY": 26, "DISABLED": 25, "DIRECT": 24,
    "DIRECT_EN": 23, "CALL_OPS": 22, "CALL_OPS_EN": 21, "TOUCHED": 20, "MODIFIED": 19,
}  # fmt: skip
FL_ENABLED, FL_DYNAMIC, FL_SAVE_REGS, FL_RECURSION, FL_RCU, FL_DIRECT = 1 << 0, 1 << 1, 1 << 2, 1 << 4, 1 << 12, 1 << 17


@dataclass(frozen=True)
class Facts:
    """One release on one ISA."""

    isa: str
    release: str

    @property
    def version(self) -> tuple[int, int]:
        return tuple(int(n) for n in self.release[1:].split("."))

    @property
    def regs(self) -> bool:
        """ftrace_regs_caller exists."""
        return self.isa == "x86_64" or self.version <= {"arm64": (6, 1), "riscv64": (6, 9)}[self.isa]

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


# --- The model


@dataclass(eq=False)
class Tracer:
    """One registered ops as the model sees it; `real` is what the package returned for it."""

    functions: frozenset[str]
    filter: frozenset[str]
    notrace: frozenset[str]
    flags: int
    direct: str | None  # the stub's symbol
    real: object = None

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
        return self.facts.own_trampolines or bool(t.direct)  # a direct call names the common one as its own

    def make(self, request: Request) -> Tracer:
        every = frozenset(self.entries)
        wanted, notrace = frozenset(request.filter), frozenset(getattr(request, "notrace", ()))
        if isinstance(request, Direct):
            flags = FL_ENABLED | FL_DYNAMIC | FL_DIRECT | (FL_SAVE_REGS if self.facts.regs else 0)
            where = "far" if request.far else "near"
            return Tracer(wanted, wanted, notrace, flags, f"lab_direct_{where}")
        flags = FL_ENABLED
        flags |= FL_SAVE_REGS if request.save == "regs" else 0
        flags |= (FL_RECURSION if request.recursion else 0) | (FL_RCU if request.rcu else 0)
        flags |= FL_DYNAMIC if request.dynamic else 0
        return Tracer((wanted or every) - notrace, wanted, notrace, flags, None)

    def refusal(self, t: Tracer) -> str | None:
        """Why a registration must not work, as a pattern for the message."""
        if t.direct and not self.facts.direct:
            return "direct"
        if not t.direct and t.flags & FL_SAVE_REGS and not self.facts.regs:
            return "regs"
        if t.direct and any("DIRECT" in self.entries[f].flags for f in t.functions):
            return "direct"
        return "room" if len(self.tracers) == POOL_SIZE else None

    def register(self, t: Tracer) -> None:
        self.tracers.insert(0, t)
        for f in t.functions:
            e = self.entries[f]
            e.count += 1
            if t.direct:
                e.put("DIRECT", True)
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
