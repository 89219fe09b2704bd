"""The hooks by name that have a BPF program: what it costs beside a bare handler, and where there is none."""

import pytest

from tramplab import Fprobe, Kernel, TramplabError
from tramplab.ftrace.releases import features
from tramplab.isa import ISAS
from tramplab.lab import hooks, measure

every_isa = pytest.mark.parametrize("isa", ISAS)

#: With a program -> the same with a bare handler.
PAIRS = {
    "kprobe-bpf": "kprobe",
    "kretprobe-bpf": "kretprobe",
    "kprobe-brk-bpf": "kprobe-brk",
    "kretprobe-brk-bpf": "kretprobe-brk",
    "kprobe-multi": "fprobe",
    "kretprobe-multi": "fprobe-exit",
    "fprobe-bpf": "fprobe",
}


@every_isa
@pytest.mark.parametrize("release", ["v6.1", "v6.9", "v6.12", "v7.2"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_program_costs_more_than_a_bare_handler_and_the_same_trampoline(isa, release, name):
    """And where a release has no such probe the hook is refused, as the bare one is."""
    has = features(ISAS[isa], release, {})
    hook, bare = hooks.get(name), hooks.get(PAIRS[name])
    if not hook.there(has):
        assert name == "fprobe-bpf" or not bare.there(has)
        with pytest.raises(TramplabError, match=f"has no {name} hook"):
            measure.run(isa, name, release)
        return
    mine, other = measure.run(isa, name, release), measure.run(isa, bare.name, release)
    assert mine.value == other.value and "lab_bpf_count" in mine.symbols and "lab_bpf_count" not in other.symbols
    cost = [run.counts.by_component for run in (mine, other)]
    assert cost[0]["trampoline"] == cost[1]["trampoline"]
    assert cost[0]["core"].instructions > cost[1]["core"].instructions + 20


def test_a_list_says_of_what_kind_a_handler_is():
    for name, bare in PAIRS.items():
        assert "BPF program" in hooks.get(name).title and "bare handler" in hooks.get(bare).title


def test_the_programs_of_a_proposal_are_on_return_hooks():
    """No kernel's, and not where fprobes are on the graph tracer; where an override brings return hooks, they are there."""
    assert hooks.hypothetical("fprobe-bpf") and not hooks.hypothetical("kprobe-multi")
    with pytest.raises(TramplabError, match=r"no kernel has it, and the lab makes it on x86_64 v5.18 to v6.13"):
        measure.run("x86_64", "fprobe-bpf", "v6.16")
    assert measure.run("arm64", "fprobe-bpf", "v6.4", rethook="freelist").value == 3


def test_a_link_wants_a_pt_regs():
    """Of return hooks that no kernel had on an ISA without a trampoline that fills one."""
    k = Kernel("arm64", "v6.4", rethook="objpool", meter="count")
    with pytest.raises(TramplabError, match=r"a pt_regs, and arm64 v6.4 .* fprobes have none; arm64 fills one v5.5"):
        k.attach(k.function("one_arg"), Fprobe(multi=True))
