"""Registering and unregistering, against a model of its own.

The model below knows nothing of the package's bookkeeping: it is written from what kernel/trace/ftrace.c does (which
flag is set when, where a site goes, what the common trampolines call) and from which release has which variant. After
every step of a random sequence it is compared with the records, with the guest's structs and text bytes, decoded here
by hand, and with what calls of the traced functions really do.
"""

import itertools
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tramplab import Direct, Kernel, Ops
from tramplab.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.ftrace.steps import Sync, Write

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


class Refused(Exception):
    """The model says that a registration must not work."""


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

    def make(self, request: Ops | Direct) -> Tracer:
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


# --- Reading the guest


def sext(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1) - (1 << bits if value >> bits - 1 & 1 else 0)


def auipc_pair(first: int, second: int, at: int, register: int) -> int | None:
    """Where an AUIPC/JALR pair through one register goes; None if the words are no such pair."""
    if first & 0xFFF != register << 7 | 0x17 or second & 0xFFFFF != register << 15 | register << 7 | 0x67:
        return None
    return at + sext(first & 0xFFFFF000, 32) + sext(second >> 20, 12) & MASK


class Guest:
    """Reads a kernel's memory as the emulated CPU would see it."""

    def __init__(self, k: Kernel, facts: Facts) -> None:
        self.k, self.facts, self.m = k, facts, k.machine
        self.address = k.image.address
        self.ops_fields = {n: f.offset for n, f in k.image.struct("ftrace_ops").fields.items()}

    def words(self, at: int, count: int) -> list[int]:
        data = self.m.read(at, 4 * count)
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, 4 * count, 4)]

    def long(self, symbol: str) -> int:
        return self.m.read_u64(self.address(symbol))

    # sites

    def site(self, function: str) -> int | None:
        """Where a function's site goes: 0 if nowhere, None if its bytes are neither a call nor idle."""
        entry = self.k.function(function).address
        if self.facts.isa == "x86_64":
            data = self.m.read(entry, 9)
            at = entry
            if data[:4] == bytes.fromhex("f30f1efa"):
                at, data = entry + 4, data[4:]
            return self.x86_call(at, data[:5])
        if self.facts.isa == "arm64":
            first, second = self.words(entry, 2)
            return self.arm64_call(entry + 4, second) if first == 0xAA1E03E9 else None
        if self.facts.version <= (6, 2):
            w = self.words(entry, 4)
            if w == [0x13] * 4:
                return 0
            return auipc_pair(w[1], w[2], entry + 4, 1) if (w[0], w[3]) == (0xFE113C23, 0xFF813083) else None
        first, second = self.words(entry, 2)
        idle = first & 0xFFF == 0x297 if self.facts.call_ops else first == 0x13
        if idle and second == 0x13:
            return 0
        return auipc_pair(first, second, entry, 5)

    def x86_call(self, at: int, data: bytes) -> int | None:
        if data == bytes.fromhex("0f1f440000"):
            return 0
        return at + 5 + int.from_bytes(data[1:5], "little", signed=True) & MASK if data[0] == 0xE8 else None

    def arm64_call(self, at: int, w: int) -> int | None:
        if w == 0xD503201F:
            return 0
        return at + 4 * sext(w, 26) & MASK if w >> 26 == 0x25 else None

    def reaches(self, function: str, target: int) -> bool:
        """Can the site go there by itself?"""
        entry = self.k.function(function).address
        if self.facts.isa == "arm64":
            return -(1 << 27) <= target - (entry + 4) < 1 << 27
        if self.facts.isa == "riscv64" and self.facts.call_ops:
            upper = sext(self.words(entry, 1)[0] & 0xFFFFF000, 32)
            return -2048 <= target - (entry + upper) <= 2047
        return abs(target - entry) < (1 << 31) - 4096

    def literal(self, function: str) -> int:
        return self.m.read_u64(self.k.function(function).address - 8)

    # the common trampolines

    def common_calls(self) -> dict[str, int]:
        """What each call inside a common trampoline goes to."""
        out = {}
        for label in ("ftrace_call", "ftrace_regs_call"):
            if label in self.k.image.symbols:
                at = self.address(label)
                if self.facts.isa == "x86_64":
                    out[label] = self.x86_call(at, self.m.read(at, 5))
                elif self.facts.isa == "arm64":
                    out[label] = self.arm64_call(at, *self.words(at, 1))
                else:
                    out[label] = auipc_pair(*self.words(at, 2), at, 1)
        return out

    # the list

    def list_of_ops(self) -> list[dict[str, int]]:
        """Every ops on ftrace_ops_list, in order, as its members."""
        out, at, end = [], self.long("ftrace_ops_list"), self.address("ftrace_list_end")
        while at != end:
            members = {n: self.m.read_u64(at + o) for n, o in self.ops_fields.items()}
            out.append({"address": at, **members})
            at = members["next"]
            assert len(out) <= POOL_SIZE, "the list does not end"
        return out

    def hash(self, table: int) -> set[int] | None:
        """The function addresses in a ftrace_hash; None stands for no restriction. Each lies in the bucket that the
        kernel's hash puts it in."""
        if not table:
            return None
        h = {n: self.m.read_u64(table + f.offset) for n, f in self.k.image.struct("ftrace_hash").fields.items()}
        entry = {n: f.offset for n, f in self.k.image.struct("ftrace_func_entry").fields.items()}
        ips = set()
        for bucket in range(1 << h["size_bits"]):
            at = self.m.read_u64(h["buckets"] + 8 * bucket)
            while at:
                ip = self.m.read_u64(at + entry["ip"])
                product = ip * 0x61C8864680B583EB & MASK
                assert (product >> 64 - h["size_bits"] if h["size_bits"] else 0) == bucket
                assert ip not in ips
                ips.add(ip)
                at = self.m.read_u64(at + entry["next"])
        assert len(ips) == h["count"]
        return ips

    def ip(self, function: str) -> int:
        """What a function's calls are known by."""
        entry = self.k.function(function).address
        if self.facts.isa == "x86_64":
            return entry + 4 if self.m.read(entry, 4) == bytes.fromhex("f30f1efa") else entry
        if self.facts.isa == "arm64":
            return entry + 4
        return entry + 4 if self.facts.call_ops else entry

    # everything

    def text(self) -> list[bytes]:
        return [self.m.read(s.address, s.size) for s in self.k.image.segments if s.executable]

    def memory(self) -> dict[int, bytes]:
        """Text, data and heap, but for what a call counts."""
        spans = [(s.address, s.size) for s in self.k.image.segments] + [(self.m.heap, HEAP_SIZE)]
        out = {at: self.m.read(at, size) for at, size in spans}
        for counter in ("lab_ops_hits", "lab_direct_hits"):
            s = self.k.image.symbol(counter)
            base = next(at for at, size in spans if at <= s.address < at + size)
            start = s.address - base
            out[base] = out[base][:start] + bytes(s.size) + out[base][start + s.size :]
        return out

    def everything(self) -> list:
        """All that a refused registration must leave as it is, in the guest and outside."""
        memory = [self.m.read(s.address, s.size) for s in self.k.image.segments]
        memory += [self.m.read(self.m.heap, HEAP_SIZE), self.m.read(self.k.isa.module_base, 16 * 4096)]
        records = {n: r.flags for n, r in self.k.slowpath.records.items()}
        return [memory, records, list(self.k.slowpath.ops)]


