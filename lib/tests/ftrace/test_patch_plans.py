"""Patch plans: the protocol of each ISA, one step at a time, and how far a site reaches."""

import itertools

import pytest

from support.models.accounting_guest import sext
from support.models.accounting_model import MASK
from support.models.accounting_subject import CALLS, Subject
from tramplab import Direct, Ops
from tramplab.ftrace.ops import Request
from tramplab.ftrace.steps import Free, Step, Sync, Wait, Write

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

    def register(request: Request) -> list:
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
            held = step.sync is Sync.STOP_MACHINE if isinstance(step, Wait) else held
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
                if isinstance(step, Wait):
                    syncs += step.sync is Sync.TEXT_POKE
                    # whatever was written before this is seen by everybody from now on
                    phase = {at: (p, True) for at, (p, _) in phase.items()}
                elif isinstance(step, Free):
                    assert all(settled for _, settled in phase.values())
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
                assert isinstance(after, Wait) and after.sync is Sync.IC_IVAU
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
            if isinstance(step, Wait):
                assert not (step.sync is Sync.STOP_MACHINE and stopped)
                stopped = step.sync is Sync.STOP_MACHINE or (stopped and step.sync is not Sync.FENCE_I)
            elif isinstance(step, Write) and is_text(s, step.address):
                assert stopped and step.text and calls[step.address] == len(step.data)
                text_writes += 1
            s.k.apply([step])
        assert not stopped
    assert text_writes > 30


def kind(step: Step) -> str:
    """What a step is, in a word; a wait by the kernel's name."""
    if isinstance(step, Write):
        return "text" if step.text else "data"
    return step.sync.kernel if isinstance(step, Wait) else "free"


def check_riscv_order(plan: list[Step], entries: set[int]) -> None:
    """The sites change in one go, each after the ops that it is to find, and are made visible once, when all are written; each ops
    is followed by a flush of its own, as patch_text_nosync() has one."""
    kinds, places = [kind(step) for step in plan], [getattr(step, "address", None) for step in plan]
    for entry in entries & {at - 4 for at, what in zip(places, kinds, strict=True) if what == "text"}:
        if entry - 8 in places:
            assert places.index(entry - 8) < places.index(entry + 4), "a site changes before its literal"
    if "text" in kinds:
        first, last = kinds.index("text"), len(kinds) - 1 - kinds[::-1].index("text")
        assert set(kinds[first : last + 1]) == {"text"}, "something comes between the changes of sites"
        literals, flushes = len([at for at in places if at is not None and at + 8 in entries]), kinds.count("flush_icache_all")
        right = flushes == literals + 1 and kinds[last:].count("flush_icache_all") == 1
        assert right, "flush_icache_all comes too often, too seldom or too early"


def test_riscv_order_can_be_wrong():
    """Each of these plans does what the right one does, one step too early, too late or too often."""
    s = Subject("riscv64", "v7.2")
    entries = {s.k.function(f).address for f in s.k.functions}
    plan = next(plans(s))
    check_riscv_order(plan, entries)
    first, literal = [kind(step) for step in plan].index("text"), next(x for x in plan if getattr(x, "address", 0) + 8 in entries)
    flush = next(step for step in plan if kind(step) == "flush_icache_all")
    last_flush = [step for step in plan if kind(step) == "flush_icache_all"][-1]
    later = [step for step in plan if step is not literal]
    for wrong, complaint in (
        ([*later, literal], "a site changes before its literal"),
        ([*plan[: first + 1], flush, *plan[first + 1 :]], "something comes between"),
        ([*plan[: first + 1], plan[0], *plan[first + 1 :]], "something comes between"),
        ([*plan, flush], "flush_icache_all"),
        ([flush, *plan[: plan.index(last_flush)], *plan[plan.index(last_flush) + 1 :]], "flush_icache_all"),
    ):
        with pytest.raises(AssertionError, match=complaint):
            check_riscv_order(wrong, entries)


def test_riscv_changes_one_jalr():
    """riscv64 from v6.16: no hart is stopped. Only the second word of a site changes, aligned, NOP or JALR through t0
    before and after; the AUIPC never; one flush_icache_all ends a plan's text changes, beside that of each ops."""
    s = Subject("riscv64", "v7.2")
    entries = {s.k.function(f).address for f in s.k.functions}
    upper = {e: s.guest.words(e, 1) for e in entries}
    for plan in plans(s):
        assert "stop_machine" not in map(kind, plan)
        check_riscv_order(plan, entries)
        for step in plan:
            if isinstance(step, Write) and step.text:
                new, old = int.from_bytes(step.data, "little"), s.guest.words(step.address, 1)[0]
                assert step.address - 4 in entries and len(step.data) == 4 and step.address % 4 == 0
                assert all(w == 0x13 or w & 0xFFFFF == 0x282E7 for w in (old, new))
            elif isinstance(step, Write) and is_text(s, step.address):
                assert step.address + 8 in entries and len(step.data) == 8 and step.address % 8 == 0
            s.k.apply([step])
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
            if ends[0] & 1 and path.features["direct_jmp"]:
                continue  # an odd target is an even one to be jumped to; no code of either lies at an odd address
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
