"""The calling convention with fprobes on every function, and what their handlers see, on return hooks and on the graph tracer."""

import pytest
from hypothesis import settings

from support.abi import abi, fprobe_abi
from support.plugins.seeds import drawn, seeds

PLACES = (*fprobe_abi.ON_RETURN_HOOKS, *fprobe_abi.ON_GRAPH_TRACER)
CASES = [(place, hook) for place in PLACES for hook in fprobe_abi.HOOKS]


@pytest.fixture(params=CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def hooked(request):
    """A kernel with the fprobes attached, once for all states."""
    place, hook = request.param
    with fprobe_abi.hooked(abi.lab(place), hook) as h:
        yield h


@drawn
def test_a_call_with_fprobes_keeps_the_calling_convention(hooked, request):
    """Registers, arguments, result and stack are as without; handlers see the call, its return and its value; nodes go back,
    or frames are popped."""
    for seed in seeds(request.node.name, settings.default.max_examples // 5):
        hooked.check(seed)
