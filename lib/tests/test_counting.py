"""Counts are exact: two meters, a memory hook and the recorded way through the code all tell the same."""

import itertools
from contextlib import contextmanager
from dataclasses import astuple, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tramplab import Direct, Kernel, Ops
from tramplab import isa as isas
from tramplab.build.assemble import assemble
from tramplab.emulate import counters, counts, decode, machine, meter
from tramplab.emulate.counts import COMPONENTS, Counts
from tramplab.emulate.trace import Issued, Recording, StackFrame, frame_of
from tramplab.errors import StepLimit, TramplabError
from tramplab.ftrace import releases

ISAS = ("x86_64", "arm64", "riscv64")
RELEASES = tuple(sorted({*releases.shown(), "v6.3", "v6.8"}, key=releases.parse))
every_isa = pytest.mark.parametrize("isa", ISAS)
every_kernel = pytest.mark.parametrize(("isa", "release"), list(itertools.product(ISAS, RELEASES)))

#: Feature needed, and what is attached.
HOOKS = {
    "none": (None, []),
    "ops": (None, [Ops()]),
    "ops-core": (None, [Ops(dynamic=False)]),
    "ops-assist": (None, [Ops(recursion=True, rcu=True)]),
    "ops-observe": (None, [Ops(callback="lab_observe")]),
    "ops-regs": ("regs", [Ops(save="regs")]),
    "ops x2": (None, [Ops(), Ops()]),
    "ops x10": (None, [Ops(), *(Ops(filter=("no_args",)) for _ in range(8)), Ops(notrace=("one_arg",))]),
    "direct": ("direct", [Direct()]),
    "direct-far": ("direct", [Direct(far=True)]),
    "direct+ops": ("direct", [Direct(observe=True), Ops(rcu=True)]),
}
#: Calls of every kind: leaves, memory, stack arguments, nested traced calls, a tail call.
CALLS = ("one_arg", "eight_args", "pointer_args", "calls_others", "tail_call")


@contextmanager
def hooked(k: Kernel, hook: str):
    """The kernel with a hook on all functions."""
    _, requests = HOOKS[hook]
    every = k.functions
    prepared = [
        r if r.filter or isinstance(r, Ops) else type(r)(far=r.far, observe=r.observe, filter=every) for r in requests
    ]
    with k.attached(None, *prepared) as ops:
        yield ops


def hooks_of(k: Kernel) -> list[str]:
    return [name for name, (needs, _) in HOOKS.items() if needs is None or k.features[needs]]


def call(k: Kernel, name: str, **options):
    return k.call(name, *arguments(k, name), **options)


def arguments(k: Kernel, name: str) -> tuple[int, ...]:
    if name == "pointer_args":
        cell = k.machine.stack_top - 4096  # some writable memory that the call's own frames do not reach
        return cell, cell + 8
    return tuple(range(1, 9))[: {"one_arg": 1, "eight_args": 8, "calls_others": 3, "tail_call": 2}[name]]


def total(rows) -> Counts:
    """The sum of rows that have the members of a Counts."""
    return Counts(*map(sum, zip(*rows, strict=True)))


def plus(parts) -> Counts:
    return total(astuple(c) for c in parts)


def decoded(k: Kernel, run) -> dict[int, decode.Instruction]:
    """The instructions that a run executed, from memory as it is now."""
    return {pc: k.machine.instruction_at(pc) for pc in {s.pc for s in run.steps}}


def seen(run, code: dict[int, decode.Instruction]) -> list[tuple[int, ...]]:
    """What each recorded step did, as the members of a Counts, from the recording alone; a branch was taken if the next
    step is not the one behind."""
    out = []
    for s, after in itertools.zip_longest(run.steps, run.steps[1:]):
        loads, stores = ([n for _, n, w in s.accesses if w == kind] for kind in (False, True))
        taken = after is None or after.pc != s.pc + code[s.pc].size
        out.append((1, len(loads), len(stores), sum(loads), sum(stores), int(taken)))
    return out


# --- Static decode against what the memory hook saw


