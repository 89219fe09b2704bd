"""What a trace says of frames: chains written by hand, hooked returns that are looked up, and trampolines that lack a record."""

from __future__ import annotations

import pytest

from tramplab import Fprobe, Kernel, Ops
from tramplab.base.errors import TramplabError
from tramplab.isa import ISAS, get
from tramplab.trampolines.bpf import Bpf, arm64, riscv64
from tramplab.trampolines.bpf.code import Text
from tramplab.unwind import orc, recovery, stacks
from tramplab.unwind.chain import NO_NODE, Chain
from tramplab.unwind.recovery import Hooked, Recovery
from tramplab.unwind.stacks import DOUBLED, MISSING, RETURNED, RIGHT, WRONG, Frame, found, watch
from tramplab.unwind.unwind import RECORDS, unwind

every_isa = pytest.mark.parametrize("isa", ISAS)
F, CALLER, OUTER, HOOK, BACK = 0x100, 0x210, 0x310, 0x900, 0x800
OWN = Frame(F, F + 0x40)
FRAMES = (OWN, Frame.returning_to(CALLER), Frame.returning_to(OUTER))


# -- chains written by hand


@pytest.mark.parametrize(
    "addresses, states",
    [
        ((F, CALLER, OUTER), (RIGHT, RIGHT, RIGHT)),
        ((HOOK, HOOK + 8, F + 8, CALLER, OUTER), (RIGHT, RIGHT, RIGHT)),
        ((HOOK, CALLER, OUTER), (MISSING, RIGHT, RIGHT)),
        ((F, OUTER), (RIGHT, MISSING, RIGHT)),
        ((F,), (RIGHT, MISSING, MISSING)),
        ((F, HOOK, F + 8, CALLER, OUTER), (DOUBLED, RIGHT, RIGHT)),
        ((F, CALLER, CALLER, OUTER), (RIGHT, DOUBLED, RIGHT)),
        ((F, CALLER + 4, OUTER), (RIGHT, MISSING, RIGHT)),  # the same function, but not where it goes on
        ((CALLER, F + 8, OUTER), (RIGHT, WRONG, RIGHT)),  # the wrong way round
        ((F, BACK, OUTER), (RIGHT, WRONG, RIGHT)),
        ((F, BACK, CALLER, OUTER), (RIGHT, WRONG, RIGHT)),  # found, but behind somebody who did not call
        ((F, CALLER, BACK, OUTER), (RIGHT, RIGHT, WRONG)),
        ((HOOK, BACK, OUTER), (MISSING, WRONG, RIGHT)),
        ((BACK, CALLER, OUTER), (MISSING, RIGHT, RIGHT)),  # the program counter is in the trampoline itself
        ((F + 0x40, CALLER, OUTER), (MISSING, RIGHT, RIGHT)),  # right behind the function
        ((HOOK, F + 0x40, CALLER, OUTER), (RIGHT, RIGHT, RIGHT)),  # the same as a return address: behind its last call
    ],
)
def test_what_a_chain_says_of_frames(addresses, states):
    assert found(Chain(addresses), FRAMES, {BACK}) == states


def test_of_frames_that_look_the_same_the_innermost_is_missing():
    twice = (OWN, Frame.returning_to(OUTER), Frame.returning_to(OUTER))
    assert found(Chain((F, OUTER, OUTER)), twice) == (RIGHT, RIGHT, RIGHT)
    assert found(Chain((F, OUTER)), twice) == (RIGHT, MISSING, RIGHT)
    assert found(Chain((F, OUTER, OUTER, OUTER)), twice) == (RIGHT, DOUBLED, RIGHT)
    assert found(Chain((F, BACK, OUTER)), twice, {BACK}) == (RIGHT, WRONG, RIGHT)


# -- hooked returns


def test_a_hooked_return_is_found_by_its_frame_and_in_order():
    nodes = ((0x10, 1), (0x20, 2), (0x20, BACK), (0x20, 3))
    asked = hooked(nodes)
    assert asked(7, 0x10) == 7  # nothing to recover, and nothing used up
    assert [asked(BACK, 0x10), asked(BACK, 0x20), asked(BACK, 0x20), asked(BACK, 0x20)] == [1, 2, 3, None]
    assert hooked(nodes)(BACK, 0x20) == 2  # those of inner frames are passed over
    assert hooked(nodes)(BACK, 0x30) is None


def test_several_mechanisms_are_asked_in_order():
    """What the first gives may be the second's trampoline; what the second gives is not asked for again."""
    first, second = Hooked(((0x10, BACK), (0x20, 2)), HOOK), Hooked(((0x10, 1), (0x30, HOOK)), BACK)
    assert [Recovery([first, second])(a, f) for a, f in ((HOOK, 0x10), (HOOK, 0x20), (BACK, 0x30), (7, 0))] == [1, 2, HOOK, 7]
    assert Recovery([second, first])(HOOK, 0x10) == BACK, "the other way round nobody is asked for the second"


