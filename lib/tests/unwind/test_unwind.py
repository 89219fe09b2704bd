"""Unwinders: chains written by hand, and each ISA's prologue read from its listing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.models import handmade
from tramplab import Kernel
from tramplab.base.errors import TramplabError
from tramplab.ftrace import releases
from tramplab.isa import ISAS, get
from tramplab.unwind.unwind import (
    APART,
    BOTH,
    CALLER,
    CROOKED,
    DOWN,
    FOUND,
    FUNCTION,
    NEITHER,
    NO_CODE,
    OUTSIDE,
    Chain,
    judge,
    live,
    unwind,
    watch,
)

every_isa = pytest.mark.parametrize("isa", ISAS)
#: ISAs whose lab kernel can be built with frame pointers.
BUILT = [isa for isa in ISAS if releases.intervals(isa, "frame_pointer")]

# chains written by hand

CODE, LOW, HIGH = range(0x10, 0x80), 0x1000, 0x1100
PC, A, B, C = 0x11, 0x22, 0x33, 0x44
#: Per ISA, where the two words of a record lie from its frame pointer: the caller's frame pointer, the return address.
PLACES = {"x86_64": (0, 8), "arm64": (0, 8), "riscv64": (-16, -8)}


def follow(
    isa: str, records: dict[int, tuple[int, int]], first: int, entry: bool = False, sp: int = LOW, **more
) -> Chain:
    """Unwind a stack that holds these records, by frame pointer, and nothing else."""
    previous, returns = PLACES[isa]
    words = {LOW: A}
    for pointer, (caller, back) in records.items():
        words |= {pointer + previous: caller, pointer + returns: back}
    i = get(isa)
    registers = {i.pc: PC, i.sp: sp, i.fp: first, **({i.link: B} if i.link else {}), **more}
    return unwind(i, registers, lambda a: words.get(a, 0) if LOW <= a < HIGH else None, CODE.__contains__, entry)


@every_isa
def test_records_are_followed_to_the_outermost(isa):
    chain = follow(isa, {0x1020: (0x1060, A), 0x1060: (0x1090, B), 0x1090: (0, C)}, 0x1020)
    assert chain == Chain((PC, A, B, C))
    assert follow(isa, {0x1020: (0x1060, A), 0x1060: (0, 0)}, 0x1020) == Chain((PC, A))
    assert follow(isa, {}, 0) == Chain((PC,))


@pytest.mark.parametrize("isa, where", [("x86_64", A), ("arm64", B), ("riscv64", B)])
def test_the_return_address_at_a_first_instruction(isa, where):
    """At the top of the stack, or in the link register; the records follow behind it."""
    assert follow(isa, {0x1040: (0, C)}, 0x1040, entry=True) == Chain((PC, where, C))


def test_a_stack_pointer_outside_the_stack():
    assert follow("x86_64", {0x1040: (0, C)}, 0x1040, entry=True, sp=HIGH) == Chain((PC,), OUTSIDE)


@every_isa
@pytest.mark.parametrize(
    "records, error",
    [
        ({0x1040: (0x2000, A)}, OUTSIDE),
        ({0x1040: (0x8, A)}, OUTSIDE),
        ({0x1040: (2**64 - 8, A)}, OUTSIDE),
        ({0x1040: (0x1040, A)}, DOWN),  # round
        ({0x1040: (0x1030, A), 0x1030: (0x1040, B)}, DOWN),
        ({0x1040: (0x1048, A)}, DOWN),  # a record inside the last one
        ({0x1040: (0x1064, A)}, CROOKED),
        ({0x1040: (0x1060, A), 0x1060: (0, 0x90)}, NO_CODE),
    ],
)
def test_a_chain_that_cannot_be_followed(isa, records, error):
    assert follow(isa, records, 0x1040) == Chain((PC, A), error)


@every_isa
def test_a_record_below_the_stack_pointer_is_none(isa):
    """It is what a function that has returned left there; the one at the stack pointer is in use."""
    at = 0x1040 - PLACES[isa][0]
    assert follow(isa, {at: (0, A)}, at, sp=0x1040) == Chain((PC, A))
    assert follow(isa, {at: (0, A)}, at, sp=0x1048) == Chain((PC,), DOWN)


WORDS = st.sampled_from([0, A, 0x90, *range(LOW, HIGH, 8), LOW + 4, HIGH, 2**64 - 8])


@given(st.sampled_from(list(ISAS)), st.lists(WORDS, min_size=32, max_size=32), WORDS, st.booleans())
def test_no_stack_leads_astray(isa, words, pointer, entry):
    """Whatever the stack holds: it ends, reads whole words of the stack only, and returns go to code."""
    i = get(isa)
    asked = []

    def read(address: int) -> int | None:
        asked.append(address)
        return words[(address - LOW) // 8] if LOW <= address < HIGH else None

    registers = {i.pc: PC, i.sp: LOW, i.fp: pointer, **({i.link: B} if i.link else {})}
    chain = unwind(i, registers, read, CODE.__contains__, entry)
    assert len(asked) <= 3 + len(words) and chain.error in ("", OUTSIDE, DOWN, CROOKED, NO_CODE)
    assert all(a in CODE for a in chain.addresses[1 + entry :])


# what is true, and what a chain makes of it


@pytest.mark.parametrize(
    "isa, text, depths",
    [
        ("x86_64", "call f\n ret\n f: ret", [0, 1, 0]),
        ("arm64", "mov x9, x30\n bl f\n ret x9\n f: ret", [0, 0, 1, 0]),
        ("riscv64", "mv t0, ra\n jal f\n mv ra, t0\n ret\n f: ret", [0, 0, 1, 0, 0]),
        # a return to where no call came from is a jump
        ("x86_64", "lea rax, [rip + f]\n push rax\n ret\n f: ret", [0, 0, 0, 0]),
        # what a call left behind is gone when an outer function returns
        ("x86_64", "call f\n ret\n f: call g\n int3\n g: add rsp, 8\n ret", [0, 1, 2, 2, 0]),
    ],
)
def test_return_addresses_in_use(isa, text, depths):
    call = handmade.call(isa, text)
    truth = live(call)
    assert [len(t) - 2 for t in truth] == depths
    assert all(t[-2:] == (call.returns_to,) * 2 for t in truth)


NAMES = {1: "f+0x4", 2: "g+0x8", 3: "h+0x2", 4: "main+0x6"}


@pytest.mark.parametrize(
    "addresses, error, found, wrong",
    [
        ((1, 2, 4), "", BOTH, ""),
        ((3, 1, 2), "", BOTH, "f+0x4 is no caller"),  # truth: f is running, it has called nobody
        ((1, 4), "", FUNCTION, ""),
        ((3, 2, 4), "", CALLER, ""),
        ((3, 4), "", NEITHER, ""),
        ((1, 4, 2), "", APART, "g+0x8 is no caller"),
        ((1, 2, 2), "", BOTH, "g+0x8 is no caller"),
        ((1, 9), "", FUNCTION, "0x9 is no caller"),
        ((1,), OUTSIDE, FUNCTION, OUTSIDE),
    ],
)
def test_verdicts(addresses, error, found, wrong):
    verdict = judge(Chain(addresses, error), (2, 4), "f", "g", NAMES.get)
    assert (verdict.found, verdict.wrong) == (found, wrong)
    assert found in FOUND


# a call without a hook, read from its listing: at which offsets of two_args its caller is found

PROLOGUES = {
    # endbr64; nop; push rbp; mov rbp, rsp: then the record; until pop rbp, before ret
    "x86_64": ([0, 4, 9, 0xA], [0xD, 0x11, 0x15, 0x18], [0x19]),
    # a leaf function makes no record
    "arm64": ([0, 4, 8, 0xC, 0x10, 0x14], [], []),
    # auipc; nop; addi sp; sd ra; sd s0; addi s0: then the record; until ld s0, before addi sp and ret
    "riscv64": ([0, 4, 8, 0xA, 0xC, 0xE], [0x10, 0x14, 0x16, 0x1A, 0x1C, 0x1E, 0x20], [0x22, 0x24]),
}


@pytest.mark.parametrize("isa", BUILT)
def test_a_function_has_its_caller_only_between_prologue_and_epilogue(isa):
    kernel = Kernel(isa, "v7.2", frame_pointer=True)
    caller, function = kernel.function("calls_others"), kernel.function("two_args")
    run, boundaries = watch(kernel, caller, function, 1, 2, 3)
    before, inside, after = PROLOGUES[isa]
    assert [b.pc - function.address for b in boundaries] == before + inside + after
    for b in boundaries:
        plain, entry = (judge(c, b.truth, function.name, caller.name, run.name_of) for c in (b.plain, b.at_entry))
        at = b.pc - function.address
        assert (plain.found, plain.wrong) == (BOTH if at in inside else FUNCTION, "")
        assert (entry.found, entry.wrong) == (BOTH if at in inside or not at else FUNCTION, "")


def test_what_is_not_called_cannot_be_watched():
    kernel = Kernel("arm64")
    with pytest.raises(TramplabError, match="calls_others did not call one_arg; choose"):
        watch(kernel, kernel.function("calls_others"), kernel.function("one_arg"), 1, 2, 3)
