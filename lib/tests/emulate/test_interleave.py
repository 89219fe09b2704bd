"""CPUs that take turns: what the scheduler takes an instruction for, and what it refuses to follow."""

from dataclasses import replace

import pytest

from tramplab.base.errors import TramplabError
from tramplab.contention.pools import pool
from tramplab.emulate.decode import at
from tramplab.emulate.interleave import arm64, riscv64, touch, x86_64
from tramplab.emulate.interleave.scheduler import Broken, Schedule, Scheduler, Work
from tramplab.isa import get


@pytest.mark.parametrize(
    ("own", "code", "kind", "base", "more"),
    [
        (arm64, "fd7c5f88", touch.LOAD_LINKED, "x7", {}),  # ldxr w29, [x7]
        (arm64, "0dfd5fc8", touch.LOAD_LINKED, "x8", {}),  # ldaxr x13, [x8]
        (arm64, "4bfd0988", touch.STORE_CONDITIONAL, "x10", {"value": "x11", "status": "x9", "size": 4}),  # stlxr w9, w11, [x10]
        (arm64, "5f7d09c8", touch.STORE_CONDITIONAL, "x10", {"value": "", "status": "x9", "size": 8}),  # stxr w9, xzr, [x10]
        (arm64, "5f3f03d5", touch.CLEAR, "", {}),  # clrex
        (arm64, "490440f9", touch.ACCESS, "x2", {"offset": 8}),  # ldr x9, [x2, #8]
        (arm64, "4b4d40b8", touch.ACCESS, "x10", {"offset": 4}),  # ldr w11, [x10, #4]!
        (arm64, "8c5968f8", touch.SHARED, "", {}),  # ldr x12, [x12, w8, uxtw #3]
        (riscv64, "2fa80514", touch.LOAD_LINKED, "a1", {}),  # lr.w.aq a6, (a1)
        (riscv64, "2f37a31a", touch.STORE_CONDITIONAL, "t1", {"value": "a0", "status": "a4", "size": 8}),  # sc.d.rl a4, a0, (t1)
        (riscv64, "2f20b500", touch.SHARED, "", {}),  # amoadd.w zero, a1, (a0)
        (riscv64, "8c65", touch.ACCESS, "a1", {"offset": 8}),  # c.ld a1, 8(a1)
        (x86_64, "f00fb111", touch.COMPARE_SWAP, "", {}),  # lock cmpxchg dword ptr [rcx], edx
        (x86_64, "f00fc131", touch.ACCESS, "rcx", {}),  # lock xadd dword ptr [rcx], esi
        (x86_64, "488b4df8", touch.ACCESS, "rbp", {"offset": -8}),  # mov rcx, qword ptr [rbp - 8]
        (x86_64, "4a8b4cca10", touch.SHARED, "", {}),  # mov rcx, qword ptr [rdx + r9*8 + 0x10]
        (x86_64, "5a", touch.LOCAL, "", {}),  # pop rdx
    ],
)
def test_what_an_instruction_touches(own, code, kind, base, more):
    found = own.touch(at(get(own.__name__.rpartition(".")[2]), 0x1000, bytes.fromhex(code)))
    assert found == touch.Touch(kind, base, **more)


def scheduler(isa: str, **changes: object) -> Scheduler:
    """Of a list that nobody has touched, with some of its setting changed."""
    there = pool(isa, "freelist", 2)
    there.reset()
    return Scheduler(there.kernel.machine, replace(there.setting, **changes))


def test_what_it_was_not_told_to_share_it_does_not_let_pass():
    """That running ahead changes nothing rests on what is shared; so each access is looked at."""
    shared = pool("arm64", "freelist", 2).setting.shared
    with pytest.raises(Broken, match=r"touched 0x\w+, which belongs to another one or to nobody"):
        scheduler("arm64", shared=shared[:1]).run(Work(50), Schedule(), 1)
    with pytest.raises(TramplabError, match="two owners claim the memory at"):
        scheduler("arm64", shared=[*shared, shared[0]]).run(Work(50), Schedule(), 1)


def test_code_that_it_does_not_know_ends_the_run():
    there = pool("riscv64", "freelist", 2).setting
    with pytest.raises(Broken, match="rethook_recycle was executed, which is no part of the pool's code"):
        scheduler("riscv64", functions=there.functions[:1]).run(Work(50), Schedule(), 1)


@pytest.mark.parametrize("isa", ["x86_64", "arm64", "riscv64"])
def test_what_is_given_out_must_be_a_node_and_nobody_elses(isa):
    there = pool(isa, "freelist", 2).setting
    with pytest.raises(Broken, match=r"CPU \d was given 0x\w+, which is no node"):
        scheduler(isa, nodes=[node + 8 for node in there.nodes]).run(Work(50), Schedule(), 1)


def test_a_run_that_does_not_end_is_ended():
    """A list whose last node is the first one again, and whose references say that it is never there."""
    there = pool("arm64", "freelist", 2)
    run = scheduler("arm64")
    for node in there.setting.nodes:
        there.kernel.machine.write(node, bytes(4))
    with pytest.raises(Broken, match=r"did not end within its instructions; CPU \d is at rethook_try_get"):
        run.run(Work(1), Schedule(), 1)
