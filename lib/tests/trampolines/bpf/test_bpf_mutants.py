"""Every instruction of a BPF trampoline that is not a call is there for a reason: dropped, something is noticed, or it is
listed here why nothing can be.

Functions with all argument registers and words on the stack, structs among them; one program of each kind. The checks are
those of bpf_abi.py.
"""

import contextlib

import pytest

from support.abi import abi, abi_calls, abi_places, bpf_abi
from support.mutants.spoiled import spoiling
from tramplab import TramplabError
from tramplab.isa import ISAS
from tramplab.trampolines.arguments import words
from tramplab.trampolines.bpf import trampolines
from tramplab.trampolines.bpf.code import Call, Text
from tramplab.trampolines.bpf.shape import items

FUNCTION = "eight_args"
#: Where words on the stack are struct halves, or words that their arguments do not fill.
FUNCTIONS = {
    "x86_64": ("struct_after_five", "int_seventh"),
    "arm64": ("uneven_ninth",),
    "riscv64": ("struct_after_seven",),
}
TIME = "the start time is for statistics of run time, which are off"
NOP = "a program begins with it"
RECORD = "only who unwinds the stack from inside a program reads it"
#: Instructions that no check can notice, and why: in every trampoline, and in one that calls the function.
HARMLESS = {
    "x86_64": ({"mov rbx, rax": TIME, "mov rsi, rbx": TIME}, {}),
    "arm64": (
        {"mov x20, x0": TIME, "mov x1, x20": TIME, "mov x29, sp": RECORD, "nop": NOP},  # the first of two of these
        {"mov x30, x9": "a caller does not expect its x30 back"},
    ),
    "riscv64": (
        {"mv s1, a0": TIME, "mv a1, s1": TIME, "addi s0, sp, 16": RECORD, "nop": NOP},
        dict.fromkeys(("sd a5, -24(s0)", "ld a5, -24(s0)"), "a caller does not expect its a5 back")
        | dict.fromkeys(("sd t0, 152(sp)", "sd s0, 144(sp)", "ld t0, 152(sp)", "ld s0, 144(sp)"), RECORD),
    ),
}
#: The same of riscv64's that goes on to the function: s0 of the function's frame is s0 of the caller's again.
LEAVES = {"riscv64": {"sd s0, 112(sp)": RECORD, "ld s0, 112(sp)": RECORD}}
#: In one that calls a function which does not look at the upper half of its word on the stack: there it is cleared all the same.
PASSED = {"int_seventh": {"mov dword ptr [rbp - 108], 0"}}
SEEDS = range(6)


def pieces(plan, own):
    """The trampoline's items with one instruction in each Text."""
    for item in items(plan, own):
        if isinstance(item, Text):
            yield from map(Text, item.source.splitlines())
        else:
            yield item


@contextlib.contextmanager
def without(number):
    """Make trampolines without their `number`th instruction of text; yields where what was dropped will be found."""
    dropped = []

    def mutant(plan, own):
        count = 0
        for item in pieces(plan, own):
            if isinstance(item, Text):
                count += 1
                if count - 1 == number:
                    dropped[:] = [item.source]
                    continue
            yield item

    patch = pytest.MonkeyPatch()
    patch.setattr(trampolines, "items", mutant)
    try:
        yield dropped
    finally:
        patch.undo()


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_done_to_flags_and_modes_is_noticed(isa, monkeypatch):
    """Around the call of a program."""
    unnoticed = []
    for what, before, behind in [*spoiling(isa), ("nothing", "", "")]:
        lab = abi.Lab(abi_places.Place(isa, "v7.2"))  # what the mutant left behind must not count again
        program = Call(lab.kernel.image.address("lab_bpf_observe_clobber"))

        def around(plan, own, before=before, behind=behind, program=program):
            for item in items(plan, own):
                texts = [Text(source) for source in (before, behind) if source and item == program]
                yield from (*texts[:1], item, *texts[1:])

        monkeypatch.setattr(trampolines, "items", around)
        request = bpf_abi.Bpf(fentry=1, observe=True, filter=(FUNCTION,))
        with lab.kernel.attached(None, request) as made, bpf_abi.BpfHooked(lab, "bpf-fentry", made).watched() as hooked:
            try:
                for seed in SEEDS:
                    hooked.check(seed, FUNCTION)
                unnoticed.append(what)
            except (AssertionError, TramplabError):
                pass
    assert unnoticed == ["nothing"]


