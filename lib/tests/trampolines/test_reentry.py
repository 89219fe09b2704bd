"""Consumers that call traced functions: what a guard lets through, against a plain model of it, and what happens without one."""

import re

import pytest

from support.complaints import complaint, works
from tramplab import GuestFault, Kernel, Ops
from tramplab.emulate.recursion import found
from tramplab.lab.places import STACK_SIZE
from tramplab.trampolines.bpf import Bpf
from tramplab.trampolines.direct import Direct
from tramplab.trampolines.reentry import HOOKED, THROUGH

ISAS = ("x86_64", "arm64", "riscv64")
every_isa = pytest.mark.parametrize("isa", ISAS)
ways = pytest.mark.parametrize(("reenters", "end"), [("itself", "_reenter"), ("another", "_reenter_through")])
#: What has no guard: how it is asked for, and what counts its runs, None for the ops' own counter.
UNGUARDED = {
    "ops": (lambda reenters, end: Ops(callback=f"lab_callback{end}"), None),
    "direct": (lambda reenters, end: Direct(reenters=reenters), "lab_direct_hits"),
    "fentry": (lambda reenters, end: Bpf(fentry=1, reenters=reenters, guarded=False), "lab_bpf_hits"),
    "fexit": (lambda reenters, end: Bpf(fexit=1, reenters=reenters, guarded=False), "lab_bpf_hits"),
}


def levels(count: int) -> int:
    """How deep in interrupts a preempt count says the CPU is: 0 normal, 1 softirq, 2 hardirq, 3 NMI."""
    return 3 if count & 0xF00000 else 2 if count & 0xF0000 else 1 if count & 0x100 else 0


def allowed(outer: int, step: int) -> int:
    """How often a callback runs that calls its function `step` deeper in the preempt count each time: one bit for each context,
    and one more chance for all of them."""
    held, count, runs = set(), outer, 0
    while True:
        bit = levels(count)
        if bit in held:
            bit = "transition"
        if bit in held:
            return runs
        held.add(bit)
        runs, count = runs + 1, count + step


def again(words: list[str], rounds: int) -> list[int]:
    return [int(w, 16) for w in words] * rounds


def test_what_repeats_on_a_stack_is_found():
    names = {0xA: "f+0x4", 0xB: "g+0x8", 0xC: "h"}.get
    assert found(again(["1", "a", "2", "b", "c"], 9), names).functions == ("g", "f"), "a first byte is no way back"
    assert found(again(["1", "a"], 3), names) is None and found([], names) is None
    assert found(again(["a"], 8), names).size == 8 and found(again(["a", "b"], 8) + [5] * 4, names).rounds == 8
    assert found([0xA, 1, 2, 0xB, 0xA, 3, 0xB, 4, 5, 6, 7, 8], names) is None


@every_isa
@ways
@pytest.mark.parametrize("hook", UNGUARDED)
def test_without_a_guard_the_stack_ends_it(isa, reenters, end, hook):
    """One sentence says what goes round, how often, and what it takes of the stack; the callback ran as often; all works on."""
    request, counter = UNGUARDED[hook]
    k = Kernel(isa)
    with k.attached(k.function(HOOKED), request(reenters, end)) as (ops,):
        counted = k.image.address(counter) if counter else k.slowpath.memory.hits(ops.index)
        before = k.machine.read_u64(counted)
        message = complaint(lambda: k.call(HOOKED, 7, 9), GuestFault)
        ran = k.machine.read_u64(counted) - before
        circle, rounds, size = re.search(r"by recursion: (.+) -> \.\.\. ran (\d+) times, with (\d+) bytes", message).groups()
        jumped = (isa, hook) == ("x86_64", "fexit")  # its site jumps, and leaves nothing of the function on the stack
        assert {*[HOOKED] * (not jumped), *[THROUGH] * (reenters == "another")} <= set(circle.split(" -> "))
        assert abs(int(rounds) - ran) <= 2 and abs(STACK_SIZE - int(rounds) * int(size)) < 3 * int(size)
    assert k.call(HOOKED, 7, 9).value == 66
    works(k)


@every_isa
@pytest.mark.parametrize("release", ["v6.1", "v6.12", "v7.2"])
@pytest.mark.parametrize("outer", [0, 0x100, 0x10000, 0x100000], ids=hex)
@pytest.mark.parametrize("step", [0, 0x100, 0x10000, 0x100000], ids=hex)
def test_a_guard_per_context_against_a_model(isa, release, outer, step):
    """The callback runs once in each context that comes, and once more; the list's guard, the assist function's, its own."""
    k = Kernel(isa, release, meter="count")
    f, preempt = k.function(HOOKED), count_of(k)
    k.machine.write(k.image.address("lab_reentry_context"), step.to_bytes(4, "little"))
    for requests in (
        (Ops(callback="lab_callback_reenter"), Ops()),
        (Ops(callback="lab_callback_reenter", recursion=True),),
        (Ops(callback="lab_callback_guarded_reenter"),),
    ):
        with k.attached(f, *requests):
            before = k.machine.read(preempt, 4)
            k.machine.write(preempt, (int.from_bytes(before, "little") + outer).to_bytes(4, "little"))
            assert set(k.call(f, 7, 9).hits) == {allowed(outer, step)}
            k.machine.write(preempt, before)
    works(k)


def count_of(k: Kernel) -> int:
    """Where the preempt count lies."""
    cpu = k.cpus[0]
    if k.isa.name == "x86_64":
        return cpu.pcpu + k.image.struct("lab_pcpu").fields["preempt_count"].offset
    return cpu.task + k.image.struct("task_struct").fields["preempt_count"].offset


@every_isa
@ways
@pytest.mark.parametrize("kind", ["fentry", "fexit", "fmod_ret"])
def test_a_program_does_not_run_inside_itself(isa, reenters, end, kind):
    """It runs once per call; the call in its call is missed, and counted."""
    k = Kernel(isa)
    with k.attached(k.function(HOOKED), Bpf(**{kind: 1}, reenters=reenters)) as (ops,):
        prog = next(at for at, name in ops.structs.items() if name.startswith("bpf_prog["))
        misses, hits = prog + k.image.struct("bpf_prog").fields["misses"].offset, k.image.address("lab_bpf_hits")
        for call in range(1, 4):
            assert k.call(HOOKED, 7, 9).value == 66
            assert (k.machine.read_u64(hits), k.machine.read_u64(misses)) == (call, call)
    works(k)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Direct(reenters="itself", far=True), "is far or observes"),
        (lambda: Direct(reenters="itslef"), "unknown reentry 'itslef'; did you mean itself?"),
        (lambda: Bpf(fentry=1, reenters="another", observe=True), "does not observe"),
        (lambda: Bpf(fentry=1, reenters="other"), "unknown reentry 'other'; did you mean another?"),
        (lambda: Ops(callback="lab_callback_reentry"), "did you mean lab_callback_reenter"),
    ],
)
def test_what_cannot_be_asked_for(make, says):
    assert says in complaint(make)