@every_kernel
def test_counts_equal_what_was_seen(isa, release):
    """For every hook and kind of call: what decoding the executed instructions gives is, instruction by instruction and
    in total, what the memory hook reported, and taken branches are the jumps in the sequence of addresses."""
    k = Kernel(isa, release)
    for hook in hooks_of(k):
        with hooked(k, hook):
            for name in CALLS:
                run = call(k, name)
                code = decoded(k, run)
                each = seen(run, code)
                for s, got in zip(run.steps, each, strict=True):
                    a = decode.known_accesses(k.isa, s.pc, code[s.pc].data)
                    assert (a.loads, a.stores, a.load_bytes, a.store_bytes) == got[1:5], (hook, code[s.pc].text)
                    assert all(size <= 8 for _, size, _ in s.accesses)
                assert run.counts.total == total(each), (hook, name)
                for which, parts in (
                    (run.component_of, run.counts.by_component),
                    (run.symbol_of, run.counts.by_symbol),
                ):
                    owner = {pc: which(pc) for pc in code}
                    for part, c in parts.items():
                        assert c == total(e for s, e in zip(run.steps, each, strict=True) if owner[s.pc] == part), (
                            hook,
                            name,
                            part,
                        )


@every_kernel
def test_the_parts_add_up(isa, release):
    """Components and symbols both sum to the total; entry, exit, the function's own body and the callbacks around it
    make the whole call, of a leaf and of a function that has other traced ones inside its body."""
    k = Kernel(isa, release)
    for hook in hooks_of(k):
        with hooked(k, hook):
            for name in ("eight_args", "calls_others"):
                run = call(k, name)
                whole, each = run.counts.total, seen(run, decoded(k, run))
                assert whole.instructions == len(run.steps)
                assert plus(run.counts.by_component.values()) == plus(run.counts.by_symbol.values()) == whole
                assert set(run.counts.by_component) == set(COMPONENTS)
                lo, hi = run.function.site.body, run.function.address + run.function.size
                inside = [i for i, s in enumerate(run.steps) if lo <= s.pc < hi]
                first, last = inside[0], inside[-1] + 1
                callbacks = total(
                    c
                    for i, c in enumerate(each)
                    if not first <= i < last and run.component_of(run.steps[i].pc) == "callback"
                )
                body = total(each[first:last])
                assert run.entry + body + run.exit + callbacks == whole, (hook, name)
                if name == "eight_args":
                    assert body == run.counts.by_component["function"]
                    assert callbacks == run.counts.by_component["callback"]


@every_isa
def test_unhooked_call_is_site_and_body_only(isa):
    """Without a hook nothing but the idle site and the function run, and the site touches no memory."""
    for release in RELEASES:
        k = Kernel(isa, release)
        c = call(k, "one_arg").counts
        assert {n for n, part in c.by_component.items() if part.instructions} == {"site", "function"}
        # endbr64 and the NOP; mov and NOP; AUIPC and NOP, two or four NOPs
        wanted = {
            "x86_64": 1 + bool(k.features["ibt"]),
            "arm64": 2,
            "riscv64": 4 if k.features["site"] == "detour16" else 2,
        }[isa]
        assert c.by_component["site"] == Counts(instructions=wanted)
        assert set(c.by_symbol) == {"one_arg"}


def test_arithmetic_of_counts():
    """Adding and subtracting are member by member, and nothing is left out of a dictionary."""
    a, b = Counts(1, 2, 3, 4, 5, 6), Counts(10, 20, 30, 40, 50, 60)
    assert (a + b).as_dict() == {f.name: 11 * (i + 1) for i, f in enumerate(fields(Counts))}
    assert a + b - b == a and Counts() + a == a


# --- Two meters


