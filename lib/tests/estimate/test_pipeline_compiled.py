"""The compiled model of a core against the one that it is of: the same cycles, for programs and parameters that are drawn and for
the calls of a real trampoline on every core; and what it does where it has no room."""

import random

import pytest

from support.complaints import complaint
from support.models import handmade, python_pipeline
from support.plugins.seeds import drawn, seeds
from tramplab.estimate import compiled_pipeline, cores, pipeline
from tramplab.estimate.lower import lower
from tramplab.estimate.program import program
from tramplab.isa import ISAS
from tramplab.lab.call import RecordedCall
from tramplab.lab.measure import run

LINES = {
    "x86_64": "add rax, rcx|imul rcx, rdx|mov [rsp - 64], rax|mov rdx, [rsp - 64]|mov [rsp - 60], ecx|push rdx\n pop rax|"
    "inc qword ptr [rsp - 64]|lea rsi, [rax + rdi]|mov rdi, rsi|lock inc qword ptr [rsp - 72]|pushfq\n popfq|call f",
    "arm64": "add x10, x11, x12|madd x10, x10, x11, x12|str x10, [sp, #-64]|ldr x11, [sp, #-64]|stp x10, x11, [sp, #-32]!\n "
    "ldp x12, x13, [sp], #32|mov x9, x10|cmp x10, x11|udiv x12, x10, x11|mrs x13, nzcv",
    "riscv64": "add t1, t1, t2|mul t2, t1, t3|sd t1, -64(sp)|ld t2, -64(sp)|sw t2, -60(sp)|mv t3, t1|div t4, t1, t2|fence",
}
ENDS = {"x86_64": "ret\n f: ret", "arm64": "ret", "riscv64": "ret"}


def both(of, call, values=None):
    """Cycles, by the compiled model and by the other."""
    lowered = lower(program(call), of, values or of.values)
    missed = pipeline.mispredicted(call, lowered.values)
    return compiled_pipeline.cycles(lowered, missed, of.in_order), python_pipeline.cycles(lowered, call, of.in_order)


@drawn
@pytest.mark.parametrize("name", cores.cores())
def test_drawn_programs_take_the_same(name, request):
    """With parameters that are drawn from their ranges, all at once."""
    of = cores.get(name)
    unlike = set()
    for seed in seeds(request.node.name, 12):
        rng = random.Random(seed)
        lines = [rng.choice(LINES[of.isa].split("|")) for _ in range(rng.randint(1, 14))]
        call = handmade.call(of.isa, "\n".join([*lines, ENDS[of.isa]]))
        values = {p.name: rng.randint(p.low, p.high) for p in of.parameters.values()}
        found, wanted = both(of, call, {**of.values, **values})
        assert found == wanted, (lines, values)
        unlike.add(found)
    assert len(unlike) > 3


@pytest.mark.parametrize("name", cores.cores())
def test_real_calls_take_the_same(name):
    of = cores.get(name)
    for hook in ("ops", "bpf-fexit", "fprobe-exit"):
        found, wanted = both(of, RecordedCall.of(run(of.isa, hook)))
        assert found == wanted > 0


@pytest.mark.parametrize("isa", ISAS)
def test_where_there_is_no_room_for_the_cycles_there_is_more(isa, monkeypatch):
    of = next(core for core in cores.cores().values() if core.isa == isa)
    call = RecordedCall.of(run(isa, "ops"))
    known, _ = both(of, call)
    monkeypatch.setattr(compiled_pipeline, "_CYCLES", 16)
    monkeypatch.setattr(compiled_pipeline, "_idle", [])
    assert both(of, call) == (known, known)


def test_too_many_ports_are_a_sentence():
    of = cores.get("skylake")
    call = RecordedCall.of(run("x86_64", "ops"))
    lowered = lower(program(call), of, of.values)
    items = tuple(item._replace(ports=1 << n % 24 | 1) if item.ports else item for n, item in enumerate(lowered.items))
    many = type(lowered)(items, lowered.values, lowered.accesses, lowered.numbers, lowered.stores, lowered.asked)
    wide = type(lowered)(
        lowered.items, lowered.values, {**lowered.accesses, "load": 1 << 40}, lowered.numbers, lowered.stores, lowered.asked
    )
    for program_ in (many, wide):
        assert complaint(lambda p=program_: pipeline.cycles(p, call, False)).startswith("the model has room for 31 ports and 16 ")