# --- Calls

W = (3, 5, 7, 11, 13, 17, 19, 23)


def weigh(*args: int) -> int:
    return sum(a * w for a, w in zip(args, W, strict=False))


#: Function, arguments, result, and every traced function that is entered on the way.
CALLS = [
    ("no_args", (), 42, ["no_args"]),
    ("one_arg", (9,), 27, ["one_arg"]),
    ("three_args", (1, 2, 3), 34, ["three_args"]),
    ("eight_args", tuple(range(8)), weigh(*range(8)), ["eight_args"]),
    ("calls_others", (1, 2, 3), 13 * 11 + weigh(3, 13, 1), ["calls_others", "two_args", "three_args"]),
    ("tail_call", (1, 2), weigh(2, 1), ["tail_call", "two_args"]),
]
#: The functions that filters choose from.
NAMES = ("no_args", "one_arg", "two_args", "three_args", "eight_args", "calls_others", "tail_call")


# --- Comparing


class Subject:
    """A kernel and its model, changed together and compared after every change."""

    def __init__(self, isa: str, release: str) -> None:
        self.facts = Facts(isa, release)
        self.k = Kernel(isa, release, meter="count")
        self.k.machine.set_meter("none")  # nothing here is counted
        self.guest = Guest(self.k, self.facts)
        self.model = Model(self.facts, self.k.functions)
        self.booted = self.guest.text()
        self.passed = self.k.image.address("ftrace_list_end")
        self.check()

    def register(self, request: Ops | Direct) -> bool:
        """Register in both, or see it refused by both; says which."""
        t = self.model.make(request)
        reason = self.model.refusal(t)
        if reason is None:
            (t.real,) = self.k.attach(None, request)
            self.model.register(t)
            return True
        before = self.guest.everything()
        with pytest.raises(TramplabError, match=reason):
            self.k.attach(None, request)
        assert self.guest.everything() == before
        return False

    def unregister(self, t: Tracer) -> None:
        self.k.detach(t.real)
        self.model.unregister(t)

    def target(self, function: str) -> int:
        """Where the model says that a site goes."""
        e, address = self.model.entries[function], self.k.image.address
        if not e.count:
            return 0
        common = address("ftrace_regs_caller" if "REGS" in e.flags else "ftrace_caller")
        if "DIRECT" in e.flags and e.count == 1:
            stub = address(self.model.wanting(function)[0].direct)
            return stub if self.guest.reaches(function, stub) else common
        if "TRAMP" in e.flags:
            return self.model.wanting(function)[0].real.trampoline
        return common

    def check(self) -> None:
        k, address = self.k, self.k.image.address
        for f, e in self.model.entries.items():
            record = k.slowpath.records[f]
            assert (f, record.count, record.flags) == (f, e.count, self.model.word(f)), (record.names, e)
            assert k.slowpath.target(f) == self.target(f), f
            assert self.guest.site(f) == self.target(f), f
            if self.facts.call_ops:
                literal = "ftrace_list_ops" if e.count else "ftrace_nop_ops"
                alone = self.model.wanting(f)[0].real.address if "CALL_OPS_EN" in e.flags else address(literal)
                assert self.guest.literal(f) == alone, f
        self.check_list()
        self.check_common()

    def check_list(self) -> None:
        """The guest's list has the ops in the model's order, each with the members that the request asks for."""
        found = self.guest.list_of_ops()
        assert [o["address"] for o in found] == [t.real.address for t in self.model.tracers]
        address, ips = self.k.image.address, {f: self.guest.ip(f) for f in self.model.entries}
        hash_fields = {n: f.offset for n, f in self.k.image.struct("ftrace_ops_hash").fields.items()}
        for o, t in zip(found, self.model.tracers, strict=True):
            assert o["flags"] == t.flags
            assert o["func"] == o["saved_func"] == address("call_direct_funcs" if t.direct else "lab_callback")
            for member, names in (("filter_hash", t.filter), ("notrace_hash", t.notrace)):
                entries = self.guest.hash(self.k.machine.read_u64(o["func_hash"] + hash_fields[member]))
                assert entries == ({ips[f] for f in names} if names else None)
            in_ops = self.facts.version >= (6, 4) and (self.facts.isa != "x86_64" or self.facts.version <= (6, 19))
            assert o["direct_call"] == (address(t.direct) if t.direct and in_ops else 0)
            if self.facts.own_trampolines or t.direct:
                self.check_trampoline(o, t)
            else:
                assert o["trampoline"] == 0
        counters = [o["private"] for o in found if o["func"] == address("lab_callback")]
        assert len(set(counters)) == len(counters)

    def check_trampoline(self, o: dict[str, int], t: Tracer) -> None:
        """x86-64's copy: its own ops behind it, a call of the callback or the assist function, and the rest as in the
        common one; a direct call has none of its own."""
        k, address = self.k, self.k.image.address
        if t.direct:
            common = "ftrace_regs_caller" if self.facts.regs else "ftrace_caller"
            assert (o["trampoline"], o["trampoline_size"]) == (address(common), 0)
            return
        name, label = (
            ("ftrace_regs_caller", "ftrace_regs_call") if t.flags & FL_SAVE_REGS else ("ftrace_caller", "ftrace_call")
        )
        start, size = o["trampoline"], o["trampoline_size"]
        assert size == address(f"{name}_end") - address(name) + 1
        assert k.isa.module_base <= start and start + size <= k.isa.module_base + 16 * 4096
        code, original = k.machine.read(start, size), k.machine.read(address(name), size)
        at = address(label) - address(name)
        called = self.guest.x86_call(start + at, code[at : at + 5])
        assert called == address("ftrace_ops_assist_func" if t.assisted else "lab_callback")
        load = address(f"{name}_op_ptr") - address(name)
        pointer = start + load + 7 + int.from_bytes(code[load + 3 : load + 7], "little", signed=True)
        assert k.machine.read_u64(pointer) == o["address"] and start + size <= pointer < start + size + 8
        assert code[-1] == 0xC3
        changed = {*range(at, at + 5), *range(load + 3, load + 7), size - 1}
        if t.flags & FL_SAVE_REGS:  # the branch to the direct exit is a NOP in the copy
            jump = address("ftrace_regs_caller_jmp") - address(name)
            assert code[jump : jump + 2] == b"\x66\x90"
            changed |= {jump, jump + 1}
        assert [i for i in range(size) if code[i] != original[i] and i not in changed] == []

    def check_common(self) -> None:
        """The common trampolines call nothing, a lone core ops' function, or the list function."""
        address, tracers = self.k.image.address, self.model.tracers
        lone = len(tracers) == 1 and not tracers[0].flags & (FL_DYNAMIC | FL_RCU)
        if not tracers:
            called, self.passed = address("ftrace_stub"), address("ftrace_list_end")
        elif lone:
            called = address("ftrace_ops_assist_func" if tracers[0].assisted else "lab_callback")
            self.passed = tracers[0].real.address
        else:
            called = address("ftrace_ops_list_func")  # does not care what it is passed, so that stays as it was
        calls = self.guest.common_calls()
        # with CALL_OPS the call is through the ops; arm64's two entries share one
        labels = [] if self.facts.call_ops else ["ftrace_call"]
        labels += ["ftrace_regs_call"] if self.facts.regs and self.facts.isa != "arm64" else []
        assert sorted(calls) == labels
        assert set(calls.values()) <= {called}
        assert self.guest.long("function_trace_op") == self.passed

    def play(self) -> None:
        """Call functions: each ops sees each function it wants exactly once per entry, and direct calls likewise."""
        k, private = self.k, {}
        for o in self.guest.list_of_ops():
            private[o["address"]] = o["private"]
        for name, args, value, entered in CALLS:
            before = {a: k.machine.read_u64(p) for a, p in private.items()}
            direct = self.guest.long("lab_direct_hits")
            run = k.call(name, *args)
            assert run.value == value, name
            seen = {a: k.machine.read_u64(p) - before[a] for a, p in private.items()}
            wanted = {
                t.real.address: 0 if t.direct else sum(f in t.functions for f in entered) for t in self.model.tracers
            }
            assert seen == wanted, name
            assert run.hits == tuple(seen[t.real.address] for t in self.model.tracers)
            by_direct = sum(f in t.functions for f in entered for t in self.model.tracers if t.direct)
            assert self.guest.long("lab_direct_hits") - direct == by_direct, name

    def check_idle(self) -> None:
        """Nothing registered: the text is the booted one to the last byte, and all memory handed out is back."""
        k, address = self.k, self.k.image.address
        assert self.model.tracers == [] == k.slowpath.ops
        assert self.guest.text() == self.booted
        assert self.guest.long("ftrace_ops_list") == self.guest.long("function_trace_op") == address("ftrace_list_end")
        if "lab_direct_functions" in k.image.symbols:
            count = k.image.struct("ftrace_hash").fields["count"].offset
            assert k.machine.read_u64(address("lab_direct_functions") + count) == 0
        assert all(r.count == 0 and set(r.names) <= {"TOUCHED", "MODIFIED"} for r in k.slowpath.records.values())
        k.heap.give(k.heap.take(HEAP_SIZE))  # all of it in one piece
        self.register(Ops())
        (t,) = self.model.tracers
        assert t.real.address == address("lab_ops_pool")
        assert t.real.trampoline == (k.isa.module_base if self.facts.own_trampolines else 0)
        self.unregister(t)


