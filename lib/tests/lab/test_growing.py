"""One function to which more and more is attached: what was there stays, also where something is refused."""

import pytest

from tramplab import Direct, Kernel, Ops, TramplabError
from tramplab.isa import ISAS
from tramplab.lab.growing import growing


@pytest.mark.parametrize("isa", ISAS)
def test_what_was_there_stays_and_the_rest_changes(isa):
    """More of the same keeps the ops; other requests, or fewer, take them off; in the end nothing is attached."""
    kernel = Kernel(isa, meter="count")
    function = kernel.function("one_arg")
    before = kernel.machine.read(function.address, function.size)
    with growing(kernel, function) as attach:
        attach([Direct()])
        (direct,) = kernel.slowpath.ops
        attach([Direct(), Ops(), Ops()])
        assert kernel.slowpath.ops[-1] is direct and len(kernel.call(function, 1).hits) == 3
        attach([Ops()])
        assert direct not in kernel.slowpath.ops and kernel.call(function, 1).hits == (1,)
        attach([Ops(recursion=True)])
        assert [o.request.recursion for o in kernel.slowpath.ops] == [True]
    assert kernel.slowpath.ops == [] and kernel.machine.read(function.address, function.size) == before


def test_a_refusal_leaves_what_was_attached():
    """Two direct calls on one function are refused; the first goes on, and is taken off at the end."""
    kernel = Kernel("arm64", meter="count")
    function = kernel.function("one_arg")
    with growing(kernel, function) as attach:
        attach([Direct()])
        with pytest.raises(TramplabError):
            attach([Direct(), Direct()])
        assert len(kernel.slowpath.ops) == 1
        attach([Direct(), Ops()])
        assert len(kernel.slowpath.ops) == 2
    assert kernel.slowpath.ops == []
