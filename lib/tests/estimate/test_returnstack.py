"""The return stack: what pushes and pops by each ISA's manual, hand-computed calls, and the lab's hooks."""

from __future__ import annotations

import gc
import itertools
import struct
import types
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.models import handmade
from tramplab import Kernel
from tramplab.base.errors import TramplabError
from tramplab.emulate import decode
from tramplab.estimate import returnstack
from tramplab.estimate.links import NOTHING, POP, POP_PUSH, PUSH, arm64, riscv64, x86_64
from tramplab.estimate.measure import measure
from tramplab.estimate.returnstack import Event, Stack, play, replay, steady
from tramplab.ftrace import releases
from tramplab.isa import ISAS, get
from tramplab.lab import hooks
from tramplab.lab.call import RecordedCall
from tramplab.lab.measure import run
from tramplab.trampolines import shapes

CALLERS = returnstack.CALLERS


# what an instruction does, from its bytes


def rule(isa: str, data: bytes, address: int = 0x1000):
    i = decode.at(get(isa), address, data)
    return {"x86_64": x86_64, "arm64": arm64, "riscv64": riscv64}[isa].link(i.mnemonic, i.operands, address + i.size)


RA, T0 = 1, 5


@pytest.mark.parametrize("rd, rs1", list(itertools.product((0, RA, T0, 6, 10), repeat=2)))
def test_riscv_jalr(rd, rs1):
    """The manual's table of hints, row by row; also with an offset."""
    links = {RA, T0}
    if rd in links and rs1 in links:
        expected = PUSH if rd == rs1 else POP_PUSH
    else:
        expected = PUSH if rd in links else POP if rs1 in links else NOTHING
    for offset in (0, 0x10, -8):
        assert rule("riscv64", struct.pack("<I", (offset & 0xFFF) << 20 | rs1 << 15 | rd << 7 | 0x67)) == expected


@pytest.mark.parametrize(
    "code, expected",
    [
        (0x010000EF, PUSH),  # jal ra, +16
        (0x010002EF, PUSH),  # jal t0, +16
        (0x0100006F, NOTHING),  # j +16
        (0x01000FEF, NOTHING),  # jal t6, +16
        (0x00008067, POP),  # ret
        (0x00028067, POP),  # jr t0
        (0x8082, POP),  # c.jr ra
        (0x8282, POP),  # c.jr t0
        (0x8302, NOTHING),  # c.jr t1
        (0x9302, PUSH),  # c.jalr t1
        (0x9282, POP_PUSH),  # c.jalr t0: rd is ra
        (0x9082, PUSH),  # c.jalr ra: both are ra
        (0xA001, NOTHING),  # c.j
        (0x00B50463, NOTHING),  # beq a0, a1
    ],
)
def test_riscv_jumps(code, expected):
    assert rule("riscv64", code.to_bytes(4 if code & 3 == 3 else 2, "little")) == expected


@pytest.mark.parametrize(
    "code, expected",
    [
        (0x94000004, PUSH),  # bl
        (0xD63F0080, PUSH),  # blr x4
        (0xD65F03C0, POP),  # ret
        (0xD65F0120, POP),  # ret x9: whatever its register
        (0xD61F0120, NOTHING),  # br x9
        (0xD61F03C0, NOTHING),  # br x30
        (0x14000004, NOTHING),  # b
        (0xB4000040, NOTHING),  # cbz
    ],
)
def test_arm64(code, expected):
    assert rule("arm64", code.to_bytes(4, "little")) == expected


@pytest.mark.parametrize(
    "code, expected",
    [
        ("e810000000", PUSH),  # call +16
        ("e800000000", NOTHING),  # call the next instruction
        ("41ffd3", PUSH),  # call r11
        ("ff5308", PUSH),  # call [rbx + 8]
        ("c3", POP),
        ("c20800", POP),  # ret 8
        ("e910000000", NOTHING),  # jmp
        ("41ffe3", NOTHING),  # jmp r11
        ("7410", NOTHING),  # je
    ],
)
def test_x86(code, expected):
    assert rule("x86_64", bytes.fromhex(code)) == expected


# the stack itself


def reference(n: int, checked: bool, happened: list[Event]) -> list[tuple[int, int | None]]:
    """The same in another way: slots by absolute position, the newest of each place in the circle."""
    slots: dict[int, int] = {}
    top = valid = 0
    missed = []
    for e in happened:
        if e.link.pops:
            predicted = slots.get(top % n) if valid or not checked else None
            top, valid = top - 1, max(valid - 1, 0)
            if predicted != e.went:
                missed.append((e.step, predicted))
        if e.link.pushes:
            top, valid = top + 1, min(valid + 1, n)
            slots[top % n] = e.behind
    return missed