@every_isa
@pytest.mark.parametrize("release", ["v6.1", "v6.12", "v7.2"])
def test_both_meters_agree(isa, release):
    """The compiled meter and the one in Python give the same counts, the same steps and the same accesses for every
    hook, and recording changes no count."""
    assert meter.library() is not None, "the compiled meter could not be built here"
    kernels = {
        (kind, python): Kernel(isa, release, meter=kind, python_meter=python)
        for kind in ("count", "record")
        for python in (False, True)
    }
    for hook in hooks_of(kernels["count", False]):
        runs = {}
        for key, k in kernels.items():
            with hooked(k, hook):
                runs[key] = [call(k, name) for name in CALLS]
        for name, expected, *others in zip(
            CALLS, runs["record", False], *(runs[key] for key in runs if key != ("record", False)), strict=True
        ):
            for run in others:
                assert run.counts == expected.counts, (hook, name)
                assert (run.value, run.hits, run.registers) == (expected.value, expected.hits, expected.registers), (
                    hook,
                    name,
                )
        for compiled, in_python in zip(runs["record", False], runs["record", True], strict=True):
            assert in_python.steps == compiled.steps
            assert (in_python.frame, in_python.entry, in_python.exit) == (compiled.frame, compiled.entry, compiled.exit)


def test_environment_chooses_the_python_meter(monkeypatch):
    """TRAMPLAB_METER=python never loads the compiled meter; the counts stay the same."""
    compiled = call(Kernel("arm64"), "eight_args").counts
    meter.library.cache_clear()
    monkeypatch.setenv("TRAMPLAB_METER", "python")
    try:
        assert meter.library() is None
        k = Kernel("arm64")
        assert call(k, "eight_args").counts == compiled
    finally:
        monkeypatch.undo()
        meter.library.cache_clear()
    assert meter.library() is not None


@every_isa
@pytest.mark.parametrize("python", [False, True], ids=["compiled", "python"])
def test_full_recording_says_how_much_was_lost(isa, python, monkeypatch):
    """A recording that does not fit is refused with the number of lost events, never returned cut off."""
    whole = call(Kernel(isa, python_meter=python), "one_arg")
    events = sum(1 + len(s.accesses) for s in whole.steps)
    for room in (1, events - 1):
        monkeypatch.setattr(machine, "MAX_EVENTS", room)
        with pytest.raises(TramplabError, match=rf"\b{events - room} events were lost"):
            call(Kernel(isa, python_meter=python), "one_arg")
    monkeypatch.setattr(machine, "MAX_EVENTS", events)
    assert call(Kernel(isa, python_meter=python), "one_arg").steps == whole.steps


def test_unknown_meter_is_refused():
    """A misspelt meter is an error, not a kernel that counts nothing."""
    with pytest.raises(TramplabError, match=r"recrod.*record"):
        Kernel("arm64", meter="recrod")


# --- The budget


