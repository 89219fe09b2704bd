"""The calling convention with fprobes on every function, and what their handlers see, on return hooks and on the graph tracer."""

from hypothesis import settings

from support.abi import fprobe_abi
from support.abi.attached import attached
from support.plugins.seeds import drawn, seeds

PLACES = (*fprobe_abi.ON_RETURN_HOOKS, *fprobe_abi.ON_GRAPH_TRACER)
CASES = [(place, hook) for place in PLACES for hook in fprobe_abi.HOOKS]

hooked = attached(fprobe_abi.hooked, CASES)


@drawn
def test_a_call_with_fprobes_keeps_the_calling_convention(hooked, request):
    """Registers, arguments, result and stack are as without; handlers see the call, its return and its value; nodes go back,
    or frames are popped."""
    for seed in seeds(request.node.name, settings.default.max_examples // 5):
        hooked.check(seed)
