"""The calling convention survives every BPF trampoline, and programs see what they are promised.

The releases are those between which something on the way differs: how far a patch site reaches, where the target of a
direct call comes from, and (x86-64) whether the site calls or jumps.
"""

import functools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.abi import abi, abi_calls, abi_places, bpf_abi
from support.abi.attached import attached
from support.plugins.seeds import drawn, seeds

PLACES = tuple(
    abi_places.Place(isa, release)
    for isa, releases in (
        ("x86_64", ("v5.19", "v6.4", "v6.12", "v6.19", "v7.2")),
        ("arm64", ("v6.4", "v7.2")),
        ("riscv64", ("v6.8", "v6.12", "v7.2")),
    )
    for release in releases
)
CASES = [(place, hook) for place in PLACES for hook in bpf_abi.HOOKS]
CASES += [
    (abi_places.Place(isa, "v7.2"), f"{hook}:{level}")
    for isa, level in (("arm64", "jump"), ("arm64", "pop"), ("riscv64", "pop"))
    for hook in ("bpf-fexit", "bpf-all", "bpf-all+ops")
]

hooked = attached(bpf_abi.hooked, CASES)


@drawn
def test_a_call_with_programs_keeps_the_calling_convention(hooked, request):
    """Arguments, results, callee-saved registers, stack and counters are as without, and each program saw its due."""
    for seed in seeds(request.node.name, settings.default.max_examples // 6):
        hooked.check(seed)


@functools.lru_cache(maxsize=1)
def deciding(place: abi_places.Place):
    """three_args with two fentry, three fmod_ret and two fexit programs, all observing."""
    here = abi.Lab(place)
    f = here.kernel.function("three_args")
    (ops,) = here.kernel.attach(f, bpf_abi.Bpf(fentry=2, fmod_ret=3, fexit=2, observe=True))
    return here, f, bpf_abi.BpfHooked(here, "bpf-all", (ops,))


@pytest.mark.parametrize("place", PLACES, ids=str)
@settings(max_examples=settings.default.max_examples // 10)
@given(
    verdicts=st.tuples(*[st.one_of(st.just(0), st.integers(1, (1 << 64) - 1))] * 3),
    args=st.tuples(*[st.integers(0, (1 << 64) - 1)] * 3),
)
@example(verdicts=(0, 0, 0), args=(1, 2, 3))
@example(verdicts=(0, 1 << 63, 5), args=(1, 2, 3))
def test_fmod_ret_skips_exactly_when_asked(place, verdicts, args):
    """The first verdict that is not zero is the result; no later fmod_ret program and not the function runs, fexit does."""
    here, f, observer = deciding(place)
    bpf_abi.verdicts(here, dict(zip((3, 4, 5), verdicts, strict=False)))
    here.machine.write_u64(observer._count, 0)
    here.machine.set_meter("count")
    run = here.kernel.call(f, *args)
    said = next((i for i, v in enumerate(verdicts) if v), None)
    result = abi_calls.weigh(*args) if said is None else verdicts[said]
    ran = [1, 2, *((3, 4, 5) if said is None else (3, 4, 5)[: said + 1]), 6, 7]
    assert run.value == result
    body = run.counts.by_component["function"].instructions
    assert bool(body) == (said is None)
    seen = observer.observations()
    assert [words[0] for words in seen] == ran
    assert all(list(words[2:5]) == list(args) for words in seen)
    assert [words[5] for words in seen[-2:]] == [result] * 2