@every_isa
@pytest.mark.parametrize("hook", ["none", "ops x2"])
@pytest.mark.parametrize("python", [False, True], ids=["compiled", "python"])
def test_budget_is_exact(isa, hook, python):
    """A call of n instructions passes with a budget of n and not with any smaller one; the message has the budget."""
    k = Kernel(isa, "v6.12", meter="count", python_meter=python)
    with hooked(k, hook):
        n = call(k, "one_arg").counts.total.instructions
        assert call(k, "one_arg", budget=n).counts.total.instructions == n
    for budget in sorted({0, 1, 2, n // 2, n - 2, n - 1}):
        k = Kernel(isa, "v6.12", meter="count", python_meter=python)  # fresh: what was cut off may hold the guard
        with hooked(k, hook), pytest.raises(StepLimit, match=rf"\b{budget} instructions"):
            call(k, "one_arg", budget=budget)


# --- Instructions beyond what the guest has

#: Assembly, registers before, and loads, stores, bytes loaded and bytes stored. The pointer is to a zeroed scratch
#: area.
TABLE = {
    "x86_64": [
        ("push qword ptr [rdi]; pop rax", (2, 1, 16, 8)),
        ("push rdi; pop qword ptr [rdi]", (1, 2, 8, 16)),
        ("pushfq; popfq", (1, 1, 8, 8)),
        ("mov byte ptr [rdi], al", (0, 1, 0, 1)),
        ("mov word ptr [rdi + 2], 7", (0, 1, 0, 2)),
        ("mov eax, dword ptr [rdi]", (1, 0, 4, 0)),
        ("movzx eax, byte ptr [rdi]; movsx rax, word ptr [rdi]; movsxd rax, dword ptr [rdi]", (3, 0, 7, 0)),
        ("add qword ptr [rdi], 1; lock inc dword ptr [rdi]", (2, 2, 12, 12)),
        ("xchg qword ptr [rdi], rax; lock xadd qword ptr [rdi], rax", (2, 2, 16, 16)),
        ("cmp qword ptr [rdi], 0; test byte ptr [rdi], 1", (2, 0, 9, 0)),
        ("cmove rax, qword ptr [rdi]; sete byte ptr [rdi]", (1, 1, 8, 1)),
        ("imul rax, qword ptr [rdi], 3; not dword ptr [rdi]", (2, 1, 12, 4)),
        ("lea rax, [rdi + 8]; nop dword ptr [rdi]", (0, 0, 0, 0)),
        ("push rbp; mov rbp, rsp; leave", (1, 1, 8, 8)),
    ],
    "arm64": [
        ("ldp x1, x2, [x0]; stp w1, w2, [x0]", (2, 2, 16, 8)),
        ("ldpsw x1, x2, [x0]; ldnp w1, w2, [x0]", (4, 0, 16, 0)),
        ("ldrb w1, [x0]; ldrsh x1, [x0, #2]; ldrsw x1, [x0, #4]; ldur x1, [x0, #1]", (4, 0, 15, 0)),
        ("strb w1, [x0]; strh w1, [x0, #2]; str w1, [x0, #4]; stur x1, [x0, #1]", (0, 4, 0, 15)),
        ("ldar x1, [x0]; stlr w1, [x0]; ldarb w1, [x0]; stlrh w1, [x0]", (2, 2, 9, 6)),
        ("ldxr x1, [x0]; ldaxrb w1, [x0]; clrex", (2, 0, 9, 0)),
        ("stp x0, xzr, [sp, #-16]!; ldr x1, [sp], #16", (1, 2, 8, 16)),
        ("prfm pldl1keep, [x0]; adr x1, #8; mrs x1, sp_el0; isb; dmb ish", (0, 0, 0, 0)),
    ],
    "riscv64": [
        (
            "lb a1, 0(a0); lbu a1, 1(a0); lh a1, 2(a0); lhu a1, 2(a0); lw a1, 4(a0); lwu a1, 4(a0); ld a1, 8(a0)",
            (7, 0, 22, 0),
        ),
        ("sb a1, 0(a0); sh a1, 2(a0); sw a1, 4(a0); sd a1, 8(a0)", (0, 4, 0, 15)),
        ("c.ld a1, 0(a0); c.sd a1, 8(a0); c.lw a1, 0(a0); c.sw a1, 4(a0)", (2, 2, 12, 12)),
        (
            "addi sp, sp, -16; c.sdsp a0, 8(sp); c.ldsp a1, 8(sp); c.swsp a0, 0(sp); c.lwsp a1, 0(sp); addi sp, sp, 16",
            (2, 2, 12, 12),
        ),
        ("amoadd.d a1, a1, (a0); amoswap.w.aqrl a1, a1, (a0)", (2, 2, 12, 12)),
        ("lr.d a1, (a0); lr.w.aq a1, (a0)", (2, 0, 12, 0)),
        ("ld a1, 1(a0); fence rw, rw; fence.i; auipc a1, 1", (1, 0, 8, 0)),
    ],
}
SNIPPETS = [(isa, source, expected) for isa, rows in TABLE.items() for source, expected in rows]
PROLOGUE = {"x86_64": [], "arm64": [], "riscv64": [".option arch, +c"]}


@pytest.mark.parametrize(
    ("isa", "source", "expected"), SNIPPETS, ids=[f"{i}-{s.split(';')[0]}" for i, s, _ in SNIPPETS]
)
def test_access_tables(isa, source, expected):
    """Instructions that the guest does not use yet: the tables say what the architecture says and what the memory hook
    sees when they are executed."""
    k = Kernel(isa)
    m, at = k.machine, k.isa.module_base + 0x8000
    lines = [*PROLOGUE[isa], *(part.strip() for part in source.split(";")), "ret"]
    m.poke(at, assemble(k.isa, "\n".join(lines), at))
    raw = m.call(at, {k.isa.args[0]: k.memory(0, 0, 0, 0)})
    instructions = {pc: m.instruction_at(pc) for pc in raw.tally.issued}
    made = counts.count(k.isa, raw.tally, instructions, lambda _: "core", lambda _: "snippet").total
    back = {"x86_64": (1, 0, 8, 0)}.get(isa, (0, 0, 0, 0))  # x86's ret loads
    assert (made.loads, made.stores, made.load_bytes, made.store_bytes) == tuple(
        a + b for a, b in zip(expected, back, strict=True)
    )
    events = raw.events.tolist()
    kinds = [[size for _, _, _, size, kind in events if kind == which] for which in (counters.LOAD, counters.STORE)]
    assert (len(kinds[0]), len(kinds[1]), sum(kinds[0]), sum(kinds[1])) == (
        made.loads,
        made.stores,
        made.load_bytes,
        made.store_bytes,
    )
    assert made.instructions == len([e for e in events if e[4] == counters.INSTRUCTION])


#: Bytes of instructions whose accesses depend on registers, are wider than a word, or that no table has.
REFUSED = [
    ("x86_64", "f3a4", "rep movsb"),
    ("x86_64", "f348ab", "rep stosq"),
    ("x86_64", "a4", "movsb"),
    ("x86_64", "a6", "cmpsb"),
    ("x86_64", "ac", "lodsb"),
    ("x86_64", "0f1007", "movups"),
    ("x86_64", "660f6f07", "movdqa"),
    ("x86_64", "f30f6f07", "movdqu"),
    ("x86_64", "f20f1007", "movsd"),
    ("x86_64", "480fc70f", "cmpxchg16b"),
    ("x86_64", "0fae07", "fxsave"),
    ("x86_64", "dd07", "fld"),
    ("x86_64", "0f0117", "lgdt"),
    ("x86_64", "c8100000", "enter"),
    ("x86_64", "cb", "retf"),
    ("x86_64", "d7", "xlatb"),
    ("arm64", "20740bd5", "dc zva"),
    ("arm64", "417ca0c8", "cas"),
    ("arm64", "410020f8", "ldadd"),
    ("arm64", "418020f8", "swp"),
    ("arm64", "0070400c", "ld1"),
    ("arm64", "41087fc8", "ldxp"),
    ("arm64", "2000c03d", "ldr q0"),
    ("arm64", "200040fd", "ldr d0"),
    ("arm64", "200440ad", "ldp q0"),
    ("arm64", "200480ac", "stp q0"),
    ("riscv64", "07350500", "fld"),
    ("riscv64", "27b0a500", "fsd"),
]


@pytest.mark.parametrize(("isa", "data", "text"), REFUSED, ids=[f"{i}-{t}" for i, _, t in REFUSED])
def test_no_guess_at_an_instruction_in_no_table(isa, data, text):
    """Rather than count it wrongly, decoding refuses: the message has the instruction, its address and where to add
    it."""
    record, code = isas.get(isa), bytes.fromhex(data)
    assert decode.at(record, 0x1000, code).text.startswith(text)
    with pytest.raises(TramplabError) as e:
        decode.known_accesses(record, 0x1000, code)
    message = str(e.value)
    assert text in message and "0x1000" in message and f"accesses.{isa}" in message
    assert "\n" not in message and message.endswith(".")


@pytest.mark.parametrize(
    ("isa", "data"), [("riscv64", "ffffffff"), ("arm64", "ffffffff"), ("x86_64", "0f04"), ("x86_64", "06")]
)
def test_bytes_that_are_no_instruction(isa, data):
    """Bytes that nothing decodes raise too, with the bytes and the address."""
    with pytest.raises(TramplabError, match=rf"{data}.*0x1000.*no {isa} instruction"):
        decode.known_accesses(isas.get(isa), 0x1000, bytes.fromhex(data))


def test_a_run_with_such_an_instruction_has_no_counts():
    """The same from end to end: a function that copies with `rep movsb` runs, but its counts are refused, not
    guessed."""
    k = Kernel("x86_64")
    f = k.function("one_arg")
    k.machine.poke(f.site.body, assemble(k.isa, "xor ecx, ecx\nrep movsb\nret", f.site.body))
    run = k.call(f, 1)
    with pytest.raises(TramplabError, match=r"rep movsb.*0x[0-9a-f]+.*accesses\.x86_64"):
        _ = run.counts


# --- The frame

TRAMPOLINE = range(0x1000, 0x2000)


def frame(*steps: tuple[int, int, list[tuple[int, int, bool]]]) -> StackFrame:
    events = []
    for pc, sp, accesses in steps:
        events += [(pc, pc, sp, 4, counters.INSTRUCTION)]
        events += [(pc, a, 0, size, counters.STORE if store else counters.LOAD) for a, size, store in accesses]
    recording = Recording(np.array(events, counters.EVENT), {pc for pc, _, _ in steps})
    assert recording.steps == [Issued(pc, sp, tuple(accesses)) for pc, sp, accesses in steps]
    return frame_of(recording, lambda pc: pc in TRAMPOLINE)


def test_frame_of_a_hand_made_call():
    """A site at sp 0x8000; a trampoline that takes 64 bytes, writes 8 + 16 of them (8 twice), calls something that goes
    0x90 deep, and gives its frame back: 64 bytes of frame, 24 written, 0x90 deepest."""
    assert frame(
        (0x500, 0x8000, []),
        (0x1000, 0x8000, []),
        (0x1004, 0x7FC0, [(0x7FC0, 8, True)]),
        (0x1008, 0x7FC0, [(0x7FC8, 8, True), (0x7FD0, 8, True)]),
        (0x100C, 0x7FC0, [(0x7FC8, 8, True)]),  # the same bytes again
        (0x1010, 0x7FC0, [(0x7FC0, 8, False)]),  # a load writes nothing
        (0x3000, 0x7FC0, [(0x7F70, 8, True)]),
        (0x3004, 0x7F70, []),
        (0x1014, 0x7FC0, []),
        (0x504, 0x8000, []),
    ) == StackFrame(frame=64, written=24, deepest=0x90)


def test_only_bytes_of_the_frame_count_as_written():
    """A store to data, above the frame or partly above it counts only with the bytes inside."""
    assert frame(
        (0x1000, 0x8000, [(0x8000, 8, True)]),  # the caller's
        (0x1004, 0x7FF0, [(0x7FFC, 8, True)]),  # half of it the caller's
        (0x1008, 0x7FF0, [(0x40, 8, True)]),  # data
        (0x100C, 0x7FF0, [(0x7FF1, 1, True)]),
    ) == StackFrame(frame=16, written=5, deepest=16)


def test_no_trampoline_no_frame():
    """An unhooked call has no frame; how deep it goes is still known, from the stack pointer and from stores below
    it."""
    assert frame((0x500, 0x8000, []), (0x504, 0x7FE0, [(0x7FD8, 8, True)]), (0x508, 0x8000, [])) == StackFrame(0, 0, 0x28)
    assert frame((0x500, 0x8000, [(0x90000, 8, True)])) == StackFrame(0, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 120), st.sampled_from([1, 2, 4, 8])), max_size=12))
@settings(max_examples=settings.default.max_examples // 2)
def test_written_bytes_are_a_set(stores):
    """However stores overlap, each byte of the frame is counted once."""
    expected = {b for at, size in stores for b in range(at, min(at + size, 128))}
    steps = [(0x1000, 0x8000, []), *((0x1004, 0x8000 - 128, [(0x8000 - 128 + at, size, True)]) for at, size in stores)]
    assert frame(*steps) == StackFrame(128 if stores else 0, len(expected), 128 if stores else 0)


def test_steps_need_a_recording():
    """A kernel that only counts says how to get the steps."""
    run = Kernel("riscv64", meter="count").call("one_arg", 1)
    for what in ("steps", "frame", "entry"):
        with pytest.raises(TramplabError, match="meter='record'"):
            getattr(run, what)