def decided(lab, hooked, function, cookie) -> None:
    """Let the fmod_ret program forbid the function: its verdict is the result, and what fexit sees."""
    bpf_abi.verdicts(lab, {cookie: 77})
    try:
        lab.machine.write_u64(hooked._count, 0)
        words = abi_calls.WORDS[function]
        assert lab.kernel.call(function, *range(words), budget=abi.BUDGET).value == 77
        assert hooked.observations()[-1][2 + words] == 77
    finally:
        bpf_abi.verdicts(lab, {})


def complained(lab, function, kinds) -> bool:
    """Does a check notice something of a function's programs?"""
    fentry, fmod_ret, fexit = kinds
    request = bpf_abi.Bpf(fentry=fentry, fmod_ret=fmod_ret, fexit=fexit, observe=True, filter=(function,))
    with lab.kernel.attached(None, request) as registered:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(bpf_abi.HOOKS, "mutant", (kinds, False))
            hooked = bpf_abi.BpfHooked(lab, "mutant", registered)
        lab.machine.set_meter("count")
        try:
            for seed in SEEDS:
                hooked.check(seed, function)
            if fmod_ret:
                decided(lab, hooked, function, fentry + 1)
        except (AssertionError, TramplabError):
            return True
    return False


@pytest.mark.parametrize("kinds", [(1, 0, 0), (1, 1, 1)], ids=["fentry", "all"])
@pytest.mark.parametrize("isa, function", [(isa, name) for isa, names in FUNCTIONS.items() for name in names])
def test_every_instruction_is_needed(isa, function, kinds):
    lab = abi.Lab(abi_places.Place(isa, "v7.2"))
    unnoticed = []
    for number in range(1000):
        with without(number) as dropped:
            seen = complained(lab, function, kinds)
        if not dropped:
            break
        if not seen:
            unnoticed.append(dropped[0])
            continue
        lab = abi.Lab(abi_places.Place(isa, "v7.2"))  # what the mutant left behind must not count again
    assert number > 25
    always, calling = HARMLESS[isa]
    passed = PASSED.get(function, set()) if kinds[2] else set()
    assert set(unnoticed) == {*always, *passed, *(calling if kinds[2] else LEAVES.get(isa, ()))}


@pytest.mark.parametrize("kinds", [(1, 0, 0), (0, 0, 1)], ids=["fentry", "fexit"])
@pytest.mark.parametrize("mutant", ["none", "off by a slot", "halves swapped"])
@pytest.mark.parametrize("isa, function", [(isa, "struct_after_seven") for isa in ISAS] + [("x86_64", "struct_after_five")])
def test_a_word_from_a_wrong_place_is_noticed(isa, function, mutant, kinds, monkeypatch):
    """Stack words read one slot too high, and a struct whose two words change places."""
    first = 5 if function == "struct_after_five" else 7

    def places(*asked):
        found = list(words(*asked))
        if mutant == "off by a slot":
            return tuple(place + 1 if isinstance(place, int) else place for place in found)
        if mutant == "halves swapped":
            found[first : first + 2] = reversed(found[first : first + 2])
        return tuple(found)

    lab = abi.Lab(abi_places.Place(isa, "v7.2"))
    monkeypatch.setattr(trampolines, "words", places)
    assert complained(lab, function, kinds) == (mutant != "none")
