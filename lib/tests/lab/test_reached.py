"""Where the code of a direct call lies: what is said of it against where a call goes, and what no kernel has."""

import pytest

from support.models.guests import every_isa
from tramplab import Kernel
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab import hooks
from tramplab.lab.measure import run
from tramplab.trampolines.bpf import Bpf

PLACED = [name for name, hook in hooks.HOOKS.items() if hook.placed]


@every_isa
@pytest.mark.parametrize("release", ["v6.12", "v6.16", releases.LATEST])
def test_a_call_goes_through_ftrace_caller_where_its_code_is_said_to_be_far(isa, release):
    for name in PLACED:
        symbols = {symbol.partition("+")[0] for symbol in run(isa, name, release).symbols}
        assert ("ftrace_caller" in symbols) == (hooks.placement(hooks.get(name), isa, release) == "far"), name


def test_a_near_direct_call_is_hypothetical_where_no_allocator_reaches():
    """And the far one stands in for it; nothing else is hypothetical on one ISA and not on another."""
    for isa, record in ISAS.items():
        for release in releases.shown():
            near = isa == "riscv64" and release in ("v6.16", "v7.2")
            assert hooks.hypothetical("direct", isa, release) == near
            features = releases.features(record, release, {})
            if features["direct"]:
                assert hooks.of_release("direct", features).name == ("direct-far" if near else "direct")
            for name in set(hooks.HOOKS) - {"direct"}:
                assert hooks.hypothetical(name, isa, release) == hooks.hypothetical(name)


@every_isa
@pytest.mark.parametrize("kind", ["fentry", "fexit"])
def test_kaslr_costs_a_program_what_distance_costs_a_direct_call(isa, kind):
    """On arm64, and nothing on the others, where it decides no reach; what was allocated is given back."""
    k = Kernel(isa)
    guest = k.slowpath.makers[0]._guest
    free = list(guest.near._free), list(guest.modules._free)
    idle, counts = k.call("one_arg", 5), []
    for kaslr in (True, False):
        with k.attached("one_arg", Bpf(**{kind: 1}, kaslr=kaslr)):
            made = k.call("one_arg", 5)
        assert made.value == idle.value
        assert (list(guest.near._free), list(guest.modules._free)) == free
        counts.append(made.counts.total.instructions)
    far, near = (run(isa, hook).counts.total.instructions for hook in ("direct-far", "direct"))
    assert counts[0] - counts[1] == (far - near if isa == "arm64" else 0)
    assert far > near or isa == "x86_64"