def test_a_mechanism_that_shows_what_it_does_not_know_goes_on_where_it_was():
    asked = Recovery([Hooked(((0x10, 1), (0x20, 2)), BACK, shown=True)])
    assert [asked(BACK, frame) for frame in (0x30, 0x20, 0x10)] == [BACK, 2, BACK]


def test_a_frame_known_by_the_callers_frame_pointer_is_found_by_its_place():
    asked = Recovery([Hooked(((0x10, 1),), BACK, by_pointer=True)], read={0x98: 0x10}.__getitem__)
    assert asked(BACK, 0xA0) == 1


def hooked(nodes: tuple[tuple[int, int], ...]) -> Recovery:
    """Of one mechanism, that BACK belongs to."""
    return Recovery([Hooked(nodes, BACK)])


@every_isa
def test_frame_records_are_followed_through_a_hooked_return(isa):
    """By where the return address lies on x86-64, by the caller's frame pointer elsewhere; without the node the chain ends."""
    i, record, pointer, above = get(isa), RECORDS[isa], 0x1040, 0x1090
    words = {pointer + record.previous: above, pointer + record.returns: BACK, above + record.returns: OUTER}
    frame = pointer + record.returns if isa == "x86_64" else above
    registers = {i.pc: F, i.sp: 0x1000, i.fp: pointer}

    def chain(recover=None):
        known = {"recover": recover} if recover else {}
        return unwind(i, registers, lambda a: words.get(a, 0) if 0x1000 <= a < 0x1100 else None, lambda _: True, **known)

    assert chain(hooked(((frame, CALLER),))) == Chain((F, CALLER, OUTER))
    assert chain(hooked(((frame + 8, CALLER),))) == Chain((F,), NO_NODE)
    assert chain() == Chain((F, BACK, OUTER))


def test_arm64_alone_asks_for_the_program_counter():
    for isa in ISAS:
        i = get(isa)
        registers = {i.pc: BACK, i.sp: 0x1000, i.fp: 0}
        first = unwind(i, registers, lambda _: 0, lambda _: True, recover=hooked(((0, CALLER),))).addresses
        assert first == ((CALLER,) if isa == "arm64" else (BACK,))
    registers = {"pc": BACK, "sp": 0x1000, "x29": 8}
    assert unwind(get("arm64"), registers, lambda _: 0, lambda _: True, recover=hooked(())) == Chain((BACK,), NO_NODE)


def test_what_a_kernel_has_to_look_up():
    """Every kernel has kretprobes; of the others each is there with a trampoline of its own."""
    there = {(isa, release): recovery.there(Kernel(isa, release).image) for isa in ISAS for release in ("v6.1", "v7.2")}
    hooks, own, graph = (recovery.HOOKS,), (recovery.INSTANCES,), (recovery.GRAPH,)
    assert [there[isa, "v6.1"] for isa in ISAS] == [hooks, own, own]
    assert [there[isa, "v7.2"] for isa in ISAS] == [graph + hooks, graph + own, graph + hooks]
    kernel = Kernel("x86_64", "v6.12")
    assert recovery.of(kernel)(5, 0) == 5 and recovery.of(kernel, graph) is None
    assert len(recovery.trampolines(Kernel("arm64"))) == 2


def test_what_an_exception_interrupted_is_no_return_address():
    chain = Chain((HOOK, HOOK + 8, F, OUTER))
    assert found(chain, FRAMES) == (MISSING, MISSING, RIGHT), "the byte before it is another function's"
    assert found(chain, FRAMES, exact={0, 2}) == (RIGHT, MISSING, RIGHT)


def test_each_stand_in_hides_a_frame():
    assert found(Chain((F, BACK, BACK)), FRAMES, {BACK}) == (RIGHT, WRONG, WRONG)
    assert found(Chain((F, BACK, HOOK)), FRAMES, {BACK, HOOK}) == (RIGHT, WRONG, WRONG)


# -- calls


def seen(kernel: Kernel, *requests, recovered: bool = True, sleeping: bool = False):
    """What traces say of a call with these attached: (symbol, states, error) in order."""
    function = kernel.function("calls_others" if sleeping else "two_args")
    with kernel.attached(function, *requests):
        run, moments = watch(kernel, kernel.function("calls_others"), function, (1, 2, 3), recovered)
    assert run.value == Kernel(kernel.isa.name).call("calls_others", 1, 2, 3).value
    return [(run.symbol_of(s.pc).partition("[")[0], s.states, s.error) for s in moments if s.asleep or not sleeping]


