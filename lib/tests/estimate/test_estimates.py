"""Estimates of recorded calls on the cores of data/cores/: their bands and ranks, what instructions are, and the command line."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import pytest

from support.models import handmade
from tramplab import Kernel, TramplabError, cli
from tramplab.estimate import cores, cycles, judged, pipeline
from tramplab.estimate.cores import Parameter
from tramplab.estimate.lower import changed, lower
from tramplab.estimate.measure import measure
from tramplab.estimate.operations import ALU, ATOMIC, arm64, riscv64, x86_64
from tramplab.estimate.program import program
from tramplab.lab.call import RecordedCall
from tramplab.lab.measure import run
from tramplab.trampolines import shapes
from tramplab.trampolines.plain import Ops


def test_the_same_every_time():
    base, hooked = run("arm64", "none"), run("arm64", "ops")
    first = [cycles.estimate(hooked, base, c) for c in cores.cores().values() if c.isa == "arm64"]
    cycles._cycles.cache_clear()
    cycles._lowered.cache_clear()
    again = [cycles.estimate(run("arm64", "ops"), run("arm64", "none"), c) for c in cores.cores().values() if c.isa == "arm64"]
    assert first == again


def test_the_band_is_a_quarter_and_what_the_estimate_depends_on_is_with_it():
    p = [Parameter(4, 3, 5, "assumption", (), "x", "load"), Parameter(4, 3, 5, "assumption", (), "x", "forward")]
    p += [Parameter(3, 2, 4, "assumption", (), "x", "multiply"), Parameter(9, 9, 9, "assumption", (), "x", "divide")]
    of = msgspec.structs.replace(cores.get("zen3"), parameters={q.name: q for q in p})
    table = {(): 10, ("load", 3): 7, ("load", 5): 15, ("forward", 3): 6, ("forward", 5): 22}
    assert [s.parameter for s in cycles._moving(of, lambda *change: table.get(change, 10))] == ["forward", "load"]
    e = cycles.Estimate(10, of)
    assert (e.low, e.mid, e.high) == (7.5, 10, 12.5)
    assert dataclasses.replace(e, mid=-8).low == -10


def test_what_is_skipped_changes_nothing():
    """A parameter that no instruction of the call asks for is not tried out: trying it gives the same. Nor is an instruction
    looked at anew that does not ask for it."""
    for name, of in cores.cores().items():
        call = RecordedCall.of(run(of.isa, "ops"))
        unchanged = lower(program(call), of, of.values)
        for p in of.parameters.values():
            plain = lower(program(call), of, {**of.values, p.name: p.high})
            assert changed(unchanged, program(call), of, p.name, p.high) == plain
            assert cycles._cycles(call, of, p.name, p.high) == pipeline.cycles(plain, call, of.in_order), (name, p.name)


@pytest.mark.parametrize("name", cores.cores())
def test_every_core_ranks_unlike_calls(name):
    """More registers saved take no less; a return stack out of step costs about a misprediction."""
    of = cores.get(name)
    kernel = Kernel(of.isa)
    function = kernel.function("two_args")
    base, mid = kernel.call(function, 1, 2), {}
    for s in (shapes.Shape(2, 0, True), shapes.Shape(14, 0, True), shapes.Shape(2, 0, False)):
        with kernel.attached(function, s):
            e = cycles.estimate(kernel.call(function, 1, 2), base, of)
        assert e.low <= e.mid <= e.high and e.core is of
        mid[s.saves, s.balanced] = e.mid
    assert mid[2, True] < mid[14, True]
    added, penalty = mid[2, False] - mid[2, True], of["mispredict"].value
    assert penalty / 2 <= added <= penalty + 8


def test_relative():
    base, direct, ops = (run("arm64", h) for h in ("none", "direct", "ops"))
    of = cores.get("cortex-a72")
    ratio = cycles.relative((ops, base), (direct, base), of)
    assert ratio.mid == cycles.estimate(ops, base, of).mid / cycles.estimate(direct, base, of).mid
    assert ratio.low <= ratio.mid <= ratio.high and ratio.unit == "times"
    with pytest.raises(TramplabError, match="adds nothing"):
        cycles.relative((ops, base), (base, base), of)


# what instructions are


@pytest.mark.parametrize(
    "table, text, reads, writes, address",
    [
        (x86_64, "add eax, dword ptr [rbx + rcx*4]", "rax", "rax flags", "rbx rcx"),
        (x86_64, "mov byte ptr [r10], r11b", "r11", "", "r10"),
        (x86_64, "xor r8d, r8d", "", "r8 flags", ""),
        (x86_64, "cmovne rax, rdx", "rax rdx flags", "rax", ""),
        (x86_64, "imul rbx, rcx, 7", "rcx", "rbx flags", ""),
        (x86_64, "lock cmpxchg qword ptr [rdi], rsi", "rsi rax", "rsi rax flags", "rdi"),
        (x86_64, "cli ", "flags", "flags", ""),
        (arm64, "madd w0, w1, w2, w3", "x1 x2 x3", "x0", ""),
        (arm64, "ldp x29, x30, [sp], #0x20", "", "x29 x30", "sp"),
        (arm64, "stp x8, xzr, [sp, #0x40]", "x8", "", "sp"),
        (arm64, "csel x10, xzr, x11, eq", "x11 flags", "x10", ""),
        (arm64, "movk x8, #0x61c8, lsl #48", "x8", "x8", ""),
        (arm64, "blr x4", "x4", "x30", ""),
        (riscv64, "c.add a0, a1", "a0 a1", "a0", ""),
        (riscv64, "sd a1, -0x39a(a0)", "a1", "", "a0"),
        (riscv64, "c.ldsp a1, 0x120(sp)", "", "a1", "sp"),
        (riscv64, "jalr ra, ra, -0x92", "ra", "ra", ""),
        (riscv64, "amoadd.d a0, a1, (a2)", "a1", "a0", "a2"),
    ],
)
def test_operations(table, text, reads, writes, address):
    name, operands = ("lock cmpxchg", text[13:]) if text.startswith("lock") else text.split(" ", 1)
    o = table.operation(name, operands)
    assert (o.reads, o.writes, o.address) == tuple(tuple(s.split()) for s in (reads, writes, address))


def test_what_is_not_locked_is_not_atomic():
    """XADD alone is a load, an addition and a store; with its prefix it is one of three."""
    alone, locked = (x86_64.operation(name, "dword ptr gs:[rdx], eax") for name in ("xadd", "lock xadd"))
    assert (alone.unit, locked.unit) == (ALU, ATOMIC)
    assert alone.reads == locked.reads == ("rax",) and alone.writes == locked.writes == ("rax", "flags")


@pytest.mark.parametrize("table", [x86_64, arm64, riscv64])
def test_an_unknown_instruction_is_no_guess(table):
    assert table.operation("frobnicate", "x, y") is None
    call = handmade.call("x86_64", "cpuid\n ret")
    with pytest.raises(TramplabError, match=r"cannot estimate .cpuid. at 0x.*x86_64; add it there"):
        program(call)


def test_a_run_that_was_only_counted():
    kernel = Kernel("x86_64", meter="count")
    with pytest.raises(TramplabError, match="meter='record'"), kernel.attached(kernel.function("one_arg"), Ops()):
        cycles.per_call(kernel.call("one_arg", 1), cores.get("zen3"))


# the command line


@pytest.mark.parametrize("name", cores.cores())
def test_command_line(capsys, name):
    """The estimate and what it depends on, in 72 columns, and the same in JSON; of a model that is not usable why there is none."""
    of = cores.get(name)
    if not judged.verdict(name).usable:
        with pytest.raises(TramplabError, match=f"no cycles are estimated for {name}: .* Usable for {of.isa}: "):
            measure(of.isa, "ops", core=name)
        return
    assert cli.main(["measure", of.isa, "ops", "--core", name]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 72
    assert cli.main(["measure", of.isa, "ops", "--core", name, "--json"]) == 0
    e = json.loads(capsys.readouterr().out)["estimate"]
    assert e["core"] == name and e["low"] < e["mid"] + 1e-9 and e["mid"] <= e["high"] and e["low"] < e["high"]
    assert f"estimate, {name} model: {e['low']:.0f}-{e['high']:.0f} cycles over the unhooked call" in out
    assert all(p["low"] <= p["value"] <= p["high"] and p["name"] in out and p["kind"] in out for p in e["parameters"])
