"""What register structures hold: found by running, and the same whatever the registers and the stack held before."""

import pytest
from hypothesis import settings

from support.plugins.seeds import drawn, seeds
from tramplab.base.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.lab.kernel import Kernel
from tramplab.sparsity.consumers.matrix import view_frame
from tramplab.sparsity.structures.classify import CONSTANT, DERIVED, GARBAGE, OUTSIDE, TRUE, UNKNOWN, Sample, classify
from tramplab.sparsity.structures.frames import POISONS, SEEDS, frame
from tramplab.sparsity.structures.program import program_frame
from tramplab.sparsity.structures.providers import PROVIDERS, of, provider
from tramplab.sparsity.structures.registers import register_of
from tramplab.sparsity.structures.views import views

RELEASES = ("v6.1", "v6.12", "v7.2")
KERNELS = [(isa, release) for isa in ISAS for release in RELEASES]
EACH = [
    (isa, release, p.name) for isa, release in KERNELS for p in of(releases.features(ISAS[isa], release, {}))
]


def found(isa, release, name, **more):
    return frame(Kernel(isa, release), provider(name), **more)


def of_kind(frame, *wanted):
    return [name for name, slot in frame.slots.items() if slot.kind in wanted]


@pytest.mark.parametrize("isa, release, name", EACH)
def test_every_slot_is_explained(isa, release, name):
    assert of_kind(found(isa, release, name), UNKNOWN) == []