def states(moments, symbol: str) -> set[tuple[str, ...]]:
    return {said for name, said, _ in moments if name == symbol}


@every_isa
def test_a_call_that_nobody_hooks_doubles_nothing(isa):
    for _, said, error in seen(Kernel(isa)):
        assert said[0] == RIGHT and not error and set(said) <= {RIGHT, MISSING}
    assert {said for _, said, _ in seen(Kernel(isa), sleeping=True)} in ({(RIGHT,) * 2}, {(RIGHT,) * 3})


def _dropping(module, line: str):
    """A trampoline's beginning without the first instruction that is written so."""

    def enter(plan, f):
        left = [line]
        for item in whole(plan, f):
            lines = item.source.split("\n") if isinstance(item, Text) else []
            if left and left[0] in lines:
                lines.remove(left.pop())
                yield Text("\n".join(lines))
            else:
                yield item
        assert not left

    whole = module.enter
    return enter


@pytest.mark.parametrize("module, isa, line", [(arm64, "arm64", "mov x29, sp"), (riscv64, "riscv64", "addi s0, sp, 16")])
def test_a_bpf_trampoline_without_one_of_its_records_loses_the_caller(module, isa, line, monkeypatch):
    """All else works as before, so that nothing but a trace tells."""
    whole = states(seen(Kernel(isa), Bpf(fentry=1)), "lab_bpf_count")
    assert {said[:2] for said in whole} == {(RIGHT, RIGHT)}
    monkeypatch.setattr(module, "enter", _dropping(module, line))
    short = states(seen(Kernel(isa), Bpf(fentry=1)), "lab_bpf_count")
    assert {said[:2] for said in short} == {(RIGHT, MISSING)}


def test_a_trampoline_that_calls_the_function_has_it_twice():
    kernel = Kernel("arm64")
    moments = seen(kernel, Bpf(fexit=1))
    last = max(n for n, (symbol, _, _) in enumerate(moments) if symbol == "two_args")
    assert moments[last][1][0] == DOUBLED and {said[0] for _, said, _ in moments[last + 1 :]} == {RETURNED}
    assert {said for _, said, _ in seen(kernel, Bpf(fexit=1), sleeping=True)} == {(DOUBLED, RIGHT, RIGHT)}


PROBE = Fprobe(entry=False, exit=True)


@pytest.mark.parametrize("isa, release, overrides", [("arm64", "v7.2", {"rethook": "shadow"}), ("riscv64", "v6.9", {})])
def test_a_hooked_return_hides_the_caller_unless_it_is_looked_up(isa, release, overrides):
    kernel = Kernel(isa, release, **overrides)
    assert {said[:2] for _, said, _ in seen(kernel, PROBE, sleeping=True)} == {(RIGHT, RIGHT)}
    assert {said[:2] for _, said, _ in seen(kernel, PROBE, recovered=False, sleeping=True)} == {(RIGHT, WRONG)}


def test_orc_needs_the_hint_that_the_return_trampoline_looks_like_a_call(monkeypatch):
    """With it the caller is found at each of its instructions; as if a call had led there, a false frame is."""
    kernel, symbol = Kernel("x86_64", "v6.12"), "arch_rethook_trampoline"
    assert states(seen(kernel, PROBE), symbol) == {(RETURNED, RIGHT, RIGHT)}
    assert {error for _, _, error in seen(kernel, Ops())} == {""}
    monkeypatch.setattr(orc, "TRAMPOLINES", {})
    orc._of_image.cache_clear()
    try:
        assert states(seen(kernel, PROBE), symbol) != {(RETURNED, RIGHT, RIGHT)}
    finally:
        orc._of_image.cache_clear()


def test_a_copied_trampoline_of_an_fprobe_is_looked_up_where_it_was_copied_from(monkeypatch):
    kernel = Kernel("x86_64", "v6.12")
    assert states(seen(kernel, Fprobe()), "ftrace_trampoline") == {(RIGHT, RIGHT, RIGHT)}
    monkeypatch.setattr(orc, "_COPIED", ())
    assert states(seen(kernel, Fprobe()), "ftrace_trampoline") != {(RIGHT, RIGHT, RIGHT)}


def test_what_is_not_called_cannot_be_watched():
    kernel = Kernel("arm64")
    with pytest.raises(TramplabError, match="calls_others did not call one_arg; choose"):
        watch(kernel, kernel.function("calls_others"), kernel.function("one_arg"), (1, 2, 3))


def test_how_kernels_are_unwound():
    assert [stacks.way(Kernel(isa)) for isa in ISAS] == [stacks.ORC, stacks.FP, stacks.FP]
    assert stacks.way(Kernel("x86_64", frame_pointer=True)) == stacks.FP
