"""Fitted trampolines: one for each function, the smallest that serves its ops; all else is as the kernel has it."""

import itertools
import random

import pytest

from tramplab import Direct, Kernel, Ops, TramplabError
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.trampolines.fitting import ORDER

WITH_ARGS = [(isa, r) for isa in ISAS for r in releases.shown() if releases.features(ISAS[isa], r, {})["args"]]
ARGUMENTS = (1, 2, 3)


def text(kernel):
    return [kernel.machine.read(s.address, s.size) for s in kernel.image.segments if s.executable]


@pytest.mark.parametrize(("isa", "release"), WITH_ARGS)
def test_random_sequences_are_served_and_leave_nothing(isa, release):
    """After every change: the set is the largest that one asks for, all callbacks run once, the result is right. At the end all
    code is as booted, and the room can be had again."""
    kernel, chance = Kernel(isa, release, slow_path="fitting"), random.Random(7)
    function = kernel.function("three_args")
    result, booted = kernel.call(function, *ARGUMENTS).value, text(kernel)
    there = []
    for _ in range(40):
        if there and (len(there) == 4 or chance.random() < 0.45):
            kernel.detach(there.pop(chance.randrange(len(there))))
        else:
            there += kernel.attach(function, Ops(save=chance.choice(ORDER), recursion=chance.random() < 0.2))
        run = kernel.call(function, *ARGUMENTS)
        assert run.value == result and run.hits == (1,) * len(there)
        asked = [o.request.save for o in there]
        assert kernel.slowpath.fitted("three_args") == max(asked, key=ORDER.index, default="")
        listed = "ftrace_ops_list_func" in run.symbols
        assert listed == (len(there) > 1) and not {"ftrace_caller", "ftrace_regs_caller"} & set(run.symbols)
    kernel.detach(*there)
    assert text(kernel) == booted and kernel.call(function, *ARGUMENTS).value == result


@pytest.mark.parametrize("isa", ISAS)
def test_the_two_largest_fit_beside_each_other(isa):
    """For the function with most arguments, while one trampoline takes the other's place."""
    kernel = Kernel(isa, slow_path="fitting")
    function = kernel.function("eight_args")
    idle = kernel.call(function, *range(8)).value
    kernel.attach(function, Ops(save="own-regs"))
    kernel.attach(function, Ops(save="regs" if kernel.features["regs"] else "own-regs"))
    assert kernel.call(function, *range(8)).value == idle


@pytest.mark.parametrize("isa", ISAS)
def test_a_smaller_set_is_a_cheaper_call(isa):
    kernel = Kernel(isa, slow_path="fitting")
    function, cost = kernel.function("two_args"), []
    for save in ORDER:
        with kernel.attached(function, Ops(save=save)):
            cost.append(kernel.call(function, 1, 2).counts.total.instructions)
    assert all(a < b for a, b in itertools.pairwise(cost))


@pytest.mark.parametrize("isa", ISAS)
def test_a_direct_call_is_served_as_the_kernel_does(isa):
    kernel = Kernel(isa, slow_path="fitting")
    function = kernel.function("three_args")
    (direct,) = kernel.attach(function, Direct())
    assert "lab_direct_near" in kernel.call(function, *ARGUMENTS).symbols
    kernel.attach(function, Ops())
    run = kernel.call(function, *ARGUMENTS)
    assert kernel.slowpath.fitted("three_args") == "" and {"ftrace_ops_list_func", "lab_direct_near"} <= set(run.symbols)
    kernel.detach(direct)
    assert kernel.slowpath.fitted("three_args") == "own-args" and kernel.call(function, *ARGUMENTS).hits == (1,)


def test_what_it_does_not_do_is_refused():
    kernel = Kernel("arm64", slow_path="fitting")
    assert "no kernel has" in str(kernel)
    before = text(kernel)
    for request in (Ops(), Ops(filter=("one_arg", "two_args")), Ops(filter=("one_arg",), notrace=("two_args",))):
        with pytest.raises(TramplabError, match="one function at a time"):
            kernel.attach(None, request)
    kernel.attach(kernel.function("one_arg"), Ops())
    with pytest.raises(TramplabError, match="one function at a time"):
        kernel.attach(kernel.function("two_args"), Ops())
    with pytest.raises(TramplabError, match="only look"):
        kernel.attach(kernel.function("one_arg"), Ops(callback="lab_livepatch", go_to="two_args"))
    with pytest.raises(TramplabError, match=r"which arm64 v6\.1 has not"):
        old = Kernel("arm64", "v6.1", slow_path="fitting")
        old.attach(old.function("one_arg"), Ops())
    kernel.detach(*kernel.slowpath.ops)
    assert text(kernel) == before
