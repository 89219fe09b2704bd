"""The list of ops, and the guard around one, in states that few calls meet: an ops that is a stub, has no function, or wants
registers that were not saved. Each check fails on the mutants that name it (support/mutants/list_mutants.py).
"""

import pytest

from support.abi.members import Struct, cpu, task
from support.abi.probed import Probes, booted, fails, place, probing
from support.mutants import list_mutants
from tramplab import Kernel, Ops

#: With and without a trampoline for all registers; x86-64's tells a partly filled pt_regs from a full one.
PLACES = (place("x86_64", "v7.2"), place("arm64", "v6.1"), place("arm64", "v7.2"), place("riscv64", "v7.2"))
#: Those whose guard asks whether RCU watches.
ASKING = (place("x86_64", "v6.4"), place("arm64", "v6.4"), place("riscv64", "v6.9"))
#: ftrace_ops.flags.
SAVE_REGS, STUB = 1 << 2, 1 << 5
#: ftrace_hash.flags: functions of modules that are not loaded.
MODULES = 1
#: Bits of the recursion guard, as the list takes them: of the normal context, and the one that is given while contexts change.
GUARD = 0b11000 << 5
#: Of the list that of the normal context; of the user beside it both.
NORMAL, OTHERS = 0b1000 << 5, 0b11000


def op(p: Probes, n: int) -> Struct:
    return Struct(p.k, "ftrace_ops", p.registered[n].address)


def stub_on_the_list(k: Kernel) -> None:
    """It is passed over, and those after it are called."""
    with probing(k, Ops(), Ops(), Ops()) as p:
        for n in range(3):
            with op(p, n).having(flags=op(p, n)["flags"] | STUB):
                assert p.call() == [int(m != n) for m in range(3)]


def ops_without_a_function(k: Kernel) -> None:
    """The first that is met turns tracing off, and none after it is called."""
    disabled, traced = k.image.address("ftrace_disabled"), k.image.address("function_trace_op")
    with probing(k, Ops(), Ops(), Ops()) as p:
        assert p.call() == [1, 1, 1] and k.machine.read(disabled, 1) == b"\0"
        before = k.machine.read_u64(traced)
        k.machine.write_u64(traced, 0)
        with op(p, 1).having(func=0):
            assert p.call() == [0, 0, 1]  # the newest is first
        assert k.machine.read(disabled, 1) == b"\1" and k.machine.read_u64(traced) == k.image.address("ftrace_list_end")
        k.machine.write_u64(traced, before)
        k.machine.write(disabled, b"\0")


def filter_that_is_empty(k: Kernel) -> None:
    """It lets every function through, unless functions of modules are meant."""
    with probing(k, Ops(), Ops()) as p:
        hash_ = Struct(k, "ftrace_hash", Struct(k, "ftrace_ops_hash", op(p, 0)["func_hash"])["filter_hash"])
        kept = k.machine.read_u64(hash_["buckets"])
        for flags, seen in ((0, 1), (MODULES, 0)):
            with hash_.having(count=0, flags=flags, size_bits=0):
                k.machine.write_u64(hash_["buckets"], 0)
                assert p.call() == [seen, 1]
                k.machine.write_u64(hash_["buckets"], kept)
        assert p.call() == [1, 1]


def registers_that_were_not_saved(k: Kernel) -> None:
    """An ops that asked for them is not called meanwhile, where it can be told."""
    told = k.isa.name == "x86_64"
    with probing(k, Ops(), Ops()) as p:
        with op(p, 0).having(flags=op(p, 0)["flags"] | SAVE_REGS):
            assert p.call() == [0 if told else 1, 1]
        assert p.call() == [1, 1]


def guard_is_held(k: Kernel) -> None:
    """Neither the list nor an ops that has the guard is called."""
    for requests in ((Ops(), Ops()), (Ops(recursion=True, dynamic=False),)):
        with probing(k, *requests) as p:
            with task(k).having(trace_recursion=GUARD):
                assert not any(p.call())
            assert all(p.call())


def only_the_transition_is_left(k: Kernel) -> None:
    """The list's own bit for it, whoever else holds his; and it is given back, nothing else."""
    for requests in ((Ops(), Ops()), (Ops(recursion=True, dynamic=False),)):
        with probing(k, *requests) as p:
            for held in (NORMAL, NORMAL | OTHERS):
                with task(k).having(trace_recursion=held):
                    assert all(p.call()) and task(k)["trace_recursion"] == held
            with task(k).having(trace_recursion=GUARD & ~NORMAL):
                assert all(p.call()) and task(k)["trace_recursion"] == GUARD & ~NORMAL


def rcu_does_not_watch(k: Kernel) -> None:
    """An ops that asked for RCU is not called meanwhile, and others are, unless the guard asks."""
    asks = int(k.features["recursion_rcu_test"])
    for requests in ((Ops(rcu=True), Ops()), (Ops(rcu=True, dynamic=False),)):
        with probing(k, *requests) as p:
            with cpu(k).having(rcu_watching=0):
                assert p.call(warnings=asks) == [0, 1 - asks][: len(requests)]
            assert all(p.call())


def guard_asks_whether_rcu_watches(k: Kernel) -> None:
    """Where it does not, nobody behind the guard is called, with a warning; where the guard does not ask, they are."""
    asks = int(k.features["recursion_rcu_test"])
    for requests in ((Ops(), Ops()), (Ops(recursion=True, dynamic=False),)):
        with probing(k, *requests) as p:
            with cpu(k).having(rcu_watching=0):
                assert p.call(warnings=asks) == [1 - asks] * len(requests)
            assert all(p.call())


CHECKS = {
    check.__name__: check
    for check in (
        stub_on_the_list,
        ops_without_a_function,
        filter_that_is_empty,
        registers_that_were_not_saved,
        guard_is_held,
        only_the_transition_is_left,
        rcu_does_not_watch,
        guard_asks_whether_rcu_watches,
    )
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("where", (*PLACES, *ASKING), ids=str)
def test_in_this_state_too_a_call_comes_out_right(where, check):
    CHECKS[check](booted(where))


@pytest.mark.parametrize("mutant", list_mutants.MUTANTS, ids=str)
def test_a_mutant_is_caught(mutant, mutated):
    """By the check that it is for: a call comes out otherwise, or not at all."""
    assert fails(CHECKS[mutant.hook], mutated(mutant).kernel)