_EVENTS = st.lists(
    st.tuples(st.sampled_from([PUSH, POP, POP_PUSH]), st.integers(1, 4), st.integers(1, 4)), max_size=60
)  # few addresses, so that some returns are right by chance


@given(st.integers(1, 6), st.booleans(), _EVENTS)
def test_the_stack_is_a_circle(entries, checked, drawn):
    happened = [Event(n, link, behind, went) for n, (link, behind, went) in enumerate(drawn)]
    missed = [(e.step, predicted) for e, predicted in play(Stack(entries, checked), happened)]
    assert missed == reference(entries, checked, happened)


@given(st.integers(1, 6), st.booleans(), _EVENTS)
def test_a_call_made_over_and_over_is_one_long_play(entries, checked, drawn):
    """Whatever each time leaves for the next."""
    rounds, home = 25, 3
    happened = [Event(n, link, behind, went) for n, (link, behind, went) in enumerate(drawn)]
    before = [Event(-1, PUSH, address, 0) for address in range(-entries, 0)]
    each = [Event(-1, PUSH, home, 0), *happened]
    long = [*before, *(e._replace(step=(n, e.step)) for n in range(rounds) for e in each)]
    missed = [step for step, _ in reference(entries, checked, long)]
    expected = [frozenset(step for of, step in missed if of == n) for n in range(rounds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(returnstack, "events", lambda call: happened)
        found = steady(types.SimpleNamespace(returns_to=home), entries, checked)
        assert list(itertools.islice(found, rounds)) == expected


@given(st.integers(1, 12), st.integers(1, 12))
def test_only_what_does_not_fit_is_lost(entries, depth):
    """Calls nested to a depth, then as many returns: the innermost `entries` are right."""
    calls = [Event(n, PUSH, 100 + n, 0) for n in range(depth)]
    returns = [Event(depth + n, POP, 0, 100 + depth - 1 - n) for n in range(depth)]
    assert len(play(Stack(entries), [*calls, *returns])) == max(0, depth - entries)


# calls written by hand


@pytest.mark.parametrize(
    "isa, text, own, outer",
    [
        # a leaf is called and returns
        ("x86_64", "call f\n ret\n f: ret", 0, 0),
        ("arm64", "mov x9, x30\n bl f\n ret x9\n f: ret", 0, 0),
        ("riscv64", "mv t0, ra\n jal f\n mv ra, t0\n ret\n f: ret", 0, 0),
        # a return takes the place of a jump: it pops the caller's entry and misses, and so do all after it
        ("x86_64", "lea rax, [rip + f]\n push rax\n ret\n f: ret", 2, CALLERS),
        ("arm64", "adr x10, f\n ret x10\n f: ret", 2, CALLERS),
        ("riscv64", "mv t1, ra\n la t0, f\n jr t0\n f: mv ra, t1\n ret", 2, CALLERS),
        # a call that nobody returns from: the next return meets its entry, the callers' the ones above theirs
        ("x86_64", "call f\n f0: int3\n f: add rsp, 8\n ret", 1, CALLERS),
        ("arm64", "mov x9, x30\n bl f\n nop\n f: mov x30, x9\n ret", 1, CALLERS),
        ("riscv64", "mv t1, ra\n jal f\n nop\n f: mv ra, t1\n ret", 1, CALLERS),
        # the way out is a jump: the call itself misses nothing, its callers everything
        ("x86_64", "pop rax\n jmp rax", 0, CALLERS),
        ("arm64", "br x30", 0, CALLERS),
        ("riscv64", "mv t1, ra\n jr t1", 0, CALLERS),
        # a call to the next instruction pushes nothing on x86
        ("x86_64", "call f\n f: add rsp, 8\n ret", 0, 0),
        # a coroutine's swap: pop, then push
        ("riscv64", "mv t1, ra\n la t0, f\n jal g\n g: jalr ra, 0(t0)\n mv ra, t1\n ret\n f: ret", 1, 0),
    ],
)
def test_by_hand(isa, text, own, outer):
    r = replay(handmade.call(isa, text))
    assert (r.own, r.outer) == (own, outer)
    assert own + outer == len(r.where)


def test_where():
    """Which returns, what the stack said and where they went."""
    r = replay(handmade.call("x86_64", "lea rax, [rip + f]\n push rax\n ret\n f: ret"), callers=2)
    home = hex(handmade.kernel("x86_64").machine.return_to)
    assert [(m.place, m.predicted, m.actual) for m in r.where] == [
        ("text+0x8", home, "text+0x9"),
        ("text+0x9", "caller 1", home),
        ("the return to caller 1", "caller 2", "caller 1"),
        ("the return to caller 2", None, "caller 2"),
    ]
    assert [m.step for m in r.where] == [2, 3, None, None]


def test_a_small_stack_loses_its_outermost_callers():
    """Eight callers and a call on four entries: five callers are gone; a nested call costs one more."""
    leaf, nested = (handmade.call("x86_64", text) for text in ("ret", "call f\n ret\n f: ret"))
    assert [(replay(c, entries=4).own, replay(c, entries=4).outer) for c in (leaf, nested)] == [(0, 5), (0, 6)]


def test_steady_state():
    """A loop around a call that loses an entry each time: its own misses repeat, and never run out."""
    loses = handmade.call("x86_64", "lea rax, [rip + f]\n push rax\n ret\n f: ret")
    keeps = handmade.call("x86_64", "call f\n ret\n f: ret")
    assert set(itertools.islice(steady(loses, 16, True), 50)) == {frozenset({2, 3})}
    assert set(itertools.islice(steady(keeps, 16, True), 50)) == {frozenset()}


# the lab's own calls


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("balanced", [True, False])
def test_shapes(isa, balanced):
    kernel = Kernel(isa)
    function = kernel.function("two_args")
    for nested in range(3):
        with kernel.attached(function, shapes.Shape(5, nested, balanced)):
            r = replay(kernel.call(function, 1, 2))
        assert (r.own, r.outer) == ((0, 0) if balanced else (1, CALLERS))


KRETPROBES = ("kretprobe", "kretprobe-bpf", "kretprobe-brk", "kretprobe-brk-bpf")


@pytest.mark.parametrize("isa", ISAS)
def test_hooks(isa):
    """Every hook of the latest release leaves the return stack as it was, but for x86's exit to a direct call, BPF trampolines
    that call the function themselves, of which x86-64's is jumped to for that reason, and hooked returns, of which the graph
    tracer's on x86-64 leave by a call and a kretprobe's on arm64 by ERET."""
    wrong = {("x86_64", "direct+ops"): (1, 0), ("arm64", "kretprobe-brk"): (1, 0)}
    for hook in ("fprobe-exit", "fgraph", "kretprobe-multi", "kprobe-session"):
        wrong |= {("x86_64", hook): (2, 0), ("arm64", hook): (2, CALLERS), ("riscv64", hook): (1, CALLERS)}
    wrong |= {(i, h): (2, CALLERS) for i in ("x86_64", "riscv64") for h in KRETPROBES}
    wrong[("arm64", "kretprobe-brk-bpf")] = (1, 1)
    wrong |= {(i, h): (n, CALLERS) for i, n in (("arm64", 2), ("riscv64", 1)) for h in ("bpf-fexit", "bpf-fmodret")}
    for hook in hooks.HOOKS.values():
        try:
            r = replay(run(isa, hook.name))
        except TramplabError:  # not in this release
            continue
        assert (r.own, r.outer) == wrong.get((isa, hook.name), (0, 0)), hook.name


def test_the_exit_to_a_direct_call_before_it_was_balanced():
    """The return that jumps to the stub, the stub's and the function's miss, and then every caller's."""
    assert not releases.features(get("x86_64"), "v6.1", {})["direct_rebalance"]
    r = replay(run("x86_64", "direct+ops", "v6.1"))
    assert (r.own, r.outer) == (3, CALLERS)
    assert [m.place.split("+")[0] for m in r.where[:3]] == ["ftrace_regs_caller", "lab_direct_near", "one_arg"]


def test_in_every_measurement():
    m = measure("x86_64", "direct+ops", "v6.1")["return_mispredicts"]
    assert m == {"own": 3, "outer": CALLERS, "callers": CALLERS, "entries": returnstack.ENTRIES}
    of_core = measure("x86_64", "none", core="zen3")["return_mispredicts"]
    assert of_core == {"own": 0, "outer": 0, "callers": CALLERS, "entries": 32}


def test_what_is_worked_out_of_a_call_does_not_keep_it():
    """A real kernel's call holds the image, which is hundreds of megabytes."""
    made = Kernel("riscv64", meter="record").call("one_arg", 1)
    assert replay(made).own == 0
    held = weakref.ref(RecordedCall.of(made))
    del made
    gc.collect()
    assert held() is None
