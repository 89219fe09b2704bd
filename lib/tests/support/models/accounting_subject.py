"""A kernel and its model side by side: every change is made in both, then everything is compared."""

import itertools

import pytest

from support.models.accounting_guest import Guest
from support.models.accounting_model import FL_DYNAMIC, FL_RCU, FL_SAVE_REGS, HEAP_SIZE, MADE, Facts, Model, Tracer
from tramplab import Bpf, Kernel, Ops
from tramplab.base.errors import TramplabError
from tramplab.ftrace.ops import Request

# --- Calls

W = (3, 5, 7, 11, 13, 17, 19, 23)
NEW_W, NEW = (29, 31, 37, 41, 43, 47, 53, 59), 1 << 40


def weigh(*args: int, by: tuple[int, ...] = W) -> int:
    return sum(a * w for a, w in zip(args, by, strict=False))


#: Function, arguments, result, and every traced function that is entered on the way.
CALLS = [
    ("no_args", (), 42, ["no_args"]),
    ("one_arg", (9,), 27, ["one_arg"]),
    ("three_args", (1, 2, 3), 34, ["three_args"]),
    ("eight_args", tuple(range(8)), weigh(*range(8)), ["eight_args"]),
    ("calls_others", (1, 2, 3), 13 * 11 + weigh(3, 13, 1), ["calls_others", "two_args", "three_args"]),
    ("tail_call", (1, 2), weigh(2, 1), ["tail_call", "two_args"]),
]


