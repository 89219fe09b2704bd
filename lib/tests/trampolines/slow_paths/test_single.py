"""One ops for all direct calls: the calling convention in each way, the right target, and the plans."""

import itertools

import pytest

from support.abi import abi, abi_places
from support.abi.abi import STATES
from support.mutants.mutants import broken
from support.mutants.single_mutants import LOOKUP_MUTANTS
from tramplab import Bpf, Direct, Kernel, Ops, TramplabError
from tramplab.ftrace.ops import FL_DYNAMIC
from tramplab.ftrace.steps import Free, Sync, Wait, Write
from tramplab.trampolines.single import WAYS

WHERE = [(isa, way.name) for way in WAYS.values() for isa in way.isas]
every_way = pytest.mark.parametrize(("isa", "way"), WHERE, ids=map("-".join, WHERE))
ARGUMENTS = (1, 2, 3)


def text(kernel):
    return [kernel.machine.read(s.address, s.size) for s in kernel.image.segments if s.executable]


# -- the calling convention


@pytest.mark.parametrize("hook", abi_places.SINGLE_HOOKS)
@pytest.mark.parametrize("place", abi_places.SINGLE, ids=str)
def test_the_calling_convention_survives(place, hook):
    with abi.lab(place).hooked(hook) as hooked:
        for seed in STATES:
            hooked.check(seed)


# -- the right target


def targets(kernel):
    """Every function with one of the two far stubs in turn, attached: what each call runs, and by whom it was looked up."""
    functions, at = kernel.functions, kernel.memory(5, 0, 0)
    pointers = {"pointer_args": (at, at), "big_struct_return": (at, 1, 2), "call_tree": (kernel.memory(0),)}
    through = {kernel.isa.struct_return: at}
    wanted = [Direct(far=True, observe=bool(n % 2), filter=(f,)) for n, f in enumerate(functions)]
    with kernel.attached(None, *wanted):
        runs = [kernel.call(f, *pointers.get(f, range(8)), registers=through, budget=abi.BUDGET).symbols for f in functions]
    stubs = ("lab_direct_far", "lab_direct_far_observe")
    return [(tuple(s in run for s in stubs), "call_direct_funcs" in run) for run in runs]


#: Functions that call others, whose targets run too.
CALLERS = ("calls_others", "tail_call", "passed_over", "goes_on")
RIGHT = {False: ((True, False), False), True: ((False, True), False)}


@every_way
def test_every_function_gets_its_own_target_at_once(isa, way):
    """Of functions that call others, whose targets run too, only the first is told."""
    kernel = Kernel(isa, slow_path=way)
    alone = [n for n, f in enumerate(kernel.functions) if f not in CALLERS]
    seen = targets(kernel)
    assert [seen[n] for n in alone] == [RIGHT[bool(n % 2)] for n in alone]


@pytest.mark.parametrize("mutant", LOOKUP_MUTANTS, ids=str)
def test_a_broken_lookup_is_caught(mutant, tmp_path):
    """It runs another target, or leaves the lookup to C, for some function."""
    kernel = Kernel(mutant.isa, mutant.release, slow_path=mutant.single, guest=broken(tmp_path, mutant))
    alone = [n for n, f in enumerate(kernel.functions) if f not in CALLERS]
    try:
        seen = targets(kernel)
    except TramplabError:
        return
    assert [seen[n] for n in alone] != [RIGHT[bool(n % 2)] for n in alone]


@every_way
def test_the_word_beside_a_function_is_what_the_way_says(isa, way):
    kernel = Kernel(isa, slow_path=way)
    function, far = kernel.function("three_args"), kernel.image.address("lab_direct_far")
    literal = function.site.literal
    with kernel.attached(function, Direct(far=True)) as (direct,):
        if literal is not None:
            held = kernel.machine.read_u64(literal)
            assert held == (far | 1 if WAYS[way].odd else direct.address)
        if WAYS[way].beside:
            assert kernel.machine.read_u64(literal - 8) == far
            with kernel.attached(function, Ops()):
                assert kernel.machine.read_u64(literal - 8) == 0
    if literal is not None:
        assert kernel.machine.read_u64(literal) == kernel.image.address("ftrace_nop_ops")


# -- the bookkeeping


