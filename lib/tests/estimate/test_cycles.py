"""Cycle estimates: micro-sequences with results computed by hand on a core that is made up, and monotony.

Sequences are taken twice, once longer, and subtracted, so that the loop around the call cancels out.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.models import handmade
from tramplab.estimate import cores, cycles, pipeline
from tramplab.estimate.cores import Core, Parameter
from tramplab.estimate.lower import lower
from tramplab.estimate.program import program
from tramplab.lab.call import RecordedCall
from tramplab.lab.measure import run

# a core whose every number is told, with more of everything than a short sequence can use up

PLENTY = {
    "width": 64, "fetch": 64, "window": 4096, "store_buffer": 512, "stores_per_cycle": 64, "moves_free": 0,
    "loads_wait": 0, "locks_wait": 0, "load": 4, "forward": 6, "forward_failed": 12, "multiply": 3, "divide": 20, "atomic": 9,
    "barrier": 30, "exception": 40, "read": 5, "taken_bubble": 0, "call_bubble": 0, "mispredict": 15, "return_stack": 16,
    "return_stack_checked": 1, "slots_call": 1, "slots_return": 1, "slots_update": 1, "push_flags": 2, "pop_flags": 9,
    "stack_sync": 0, "fused_compare": 0, "slots_pair": 1, "pair_load": 1, "pair_store": 1, "slots_writeback": 0,
    "late_stage": 0,
}  # fmt: skip
PORTS = tuple(f"p{n}" for n in range(24))


def core(isa: str, in_order: bool = False, uses: dict | None = None, **values) -> Core:
    """A core made up for a test; uses: ports of some kinds of work, where they are to be scarce."""
    parameters = {n: Parameter(v, v, v, "assumption", (), "made up", n) for n, v in {**PLENTY, **values}.items()}
    every = dict.fromkeys(("alu", "multiply", "divide", "branch", "load", "store"), PORTS)
    names = {"name": "made-up", "title": "Made up", "cpus": "made up", "vendor": "made up", "mca": None}
    ports = {"judged_by": {}, "ports": PORTS, "uses": every | (uses or {}), "ports_source": ()}
    return Core(isa=isa, in_order=in_order, clock_ghz=1.0, sources={}, parameters=parameters, **names, **ports)


def takes(of: Core, call: RecordedCall) -> float:
    return pipeline.cycles(lower(program(call), of, of.values), call, of.in_order)


def each(of: Core, text: str, before: str = "", times: int = 10, leave: str = "ret") -> float:
    """Cycles of one more copy of some lines."""
    few, many = (handmade.call(of.isa, "\n".join([before, *[text] * n, leave])) for n in (times, 2 * times))
    return (takes(of, many) - takes(of, few)) / times


# hand-computed sequences


@pytest.mark.parametrize(
    "isa, text, values, expected",
    [
        ("x86_64", "add rax, rax", {}, 1),
        ("x86_64", "imul rax, rax", {}, 3),
        ("x86_64", "imul rax, rax", {"multiply": 5}, 5),
        ("arm64", "add x10, x10, x10", {}, 1),
        ("arm64", "madd x10, x10, x10, x11", {}, 3),
        ("riscv64", "mul t1, t1, t1", {}, 3),
        ("x86_64", "mov rax, r10\n mov r10, rax", {}, 2),
        ("x86_64", "mov rax, r10\n mov r10, rax", {"moves_free": 1}, 0),
        # through memory: a store's bytes are with the load after `forward`, one addition each
        ("x86_64", "inc qword ptr [rsp - 64]", {}, 7),
        ("x86_64", "inc qword ptr [rsp - 64]", {"forward_renamed": 0}, 1),
        ("x86_64", "mov [rsp - 64], rax\n mov rax, [rsp - 64]", {}, 6),
        ("x86_64", "mov [rsp - 64], rax\n mov eax, [rsp - 64]", {"forward_renamed": 0}, 6),  # not the same bytes
        ("x86_64", "mov [rsp - 64], eax\n mov [rsp - 60], ecx\n mov rax, [rsp - 64]", {}, 12),  # of two stores
        ("arm64", "str x10, [sp, #-32]\n ldr x10, [sp, #-32]", {}, 6),
        ("arm64", "stp x10, x11, [sp, #-32]\n ldp x11, x10, [sp, #-32]", {}, 6),
        ("riscv64", "sd t1, -32(sp)\n ld t1, -32(sp)\n addi t1, t1, 1", {}, 7),
        # the stack engine: pushes and pops wait for each other's data only
        ("x86_64", "push rcx\n pop rdx", {}, 0),
        ("x86_64", "push rax\n pop rax", {}, 6),
        ("x86_64", "sub rsp, 16\n add rsp, 16", {}, 2),
        # one after the other whatever the width
        ("x86_64", "lock inc qword ptr [rsp - 64]", {}, 9),
        ("x86_64", "pushfq\n popfq", {}, 11),
        ("x86_64", "mfence", {}, 31),  # 30 from the one to the other's slot
        ("x86_64", "mfence\n add r10, r10", {}, 32),
        ("arm64", "mrs x10, sp_el0\n add x11, x11, x10", {}, 1),
        ("arm64", "str x10, [sp, #-16]!\n ldr x12, [sp], #16", {}, 2),  # only the stack pointer's moves
    ],
)  # fmt: skip
def test_latencies(isa, text, values, expected):
    assert each(core(isa, **values), text) == expected


@pytest.mark.parametrize(
    "isa, text, values, uses, expected",
    [
        ("x86_64", "nop", {"width": 4}, {}, 1 / 4),
        ("x86_64", "lea rax, [rcx + rdx]", {"width": 6}, {}, 1 / 6),
        ("x86_64", "nop", {"fetch": 5}, {}, 1 / 5),
        ("x86_64", "cmp rax, rcx\n jb out", {"width": 2}, {}, 1),
        ("x86_64", "cmp rax, rcx\n jb out", {"width": 2, "fused_compare": 1}, {}, 1 / 2),
        ("x86_64", "inc qword ptr [rsp - 64]", {"width": 1, "slots_update": 2, "forward_renamed": 0}, {}, 2),
        ("x86_64", "push rcx\n mov rcx, [rsp]\n pop rcx", {"width": 1, "forward_renamed": 0}, {}, 3),
        ("x86_64", "push rcx\n mov rcx, [rsp]\n pop rcx", {"width": 1, "forward_renamed": 0, "stack_sync": 1}, {}, 4),
        ("x86_64", "lea rax, [rcx + rdx]", {}, {"alu": ("p0",)}, 1),
        ("x86_64", "lea rax, [rcx + rdx]", {}, {"alu": ("p0", "p1", "p2")}, 1 / 3),
        ("x86_64", "mov rax, [rsp - 64]", {}, {"load": ("p0", "p1")}, 1 / 2),
        ("x86_64", "mov [rsp - 64], rax", {}, {"store": ("p0",)}, 1),
        ("x86_64", "mov [rsp - 64], rax", {}, {"store_data": ("p0",)}, 1),
        ("x86_64", "mov [rsp - 64], rax", {"stores_per_cycle": 2}, {}, 1 / 2),
        # three ports, two of which store: 2 of 4 accesses take one of those
        ("x86_64", "mov [rsp - 64], rax\n mov rcx, [rsp - 8]\n mov rdx, [rsp - 16]", {},
         {"load": ("p0", "p1", "p2"), "store": ("p1", "p2")}, 1),
        # an addition leaves the port that multiplies to a multiplication
        ("x86_64", "lea rax, [rcx + rdx]\n imul rsi, rcx, 3", {}, {"alu": ("p0", "p1"), "multiply": ("p0",)}, 1),
        ("arm64", "stp x0, x1, [sp, #-32]", {"pair_store": 2}, {"store": ("p0",)}, 2),
        ("arm64", "ldp x10, x11, [sp, #-32]", {"pair_load": 2}, {"load": ("p0", "p1")}, 1),
        ("arm64", "ldp x10, x11, [sp, #-32]", {"width": 1, "slots_pair": 2}, {}, 2),
        ("arm64", "ldr x12, [sp], #0", {"width": 1, "slots_writeback": 1}, {}, 2),
        # so many instructions at once: each takes a cycle to get in and three to multiply
        ("x86_64", "imul rax, rcx, 3", {"window": 1}, {}, 4),
        ("x86_64", "imul rax, rcx, 3", {"window": 2}, {}, 2),
    ],
)  # fmt: skip
def test_throughput(isa, text, values, uses, expected):
    """Instructions that do not depend on each other, as many as a period of the average holds."""
    leave = "out: ret" if "out" in text else "ret"
    assert each(core(isa, uses=uses, **values), text, times=60, leave=leave) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "text, values, uses, expected",
    [
        ("addi t1, t2, 1", {"width": 2}, {}, 1 / 2),
        ("addi t1, t2, 1", {"width": 2}, {"alu": ("p0",)}, 1),
        ("addi t1, t2, 1\n ld t0, -16(sp)", {"width": 2}, {"alu": ("p0", "p1"), "load": ("p1",)}, 1),
        # everything waits for the addition, which waits for the load
        ("ld t1, -16(sp)\n add t2, t1, t1", {"width": 2}, {}, 4),
        ("ld t1, -16(sp)\n add t2, t1, t1", {"width": 2, "load": 3}, {}, 3),
        # a late stage: the addition runs there, one cycle behind the load, and nothing waits
        ("ld t1, -16(sp)\n add t2, t1, t1", {"width": 2, "load": 3, "late_stage": 2}, {}, 1),
        # but what it made cannot be an address before it is there
        ("ld t1, -16(sp)\n and t1, t1, zero\n add t1, t1, sp\n ld t2, -8(t1)", {"width": 2, "load": 3, "late_stage": 2},
         {}, 5),
        ("fence\n addi t1, t1, 1", {"width": 2}, {}, 31),
        ("fence rw, w\n addi t1, t1, 1", {"width": 2}, {}, 1),  # a release waits for nothing but stores
    ],
)  # fmt: skip
def test_in_order(text, values, uses, expected):
    assert each(core("riscv64", in_order=True, uses=uses, **values), text, times=40) == pytest.approx(expected)


@pytest.mark.parametrize("in_order", [False, True])
def test_mispredicted_returns(in_order):
    """Each costs what its parameter says."""
    isa, text = ("riscv64", "mv t1, ra\n la t0, f\n jr t0\n f: mv ra, t1\n ret") if in_order else (
        "x86_64", "lea rax, [rip + f]\n push rax\n ret\n f: ret"
    )  # fmt: skip
    call = handmade.call(isa, text)
    at = {m: takes(core(isa, in_order, mispredict=m), call) for m in (0, 10, 25)}
    assert (at[10] - at[0], at[25] - at[10]) == (2 * 10, 2 * 15)


@pytest.mark.parametrize("in_order", [False, True])
def test_taken_branches(in_order):
    """One cycle each, and the bubble; calls and returns have a bubble of their own."""
    isa, jump = ("riscv64", "j") if in_order else ("x86_64", "jmp")
    few, many = (
        handmade.call(isa, "\n".join(f"{jump} t{n}\n nop\n t{n}:" for n in range(k)) + "\n ret") for k in (5, 15)
    )
    added = {
        b: takes(core(isa, in_order, taken_bubble=b), many) - takes(core(isa, in_order, taken_bubble=b), few)
        for b in (0, 2)
    }
    assert added == {0: 10, 2: 30}
    call = handmade.call(isa, "mv t0, ra\n jal f\n mv ra, t0\n ret\n f: ret" if in_order else "call f\n ret\n f: ret")
    assert (
        takes(core(isa, in_order, call_bubble=3), call) - takes(core(isa, in_order), call) == 4 * 3
    )  # with the loop's call


def test_a_load_that_waits_for_store_addresses():
    """The address of the store comes from a multiplication."""
    text = "imul rax, rax\n mov qword ptr [rsp + rax - 64], 1\n mov rcx, [rsp - 8]\n and rcx, 0\n or rax, rcx"
    assert each(core("x86_64"), text) == 3 + 1  # the load does not wait
    assert each(core("x86_64", loads_wait=1), text) == 3 + 1 + 4 + 1 + 1  # multiplied, placed, loaded, and, or


def test_loads_wait_for_a_locked_instruction_where_the_core_says_so():
    """What is loaded goes into the next one: the load is between the two, or takes its time beside the first."""
    text = "lock cmpxchg qword ptr [rsp - 64], rdx\n mov rdx, qword ptr [rsp - 128]"
    assert each(core("x86_64", locks_wait=0), text) == 9
    assert each(core("x86_64", locks_wait=1), text) == 9 + 4


def test_a_slow_chain_is_found_behind_a_fast_one():
    """The fast chain starts behind a long wait, so that for some repetitions nothing is seen of the slow one."""
    text = "imul rax, rax\n imul rax, rax\n imul rax, rax\n inc qword ptr [rsp - 64]\n ret"
    assert takes(core("x86_64", load=60), handmade.call("x86_64", text)) == 9


# monotony

_LINES = [
    "add rax, rcx", "imul rcx, rdx", "mov [rsp - 64], rax", "mov rdx, [rsp - 64]", "mov [rsp - 60], ecx", "push rdx\n pop rax",
    "inc qword ptr [rsp - 64]", "lea rsi, [rax + rdi]", "mov rdi, rsi", "cmp rax, rcx", "lock inc qword ptr [rsp - 72]",
]  # fmt: skip
_LATENCIES = ("load", "forward", "forward_failed", "multiply", "atomic", "call_bubble", "taken_bubble", "mispredict")
_WIDTHS = ("width", "fetch", "window", "store_buffer", "stores_per_cycle")


@given(st.lists(st.sampled_from(_LINES), max_size=12), st.sampled_from(_LATENCIES), st.integers(1, 20))
def test_longer_latencies_take_no_less(lines, name, more):
    call = handmade.call("x86_64", "\n".join([*lines, "call f\n ret\n f: ret"]))
    assert takes(core("x86_64", width=4), call) <= takes(core("x86_64", width=4, **{name: PLENTY[name] + more}), call)


@given(st.lists(st.sampled_from(_LINES), max_size=12), st.sampled_from(_WIDTHS), st.integers(1, 12), st.integers(1, 12))
def test_more_width_takes_no_more(lines, name, some, more):
    call = handmade.call("x86_64", "\n".join([*lines, "call f\n ret\n f: ret"]))
    assert takes(core("x86_64", **{name: some + more}), call) <= takes(core("x86_64", **{name: some}), call)


@pytest.mark.parametrize("name", cores.cores())
def test_real_cores_are_nearly_monotone(name):
    """Where ports are scarce, who is served first matters: a slower part may win a few cycles of a hundred."""
    of = cores.get(name)
    base, hooked = run(of.isa, "none"), run(of.isa, "direct+ops")
    for s in cycles.sensitivities(hooked, base, of):
        faster, slower = (
            (s.at_high, s.at_low) if s.parameter in (*_WIDTHS, "late_stage", "moves_free") else (s.at_low, s.at_high)
        )
        assert slower >= faster - 3, s