@drawn
@pytest.mark.parametrize("isa, release, name", [(isa, r, n) for isa, r, n in EACH if r != "v6.12"])
def test_other_values_change_nothing(request, isa, release, name):
    """Two seeds that differ in all that a seed chooses, and two poisons."""
    kernel, expected = Kernel(isa, release), found(isa, release, name).slots
    for seed in seeds(request.node.name, settings.default.max_examples // 40):
        first, poison = seed % (1 << 20), seed >> 20 & 0x3FF
        pair = first, first + 1 + 2 * (seed >> 40 & 7)
        assert frame(kernel, provider(name), pair, (poison, poison + 1 + (seed >> 50))).slots == expected


# Of machine code that was read in Debian's kernels: how many of how many slots are written (Debian 6.1, 6.12 and 7.2).


@pytest.mark.parametrize("release", RELEASES)
def test_x86_64_writes_twelve_of_21_slots(release):
    partial = found("x86_64", release, "ftrace_caller")
    assert len(of_kind(partial, TRUE, DERIVED, CONSTANT)) == 12 and len(partial.slots) == 21
    assert (partial.slots["cs"].rule, partial.slots["orig_ax"].rule) == ("0", "0"), "the mark of a partial set; no direct call"
    assert of_kind(partial, GARBAGE) == ["r15", "r14", "r13", "r12", "bx", "r11", "r10", "flags", "ss"]
    assert of_kind(found("x86_64", release, "ftrace_regs_caller"), GARBAGE) == []


def test_arm64_writes_18_of_44_slots_and_with_all_registers_37():
    """Two are the second frame record, below the structure; 41 words of 8 bytes have 42 slots of pt_regs, two of them of 4."""
    partial, full = (found("arm64", "v6.1", name) for name in ("ftrace_caller", "ftrace_regs_caller"))
    written = [len(of_kind(f, TRUE, DERIVED, CONSTANT)) for f in (partial, full)]
    assert written == [16, 35] and written[1] - written[0] == 37 - 18
    assert {"pstate", "orig_x0"} <= set(of_kind(full, GARBAGE)), "no trampoline fills the state"


@pytest.mark.parametrize("isa, left", [("arm64", []), ("riscv64", ["unused"])])
@pytest.mark.parametrize("release", ["v6.12", "v7.2"])
def test_ftrace_regs_of_their_own_have_nothing_that_is_not_filled(isa, left, release):
    partial = found(isa, release, "ftrace_caller")
    assert partial.struct == "ftrace_regs" and of_kind(partial, GARBAGE) == left


def test_what_riscv64_once_handed_on_is_no_pt_regs():
    """A callback that did not ask for registers is given the address of eight arguments; what lies above is its caller's."""
    slots = found("riscv64", "v6.1", "ftrace_caller").slots
    assert [str(slots[name]) for name in ("epc", "t2")] == ["derived: a0", "derived: a7"]
    assert slots["a0"].kind == slots["orig_a0"].kind == OUTSIDE


@pytest.mark.parametrize("isa", ISAS)
def test_a_breakpoint_finds_everything(isa):
    full = found(isa, "v6.12", "breakpoint")
    named = {"x86_64": {"orig_ax"}, "arm64": {"orig_x0", "syscallno"}, "riscv64": {"orig_a0", "cause", "badaddr"}}[isa]
    left = set(of_kind(full, CONSTANT, GARBAGE, DERIVED)) - {"ip"}
    assert named <= left and not any(name in left for name in ("flags", "pstate", "status", "sp", "pc", "epc"))


def sample(seed, poison, **values):
    truth = {"x0": 1000 * seed + 7, "x1": seed << 40 | 0x30, "sp": (1 << 47) - seed * 64}
    return Sample(seed, poison, values, truth)


def samples(value):
    return [sample(seed, poison, slot=value(seed, poison)) for seed in SEEDS for poison in POISONS]


@pytest.mark.parametrize(
    "value, kind, rule",
    [
        (lambda s, p: 1000 * s + 7, TRUE, ""),
        (lambda s, p: 1000 * s + 8, DERIVED, "x0 + 1"),
        (lambda s, p: s << 40 | 0x30, DERIVED, "x1"),
        (lambda s, p: (1 << 47) - s * 64 - 16, DERIVED, "sp - 16"),
        (lambda s, p: 5, CONSTANT, "5"),
        (lambda s, p: 0xABCDEF, CONSTANT, "0xabcdef"),
        (lambda s, p: p, GARBAGE, ""),
        (lambda s, p: 1000 * s + 7 if p else 0, GARBAGE, ""),
        (lambda s, p: (s + 3) ** 30, UNKNOWN, ""),
    ],
)
def test_what_a_slot_holds_is_told_from_samples(value, kind, rule):
    slot = classify(samples(value), {"slot": "x0"})["slot"]
    assert (slot.kind, slot.rule) == (kind, rule)


NEAR = 1 << 16


@pytest.mark.parametrize("away", [1, -1, 4096, NEAR - 1, NEAR, -NEAR, NEAR + 1, -NEAR - 1])
def test_what_is_made_from_a_register_is_at_most_64_kib_from_it(away):
    slot = classify(samples(lambda s, p: (1 << 47) - s * 64 + away), {"slot": "x0"})["slot"]
    said = f"sp {'+' if away > 0 else '-'} {abs(away)}"
    assert (slot.kind, slot.rule) == ((DERIVED, said) if abs(away) <= NEAR else (UNKNOWN, ""))


@pytest.mark.parametrize("value", [0, 9, 10, NEAR - 1, NEAR, NEAR + 1, 1 << 63])
def test_a_register_that_is_always_the_same_is_told_from_a_small_number(value):
    """As the way back is; up to 64 KiB it is a number of itself."""
    found = [Sample(s, p, {"slot": value}, {"x0": s, "x30": value}) for s in SEEDS for p in POISONS]
    slot = classify(found, {"slot": "x0"})["slot"]
    number = (CONSTANT, f"{value:#x}" if value > 9 else str(value))
    assert (slot.kind, slot.rule) == ((DERIVED, "x30") if value > NEAR else number)
    assert classify(found, {"slot": "x30"})["slot"].kind == TRUE


def test_addresses_go_round_at_64_bits():
    """Behind the last one comes 0."""
    found = [Sample(s, p, {"slot": (8 - s) % (1 << 64)}, {"x1": (1 << 64) - 8 - s}) for s in SEEDS for p in POISONS]
    assert classify(found, {"slot": ""})["slot"].rule == "x1 + 16"
    found = [Sample(s, p, {"slot": (1 << 64) - 8 - s}, {"x1": 8 - s}) for s in SEEDS for p in POISONS]
    assert classify(found, {"slot": ""})["slot"].rule == "x1 - 16"
    found = [Sample(s, p, {"slot": (1 << 63) + s}, {"x1": s}) for s in SEEDS for p in POISONS]
    assert classify(found, {"slot": ""})["slot"].kind == UNKNOWN, "half the way round"


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_slot_of_fewer_bytes_holds_the_low_ones_of_its_register(size):
    """And is not taken for true where it holds others, or one byte more."""
    truth = {seed: 0x0102030405060708 * (seed + 3) for seed in SEEDS}

    def kind(value):
        found = [Sample(s, p, {"slot": value(truth[s])}, {"x0": truth[s]}, {"slot": size}) for s in SEEDS for p in POISONS]
        return classify(found, {"slot": "x0"})["slot"].kind

    bits = 8 * size
    assert kind(lambda true: true % (1 << bits)) == TRUE
    assert kind(lambda true: (true >> 8) % (1 << bits)) != TRUE
    assert kind(lambda true: true % (1 << bits) ^ 1 << bits - 1) != TRUE
    assert (kind(lambda true: true % (1 << bits + 8)) == TRUE) == (size == 8)


def test_one_seed_or_one_poison_tells_nothing():
    with pytest.raises(TramplabError, match="two seeds and two poisons"):
        classify([sample(0, p, slot=0) for p in POISONS], {"slot": ""})
    with pytest.raises(TramplabError, match="each with each"):
        classify(samples(lambda s, p: 0)[:3], {"slot": ""})


def test_an_unknown_provider_is_named_with_near_ones():
    with pytest.raises(TramplabError, match="did you mean ftrace_caller"):
        provider("ftrace_calle")


def test_a_kernel_without_a_provider_says_what_it_has():
    with pytest.raises(TramplabError, match=r"arm64 v7\.2 has no ftrace_regs_caller; it has ftrace_caller, breakpoint"):
        found("arm64", "v7.2", "ftrace_regs_caller")


def test_the_hooks_are_gone_behind_it():
    kernel = Kernel("arm64", "v7.2")
    before = kernel.call("three_args", 1, 2, 3).instructions
    for chosen in of(kernel.features):
        frame(kernel, chosen)
    assert kernel.call("three_args", 1, 2, 3).instructions == before
    assert set(PROVIDERS) >= {chosen.name for chosen in of(kernel.features)}


@pytest.mark.parametrize("isa", ISAS)
def test_a_program_is_given_arguments_and_nothing_else(isa):
    one = program_frame(Kernel(isa, "v7.2"))
    assert [slot.kind for slot in one.slots.values()] == [TRUE] * 3 and one.size == 24


@pytest.mark.parametrize("isa", ["arm64", "riscv64"])
def test_what_is_made_of_it_has_what_was_copied_and_zeros(isa):
    kernel = Kernel(isa, "v6.16")
    (view,) = [v for v in views(kernel) if v.name == "ftrace_caller, partial"]
    made, own = view_frame(kernel, view), found(isa, "v6.16", "ftrace_caller")
    copied, there = ({register_of(ISAS[isa], name) for name in of_kind(one, TRUE)} for one in (made, own))
    assert copied == there and len(there) > 10
    assert {str(made.slots[name]) for name in of_kind(made, CONSTANT)} == {"constant: 0"} and of_kind(made, GARBAGE) == []