@every_way
def test_one_ops_serves_all_and_leaves_nothing(isa, way):
    """However many come and go, alone or at once, and with ops beside them: all that was written is as booted."""
    kernel = Kernel(isa, slow_path=way)
    booted, idle = text(kernel), kernel.call("three_args", *ARGUMENTS).value
    for order in itertools.permutations(range(3)):
        attached = [
            kernel.attach(kernel.function("three_args"), Direct(far=True))[0],
            kernel.attach(kernel.function("one_arg"), Direct())[0],
            kernel.attach(kernel.function("three_args"), Ops())[0],
        ]
        assert len(kernel.slowpath.ops) == 2 and len({o.address for o in attached[:2]}) == 1
        run = kernel.call("three_args", *ARGUMENTS)
        assert run.value == idle and {"lab_direct_far", "lab_callback"} <= run.symbols
        for n in order:
            kernel.detach(attached[n])
        assert not kernel.slowpath.ops and text(kernel) == booted
    requests = [Direct(far=bool(n % 2), filter=(f,)) for n, f in enumerate(kernel.functions)]
    members, steps = kernel.slowpath.add(requests)
    kernel.apply(steps)
    assert [o.flags & FL_DYNAMIC for o in kernel.slowpath.ops] == [0]
    kernel.apply(kernel.slowpath.remove(members[1:]))
    assert "lab_direct_near" in kernel.call(members[0].functions[0]).symbols
    kernel.apply(kernel.slowpath.remove(members[:1]))
    assert not kernel.slowpath.ops and text(kernel) == booted and kernel.call("three_args", *ARGUMENTS).value == idle


@every_way
def test_nobody_waits_for_tasks_but_what_is_freed_is_behind_a_wait(isa, way):
    kernel = Kernel(isa, slow_path=way)
    requests = [Direct(far=True, filter=(f,)) for f in kernel.functions[:3]]
    plans, members = [], []
    for request in requests:
        (member, plan) = kernel.slowpath.register(request)
        members.append(member)
        plans.append(plan)
        kernel.apply(plan)
    for member in members:
        plans.append(kernel.slowpath.unregister(member))
        kernel.apply(plans[-1])
    for plan in plans:
        syncs = [s.sync for s in plan if isinstance(s, Wait)]
        assert Sync.RCU_TASKS not in syncs
        frees = [n for n, s in enumerate(plan) if isinstance(s, Free)]
        writes = [n for n, s in enumerate(plan) if isinstance(s, Write)]
        if frees:
            wait = next(n for n, s in enumerate(plan) if isinstance(s, Wait) and s.sync is Sync.CALL_RCU_TASKS)
            assert max(writes) < wait < min(frees)
    assert any(isinstance(s, Free) for s in plans[1]) and any(isinstance(s, Free) for s in plans[-1])


def test_as_many_buckets_as_the_series_gives():
    """fls() of the number of entries, of 32 at most; the copy for a filter has its own rule."""
    kernel = Kernel("arm64", slow_path="lookup")
    fields = kernel.image.struct("ftrace_hash").fields
    for n, f in enumerate(kernel.functions, 1):
        kernel.attach(kernel.function(f), Direct(far=True))
        table = kernel.machine.read_u64(kernel.image.address("direct_functions"))
        bits, count = (kernel.machine.read_u64(table + fields[name].offset) for name in ("size_bits", "count"))
        assert (bits, count) == (n.bit_length(), n)


# -- what cannot be had


def test_what_it_does_not_do_is_refused():
    with pytest.raises(TramplabError, match=r"unknown slow path 'lokup'; did you mean lookup"):
        Kernel("arm64", slow_path="lokup")
    with pytest.raises(TramplabError, match=r"had on x86_64 with slow_path=one-ops, not lookup\."):
        Kernel("x86_64", slow_path="lookup")
    with pytest.raises(TramplabError, match=r"x86_64 v6\.19 has the target .* one ops for all is since v7\.0"):
        Kernel("x86_64", "v6.19", slow_path="one-ops")
    with pytest.raises(TramplabError, match=r"arm64 v6\.1 has no direct calls"):
        Kernel("arm64", "v6.1", slow_path="beside")
    with pytest.raises(TramplabError, match=r"riscv64 v6\.12 has no ops beside its functions"):
        Kernel("riscv64", "v6.12", slow_path="beside")
    kernel = Kernel("arm64", slow_path="literal")
    assert str(kernel).endswith("(literal), which no kernel has")
    assert "no kernel" not in str(Kernel("x86_64", slow_path="one-ops"))
    before = text(kernel)
    with pytest.raises(TramplabError, match=r"takes requests of the type Direct, not Bpf"):
        kernel.attach(kernel.function("one_arg"), Bpf(fentry=1))
    with pytest.raises(TramplabError, match="one_arg is in two of these direct calls"):
        kernel.slowpath.add([Direct(filter=("one_arg",)), Direct(far=True, filter=("two_args", "one_arg"))])
    (direct,) = kernel.attach(kernel.function("one_arg"), Direct())
    with pytest.raises(TramplabError, match="one_arg has a direct call already"):
        kernel.slowpath.add([Direct(filter=("two_args",)), Direct(filter=("one_arg",))])
    kernel.detach(direct)
    with pytest.raises(TramplabError, match=r"that direct call \(of one_arg\) is not attached"):
        kernel.detach(direct)
    assert text(kernel) == before and not kernel.slowpath.ops
