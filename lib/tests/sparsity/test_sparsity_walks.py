"""Stack walks from registers that were handed on: from where they start, and whom they find."""

import functools

import pytest

from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.walks import CALLER, FUNCTION, walk
from tramplab.sparsity.structures.views import views


@functools.cache
def walks(isa, release):
    kernel = Kernel(isa, release, frame_pointer=True)
    return {view.name: walk(kernel, view) for view in views(kernel) if view.kind == "pt_regs"}


@pytest.mark.parametrize("isa", ISAS)
def test_from_a_breakpoint_the_function_is_found_and_its_caller_left_out(isa):
    """There is no record of the function yet, so the frame pointer leads to its caller's, which says who called that."""
    one = walks(isa, "v7.2")["breakpoint"]
    assert (one.start, one.found, one.wanted, one.error) == ("registers", (FUNCTION,), (FUNCTION, CALLER), "")


@pytest.mark.parametrize(
    "isa, release, start", [("arm64", "v6.16", "nowhere"), ("arm64", "v7.2", "registers"), ("riscv64", "v7.2", "nowhere")]
)
def test_who_is_said_to_be_in_user_space_has_no_callers(isa, release, start):
    for provider, wanted in (("ftrace_caller", FUNCTION), ("return_to_handler", CALLER)):
        one = walks(isa, release)[f"{provider}, partial"]
        assert (one.start, one.found) == (start, (wanted,) if start == "registers" else ())


def test_from_where_one_stands_the_caller_is_found_too():
    """perf's fill on x86-64 is no set of hardware registers: the walk starts at whoever asks, through the trampoline's records."""
    one = walks("x86_64", "v7.2")["ftrace_caller, perf"]
    assert (one.start, one.found) == ("here", (FUNCTION, CALLER))


@pytest.mark.parametrize("release", ["v6.1", "v7.2"])
@pytest.mark.parametrize("isa", ISAS)
def test_nobody_is_found_who_is_not_there(isa, release):
    for name, one in walks(isa, release).items():
        assert (one.strange, one.error) == ((), ""), name