def patched(save: str, functions: tuple[str, ...], callback: str = "lab_livepatch", **more) -> Ops:
    """An ops that sends calls to the replacement of its function; of several, to one that takes no arguments."""
    new = f"new_{functions[0]}" if len(functions) == 1 else "new_no_args"
    return Ops(save=save, filter=functions, callback=callback, go_to=new, **more)


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

    def register(self, request: Request) -> bool:
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

    def stub(self, t: Tracer) -> int:
        """Where a direct call goes; where a trampoline was made for it, that is the package's to choose."""
        return t.real.generated[0].address if t.direct == MADE else self.k.image.address(t.direct)

    def target(self, function: str) -> int:
        """Where the model says that a site goes."""
        e, address = self.model.entries[function], self.k.image.address
        if not e.count:
            return 0
        common = address("ftrace_regs_caller" if "REGS" in e.flags else "ftrace_caller")
        if "DIRECT" in e.flags and e.count == 1:
            stub = self.stub(self.model.wanting(function)[0])
            return stub if self.guest.reaches(function, stub) else common
        if "TRAMP" in e.flags:
            return self.model.wanting(function)[0].real.trampoline
        return common

    def jumped(self, function: str) -> bool:
        """Does the site jump where it goes, rather than call it?"""
        return self.model.entries[function].count == 1 and self.model.wanting(function)[0].jumped

    def check(self) -> None:
        k, address = self.k, self.k.image.address
        for f, e in self.model.entries.items():
            record = k.slowpath.records[f]
            assert (f, record.count, record.flags) == (f, e.count, self.model.word(f)), (record.names, e)
            assert k.slowpath.target(f) == self.target(f) + self.jumped(f), f  # an odd address is one to jump to
            assert self.guest.site(f, self.jumped(f)) == self.target(f), f
            if self.facts.call_ops:
                literal = "ftrace_list_ops" if e.count else "ftrace_nop_ops"
                alone = self.model.wanting(f)[0].real.address if "CALL_OPS_EN" in e.flags else address(literal)
                assert self.guest.literal(f) == alone, f
        self.check_list()
        self.check_common()
        self.check_places()

    def check_list(self) -> None:
        """The guest's list has the ops in the model's order, each with the members that the request asks for."""
        found = self.guest.list_of_ops()
        assert [o["address"] for o in found] == [t.real.address for t in self.model.tracers]
        address, ips = self.k.image.address, {f: self.guest.ip(f) for f in self.model.entries}
        hash_fields = {n: f.offset for n, f in self.k.image.struct("ftrace_ops_hash").fields.items()}
        for o, t in zip(found, self.model.tracers, strict=True):
            assert o["flags"] == t.flags
            assert o["func"] == o["saved_func"] == address(t.func)
            for member, names in (("filter_hash", t.filter), ("notrace_hash", t.notrace)):
                entries = self.guest.hash(self.k.machine.read_u64(o["func_hash"] + hash_fields[member]))
                assert entries == ({ips[f] for f in names} if names else None)
            in_ops = self.facts.version >= (6, 4) and (self.facts.isa != "x86_64" or self.facts.version <= (6, 19))
            assert o["direct_call"] == (self.stub(t) if t.direct and in_ops else 0)
            if t.own_set:
                self.check_own_set(o, t)
            elif self.facts.own_trampolines or t.direct:
                self.check_trampoline(o, t)
            else:
                assert o["trampoline"] == 0
        counters = [o["private"] for o, t in zip(found, self.model.tracers, strict=True) if not t.direct]
        assert len(set(counters)) == len(counters)

    def check_own_set(self, o: dict[str, int], t: Tracer) -> None:
        """A save set that no kernel has: a trampoline in the room for such, which calls what is to be called for this ops."""
        room = self.k.image.symbol("lab_shape")
        start, size = o["trampoline"], o["trampoline_size"]
        assert room.address <= start and start + size <= room.address + room.size
        address = self.k.image.address
        wanted, other = address(t.func), address("ftrace_ops_assist_func")
        calls = self.guest.calls_inside(start, size)
        assert ((wanted in calls), (other in calls)) == (not t.assisted, t.assisted)

    def check_places(self) -> None:
        """No trampoline lies in another one, and those of BPF programs lie in the module area."""
        own = [(t.real.trampoline, t.real.trampoline_size) for t in self.model.tracers if not t.direct]
        made = [(t.real.generated[0].address, t.real.generated[0].size) for t in self.model.tracers if t.direct == MADE]
        base = self.k.isa.module_base
        assert all(base <= at and size and at + size <= base + 16 * 4096 for at, size in made)
        places = sorted(place for place in own + made if place[1])
        assert all(at + size <= after for (at, size), (after, _) in itertools.pairwise(places))

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
        assert called == address("ftrace_ops_assist_func" if t.assisted else t.func)
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
            called = address("ftrace_ops_assist_func" if tracers[0].assisted else tracers[0].func)
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

    def outcome(self, name: str, *args: int) -> tuple[int, list[str]]:
        """What a call must give, and every traced function that is entered on the way, as functions are replaced now."""
        entered = [name]
        for t in self.model.wanting(name):
            if t.goes_to:
                return NEW + (1 if t.goes_to == "new_no_args" else weigh(*args, by=NEW_W)), entered

        def call(callee: str, *passed: int) -> int:
            value, more = self.outcome(callee, *passed)
            entered.extend(more)
            return value

        if name == "calls_others":
            left = call("two_args", *args[:2])
            return left * W[3] + call("three_args", args[2], left, args[0]), entered
        if name == "tail_call":
            return call("two_args", *reversed(args)), entered
        return weigh(*args) if args else 42, entered

    def can_be_called(self, entered: list[str]) -> bool:
        """Not where a call that is sent elsewhere would never come back, or finds its stack arguments one word further."""
        tracers = [(f, t) for f in entered for t in self.model.wanting(f) if t.goes_to]
        moved = self.facts.isa == "x86_64" and any(f == "eight_args" and t.changes_stack for f, t in tracers)
        return not moved and (self.facts.can_go_elsewhere or not tracers)

    def play(self) -> None:
        """Call functions: each ops sees each function it wants exactly once per entry, and direct calls, BPF programs and
        returns to where a replaced call comes back likewise; the result is the replacement's where there is one."""
        k, private = self.k, {}
        for o in self.guest.list_of_ops():
            private[o["address"]] = o["private"]
        for name, args, usual, usually in CALLS:
            value, entered = self.outcome(name, *args)
            if not any(t.goes_to for t in self.model.tracers):
                assert (value, entered) == (usual, usually)
            if not self.can_be_called(entered):
                continue
            before = {a: k.machine.read_u64(p) for a, p in private.items()}
            direct, programs, returns = map(self.guest.long, ("lab_direct_hits", "lab_bpf_hits", "lab_returns"))
            run = k.call(name, *args)
            assert run.value == value, name
            seen = {a: k.machine.read_u64(p) - before[a] for a, p in private.items()}
            wanted = {
                t.real.address: 0 if t.direct else sum(f in t.functions for f in entered) for t in self.model.tracers
            }
            assert seen == wanted, name
            assert run.hits == tuple(seen[t.real.address] for t in self.model.tracers)
            met = [t for f in entered for t in self.model.wanting(f)]
            assert self.guest.long("lab_direct_hits") - direct == sum(t.direct not in (None, MADE) for t in met), name
            assert self.guest.long("lab_bpf_hits") - programs == sum(t.programs for t in met), name
            assert self.guest.long("lab_returns") - returns == sum(t.changes_stack for t in met), name

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
        if self.facts.args:
            self.register(Ops(save="own-regs"))
            assert self.model.tracers[0].real.trampoline == address("lab_shape")
            self.unregister(self.model.tracers[0])
        if self.facts.direct:
            self.register(Bpf(fentry=1, filter=("one_arg",), guarded=False))
            assert self.model.tracers[0].real.generated[0].address == k.isa.module_base
            self.unregister(self.model.tracers[0])


def subject_with(isa: str, release: str, *requests: Request) -> Subject:
    s = Subject(isa, release)
    for r in requests:
        s.register(r)
        s.check()
    return s