# --- Random sequences

names = st.lists(st.sampled_from(NAMES), unique=True, max_size=4).map(tuple)
requests = st.one_of(
    st.builds(
        Ops,
        save=st.sampled_from(["args", "args", "regs"]),
        filter=names,
        notrace=st.one_of(st.just(()), names),
        recursion=st.booleans(),
        rcu=st.booleans(),
        dynamic=st.booleans(),
    ),
    st.builds(Direct, far=st.booleans(), filter=names.filter(bool)),
)
#: A request is registered; a number picks one of those registered and takes it away.
sequences = st.lists(st.one_of(requests, st.integers(0, 20)), min_size=1, max_size=16)
#: Few per kernel, as there are 24 kernels; `make fuzz` multiplies them.
few = settings(max_examples=max(settings.default.max_examples // 12, 5))


@every_kernel
@few
@given(sequence=sequences, last=st.randoms(use_true_random=False))
def test_random_sequences(isa, release, sequence, last):
    """After every step of a sequence: count, flags, targets, text, literals, list and common calls are the model's;
    calls reach exactly the callbacks they should. What must be refused is, and changes nothing. Back to zero, in
    whatever order, everything is as booted."""
    s = Subject(isa, release)
    for step in sequence:
        if isinstance(step, int):
            if not s.model.tracers:
                continue
            s.unregister(s.model.tracers[step % len(s.model.tracers)])
        elif not s.register(step):
            continue
        s.check()
        s.play()
    left = list(s.model.tracers)
    last.shuffle(left)
    for t in left:
        s.unregister(t)
        s.check()
    s.play()
    s.check_idle()


# --- Sequences worth having every time


def subject_with(isa: str, release: str, *requests: Ops | Direct) -> Subject:
    s = Subject(isa, release)
    for r in requests:
        s.register(r)
        s.check()
    return s


@every_kernel
def test_call_ops_asks_the_ops_that_comes_or_goes(isa, release):
    """Whether the last ops may be called through the literal is decided by the one just added or *removed*: so a lone
    ops that needs the assist function gets the fast path when a plain one left it alone, and a plain one loses it.
    Where there is no CALL_OPS the flag never appears."""
    for stays, goes in itertools.product((Ops(recursion=True), Ops()), repeat=2):
        s = subject_with(isa, release, type(stays)(recursion=stays.recursion, filter=("one_arg",)))
        alone = "CALL_OPS_EN" in s.k.slowpath.records["one_arg"].names
        assert alone == (s.facts.call_ops and not stays.recursion)
        s.register(Ops(recursion=goes.recursion, filter=("one_arg",)))
        s.check()
        assert "CALL_OPS" not in s.k.slowpath.records["one_arg"].names
        s.unregister(s.model.tracers[0])
        s.check()
        assert ("CALL_OPS_EN" in s.k.slowpath.records["one_arg"].names) == (s.facts.call_ops and not goes.recursion)
        s.play()


@every_kernel
def test_direct_call_gives_way_and_comes_back(isa, release):
    """A direct call alone on a function is what its site calls, if it reaches; with an ops beside it both go through a
    common trampoline; when the ops has gone the site calls it again. Both stubs run in all three states."""
    for far in (False, True):
        s = Subject(isa, release)
        if not s.register(Direct(far=far, filter=("one_arg",))):
            assert not s.facts.direct
            return
        stub = s.k.image.address("lab_direct_far" if far else "lab_direct_near")
        # far is out of reach for arm64's BL, and for riscv's JALR behind a fixed AUIPC
        expected = not far or isa == "x86_64" or (isa == "riscv64" and not s.facts.call_ops)
        for _ in range(2):
            s.check()
            s.play()
            assert (s.guest.site("one_arg") == stub) == expected
            s.register(Ops(filter=("one_arg",)))
            s.check()
            s.play()
            name = "ftrace_regs_caller" if s.facts.regs else "ftrace_caller"
            assert s.guest.site("one_arg") == s.k.image.address(name)
            s.unregister(s.model.tracers[0])


@every_kernel
def test_rcu_ops_wait_until_rcu_watches(isa, release):
    """While RCU is not watching, an ops with the RCU flag is not called, alone or in the list; others are. Afterwards
    it is called again."""
    watching = "lab_boot_pcpu"
    for beside in ([], [Ops(filter=("one_arg",))], [Ops(filter=("two_args",))]):
        s = subject_with(isa, release, Ops(rcu=True, filter=("one_arg",)), *beside)
        at = s.k.image.address(watching) + s.k.image.struct("lab_pcpu").fields["rcu_watching"].offset
        for value in (1, 0, 1):
            s.k.machine.write(at, value.to_bytes(4, "little"))
            hits = s.k.call("one_arg", 1).hits
            assert hits == (*(int("one_arg" in r.filter) for r in beside), value)


@every_kernel
def test_refusals_change_nothing(isa, release):
    """A second direct call on a function, also hidden among others, and regs that the release never had: refused
    without a trace. A good request in front of a bad one is taken back."""
    s = Subject(isa, release)
    s.register(Ops(filter=("two_args",)))
    s.register(Direct(filter=("one_arg", "no_args")))
    bad = [Direct(filter=("one_arg",)), Direct(filter=("three_args", "no_args")), Direct(far=True, filter=("no_args",))]
    bad += [] if s.facts.regs else [Ops(save="regs"), Ops(save="regs", filter=("one_arg",))]
    for request in bad:
        assert not s.register(request)
        good = Ops(filter=("three_args",))
        with pytest.raises(TramplabError):
            s.k.attach(None, good, request)
        t = s.model.make(good)
        s.model.register(t)
        s.model.unregister(t)
        s.check()
    s.play()


@every_kernel
def test_a_name_twice_counts_once(isa, release):
    """A function named twice in a filter is one function, for ops and for direct calls."""
    twice = ("one_arg", "two_args", "one_arg")
    s = subject_with(isa, release, Ops(filter=twice), Direct(filter=twice), Ops(notrace=twice))
    s.play()
    while s.model.tracers:
        s.unregister(s.model.tracers[0])
        s.check()
    s.check_idle()


@pytest.mark.parametrize(
    ("isa", "release"),
    [("x86_64", "v6.12"), ("arm64", "v6.1"), ("arm64", "v7.2"), ("riscv64", "v6.12"), ("riscv64", "v7.2")],
)
def test_as_many_ops_as_there_is_room_for(isa, release):
    """128 ops on a function are all called; one more is refused without a trace; taken away in a random order they
    leave nothing behind, and 128 fit again."""
    s, rnd = Subject(isa, release), random.Random(release)
    for n in range(POOL_SIZE):
        assert s.register(Ops(filter=("one_arg",), save="regs" if s.facts.regs and n % 3 == 0 else "args"))
    s.check()
    s.play()
    for request in (Ops(), Ops(filter=("two_args",)), *([Direct(filter=("two_args",))] if s.facts.direct else [])):
        assert not s.register(request)
    for n in rnd.sample(range(POOL_SIZE), POOL_SIZE):
        s.unregister(s.model.tracers[n % len(s.model.tracers)])
    s.check()
    s.check_idle()
    for _ in range(POOL_SIZE):
        assert s.register(Ops(filter=("one_arg",)))
    s.check()
    s.play()


def test_full_counter_is_refused_without_a_trace():
    """A record's counter that cannot go up refuses the ops before anything has changed."""
    k = Kernel("arm64", "v6.1")
    k.slowpath.records["one_arg"].counter_bits = 2  # the real ones cannot be filled
    guest = Guest(k, Facts("arm64", "v6.1"))
    k.attach(k.function("one_arg"), Ops(), Ops(), Ops())
    before = guest.everything()
    for request in (Ops(), Ops(filter=("two_args", "one_arg"))):
        with pytest.raises(TramplabError, match=r"one_arg.*counter"):
            k.attach(None, request)
        assert guest.everything() == before
    assert k.call("one_arg", 1).hits == (1, 1, 1)


# --- Patch plans

#: One release for every way of patching.
PLANS = [
    ("x86_64", "v6.1"),
    ("x86_64", "v6.12"),
    ("arm64", "v6.1"),
    ("arm64", "v6.12"),
    ("riscv64", "v6.1"),
    ("riscv64", "v6.12"),
    ("riscv64", "v7.2"),
]
every_plan = pytest.mark.parametrize(("isa", "release"), PLANS, ids=[f"{i}-{r}" for i, r in PLANS])
TRACED = ("one_arg", "two_args", "eight_args")


def plans(s: Subject):
    """Plans of every kind, one after the other, each to be carried out before the next is asked for."""
    path, registered = s.k.slowpath, []

    def register(request: Ops | Direct) -> list:
        ops, steps = path.register(request)
        registered.append(ops)
        return steps

    yield register(Ops(filter=TRACED, dynamic=False))
    yield register(Ops(filter=TRACED[:2], recursion=True))
    if s.facts.regs:
        yield register(Ops(filter=TRACED[1:], save="regs"))
    if s.facts.direct:
        yield register(Direct(filter=("three_args", "no_args")))
        yield register(Ops(filter=("no_args",)))
    yield register(Ops())
    for ops in (registered[1], registered[0], *registered[:1:-1]):
        yield path.unregister(ops)


def live(s: Subject) -> dict[int, int]:
    """The code that other CPUs may be executing while it changes: address -> size of each patched call."""
    size = {"x86_64": 5, "arm64": 4, "riscv64": 8 if s.facts.version > (6, 2) else 16}[s.facts.isa]
    start = 4 if s.facts.isa == "arm64" else 0
    sites = {s.guest.ip(f) if s.facts.isa == "x86_64" else s.k.function(f).address + start: size for f in s.k.functions}
    call = {"x86_64": 5, "arm64": 4, "riscv64": 8}[s.facts.isa]
    return sites | {s.k.image.address(label): call for label in s.guest.common_calls()}


def is_text(s: Subject, at: int) -> bool:
    return any(base <= at < base + size for base, size in s.k.machine.text)


@every_plan
def test_plan_step_by_step(isa, release):
    """A plan carried out one write at a time ends in the same memory as carried out at once. In between, wherever no
    CPU is held up or sent to a breakpoint, every function can be called and gives its result."""
    one, whole = Subject(isa, release), Subject(isa, release)
    for slow, fast in zip(plans(one), plans(whole), strict=True):
        assert slow == fast
        held = False
        for step in slow:
            one.k.apply([step])
            held = step.kind == "stop_machine" if isinstance(step, Sync) else held
            breakpoint_set = isa == "x86_64" and any(one.k.machine.read(at, 1) == b"\xcc" for at in live(one))
            if held or breakpoint_set:
                continue
            for name, args, value, _ in CALLS:
                assert one.k.call(name, *args).value == value, (name, step)
        whole.k.apply(fast)
        a, b = one.guest.memory(), whole.guest.memory()
        assert [hex(at) for at in a if a[at] != b[at]] == []
    assert one.guest.text() == one.booted == whole.booted


def test_x86_breakpoint_protocol():
    """x86-64: a live call changes only under a breakpoint. First byte to int3; wait; the four bytes behind it; wait;
    the first byte to what it shall be; wait. All sites of a plan go through the three phases together."""
    for release in ("v6.1", "v6.12"):
        s = Subject("x86_64", release)
        for plan in plans(s):
            phase, order, syncs = {}, [], 0
            calls = live(s)
            for step in plan:
                if isinstance(step, Sync):
                    syncs += step.kind == "text_poke_sync"
                    # whatever was written before this is seen by everybody from now on
                    phase = {at: (p, True) for at, (p, _) in phase.items()}
                elif any(at <= step.address < at + 5 for at in calls):
                    at = next(at for at in calls if at <= step.address < at + 5)
                    p, settled = phase.pop(at, ("old", True))
                    assert settled, "a second write before every CPU has seen the first"
                    where = (step.address - at, len(step.data))
                    if p == "old":
                        assert where == (0, 1) and step.data == b"\xcc"
                        phase[at] = ("int3", False)
                    elif p == "int3":
                        assert where == (1, 4)
                        phase[at] = ("tail", False)
                    else:
                        assert where == (0, 1) and step.data in (b"\xe8", b"\x0f")
                        phase[at] = ("old", False)
                    order.append((at, p))
                else:
                    # not live: a trampoline being made, where no site points yet, or data
                    assert not step.text or s.k.isa.module_base <= step.address < s.k.isa.module_base + 16 * 4096
                    assert step.text == is_text(s, step.address)
                s.k.apply([step])
            assert set(phase.values()) <= {("old", True)}, "the last write is seen by everybody too"
            sites = [(at, p) for at, p in order if s.k.image.component_at(at) != "trampoline"]
            count = len({at for at, _ in sites})
            assert [p for _, p in sites] == ["old"] * count + ["int3"] * count + ["tail"] * count
            assert syncs >= 3 or not order


@pytest.mark.parametrize("release", ["v6.1", "v6.12"])
def test_arm64_single_instructions(release):
    """arm64: every change of text is one aligned instruction, BL or NOP before and after, visible before the next; the
    literals are aligned 8-byte data."""
    s = Subject("arm64", release)
    literals = {s.k.function(f).address - 8 for f in s.k.functions} if s.facts.call_ops else set()
    for plan in plans(s):
        for step, after in itertools.zip_longest(plan, plan[1:]):
            if isinstance(step, Write) and step.address in live(s):
                old, new = s.guest.words(step.address, 1)[0], int.from_bytes(step.data, "little")
                assert step.text and len(step.data) == 4 and step.address % 4 == 0
                assert all(w == 0xD503201F or w >> 26 == 0x25 for w in (old, new))
                assert isinstance(after, Sync) and after.kind.startswith("ic ivau")
            elif isinstance(step, Write) and is_text(s, step.address):
                assert step.address in literals and len(step.data) == 8 and step.address % 8 == 0 and not step.text
            s.k.apply([step])


@pytest.mark.parametrize("release", ["v6.1", "v6.12"])
def test_riscv_pairs_change_under_stop_machine(release):
    """riscv64 up to v6.15: text changes only between stop_machine and fence.i, a whole site at a time."""
    s, text_writes = Subject("riscv64", release), 0
    for plan in plans(s):
        stopped, calls = False, live(s)
        for step in plan:
            if isinstance(step, Sync):
                assert not (step.kind == "stop_machine" and stopped)
                stopped = step.kind == "stop_machine" or (stopped and step.kind != "fence.i")
            elif is_text(s, step.address):
                assert stopped and step.text and calls[step.address] == len(step.data)
                text_writes += 1
            s.k.apply([step])
        assert not stopped
    assert text_writes > 30


def test_riscv_changes_one_jalr():
    """riscv64 from v6.16: no hart is stopped. Only the second word of a site changes, aligned, NOP or JALR through t0
    before and after; the AUIPC never; one flush_icache_all ends a plan's text changes."""
    s = Subject("riscv64", "v7.2")
    entries = {s.k.function(f).address for f in s.k.functions}
    upper = {e: s.guest.words(e, 1) for e in entries}
    for plan in plans(s):
        kinds = [step.kind if isinstance(step, Sync) else "text" if step.text else "data" for step in plan]
        assert "stop_machine" not in kinds
        for step in plan:
            if isinstance(step, Write) and step.text:
                new, old = int.from_bytes(step.data, "little"), s.guest.words(step.address, 1)[0]
                assert step.address - 4 in entries and len(step.data) == 4 and step.address % 4 == 0
                assert all(w == 0x13 or w & 0xFFFFF == 0x282E7 for w in (old, new))
            elif isinstance(step, Write) and is_text(s, step.address):
                assert step.address + 8 in entries and len(step.data) == 8 and step.address % 8 == 0
            s.k.apply([step])
        if "text" in kinds:
            last = len(kinds) - 1 - kinds[::-1].index("text")
            assert kinds.index("text") < last + 1 and "flush_icache_all" in kinds[last:]
            assert kinds.count("flush_icache_all") == 1 and kinds.index("flush_icache_all") > last
        assert {e: s.guest.words(e, 1) for e in entries} == upper


@every_plan
def test_sites_go_through_the_list_function_while_they_change(isa, release):
    """While sites change, the common trampolines call the list function, which suits everybody; the one that fits is
    put in when all sites are done, and what it is passed lies in memory before."""
    s = Subject(isa, release)
    address = s.k.image.address
    labels = {address(n): n for n in ("ftrace_call", "ftrace_regs_call") if n in s.k.image.symbols}
    if not labels:
        assert s.facts.call_ops
        return
    plan = next(plans(s))  # one ops of the core kernel: stub -> its function
    seen, sites = [], {a for a in live(s) if a not in labels}
    for step in plan:
        s.k.apply([step])
        if isinstance(step, Write):
            calls = (
                set(s.guest.common_calls().values())
                if isa != "x86_64" or not any(s.k.machine.read(a, 1) == b"\xcc" for a in labels)
                else set()
            )
            kind = "site" if any(a <= step.address < a + 16 for a in sites) and step.text else ""
            seen.append((kind, calls, s.guest.long("function_trace_op")))
    changing = [calls for kind, calls, _ in seen if kind == "site"]
    assert changing and all(c == {address("ftrace_ops_list_func")} for c in changing)
    assert seen[-1][1] == {address("lab_callback")}
    passed = [op for _, calls, op in seen if address("lab_callback") in calls]
    assert passed and set(passed) == {s.k.slowpath.ops[0].address}


@pytest.mark.parametrize(
    ("isa", "release"),
    [
        ("arm64", "v6.1"),
        ("arm64", "v7.2"),
        ("riscv64", "v6.1"),
        ("riscv64", "v6.12"),
        ("riscv64", "v7.2"),
        ("x86_64", "v7.2"),
    ],
)
def test_reach_of_a_site_is_exact(isa, release):
    """What a site is said to reach is what its bytes can say: at both ends of the reach the encoded target, read back
    from the bytes, is the one asked for, and one step further is refused. For riscv64 from v6.16 that is the 4 KiB
    around where the fixed AUIPC of that function points."""
    s = Subject(isa, release)
    path, step = s.k.slowpath, 4 if isa == "arm64" else 1
    for f in TRACED:
        site = path.records[f].site
        entry = s.k.function(f).address
        if isa == "riscv64" and s.facts.call_ops:
            middle = entry + sext(s.guest.words(entry, 1)[0] & 0xFFFFF000, 32)
            ends = (middle - 2048, middle + 2047)
        elif isa == "arm64":
            ends = (entry + 4 - (1 << 27), entry + 4 + (1 << 27) - 4)
        elif isa == "x86_64":  # its upper end lies beyond the end of the address space
            ends = (s.guest.ip(f) + 5 - (1 << 31), None)
        else:  # a pair; in the 16-byte site it lies 4 bytes further
            ends = (entry - (1 << 31) - 2048 + (4 if site.body - entry == 16 else 0), None)
        for end, beyond in zip(ends, (-step, step), strict=True):
            if end is None:
                continue
            reaches = [path.arch.reaches(site, t, path.features, s.k.image.address) for t in (end, end + beyond)]
            assert reaches == [True, False], (f, end - entry)
            at = entry + 4 if isa == "arm64" or (isa == "riscv64" and s.facts.call_ops) else s.guest.ip(f)
            booted = s.k.machine.read(at, site.body - at)
            s.k.machine.poke(at, path.arch.call_bytes(site, end, path.features, s.k.image.address))
            assert s.guest.site(f) == end & MASK
            s.k.machine.poke(at, booted)


def test_the_model_can_tell(monkeypatch):
    """The comparison notices when the package's rules are broken: each of these mistakes turns it red."""
    from tramplab.ftrace import slowpath
    from tramplab.ftrace.records import Record

    def keeps_tramp(self, name, on, put=Record.put):
        put(self, name, on or name == "TRAMP")

    def forgets_regs(self, ops, others, remove=Record.remove):
        had = self.has("REGS")
        remove(self, ops, others)
        self.put("REGS", had)

    def wrong_order(self, request, register=slowpath.SlowPath.register):
        ops, steps = register(self, request)
        self.ops.append(self.ops.pop(0))
        return ops, steps

    mistakes = [
        (Record, "put", keeps_tramp),
        (Record, "remove", forgets_regs),
        (slowpath.SlowPath, "register", wrong_order),
    ]
    for owner, name, mistake in mistakes:
        with monkeypatch.context() as m:
            m.setattr(owner, name, mistake)
            with pytest.raises(AssertionError):
                s = subject_with("x86_64", "v6.12", Ops(filter=("one_arg",)), Ops(save="regs", filter=("one_arg",)))
                s.unregister(s.model.tracers[0])
                s.check()
