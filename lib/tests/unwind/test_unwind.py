"""Unwinders: chains written by hand, each ISA's prologue read from its listing, and the study that counts them."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.models import handmade
from support.publish.guarded import problem
from tramplab import Kernel, Ops
from tramplab.base.errors import TramplabError
from tramplab.base.width import INDENTED_WIDTH
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
from tramplab_book.publish.phrases import MARK, marked
from tramplab_book.publish.table import text_table
from tramplab_book.studies.variants.unwinding import unwinding, unwound

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


# the study


@functools.cache
def rows():
    return unwinding.rows()


def part(isa: str, records: str, hook: str, unwinder: str = unwinding.PLAIN, release: str = "v7.2"):
    r = rows()
    wanted = {"isa": isa, "records": records, "hook": hook, "unwinder": unwinder, "release": release}
    return r[(r[list(wanted)] == list(wanted.values())).all(axis="columns")]


#: Read from guest/*/ftrace_caller*.S: until the first move of the frame pointer nothing is known of the traced function,
#: between the two only its caller's record is linked, and from the reload of the frame pointer on all is lost again.
LOST = {
    "x86_64": [
        ("ftrace_trampoline[0]", "ftrace_trampoline[0]+0x6", NEITHER),
        ("ftrace_trampoline[0]+0x9", "ftrace_trampoline[0]+0xe", CALLER),
        ("ftrace_trampoline[0]+0xc2", "ftrace_trampoline[0]+0xec", NEITHER),
    ],
    "arm64": [
        ("ftrace_caller", "ftrace_caller+0x48", NEITHER),
        ("ftrace_caller+0x4c", "ftrace_caller+0x50", CALLER),
        ("ftrace_caller+0x84", "ftrace_caller+0x98", NEITHER),
    ],
}


@pytest.mark.parametrize("isa", LOST)
def test_where_the_trampoline_hides_the_function(isa):
    own = part(isa, unwinding.ALL, "ops")
    hidden = own[(own["component"] == "trampoline") & (own["found"] != BOTH)]
    assert list(hidden[["first", "last", "found"]].itertuples(index=False, name=None)) == LOST[isa]
    assert set(own.loc[own["component"] == "callback", "found"]) == {BOTH}


@pytest.mark.parametrize("isa", LOST)
def test_without_its_moves_of_the_frame_pointer_the_trampoline_hides_it_throughout(isa):
    own = part(isa, unwinding.FUNCTIONS, "ops")
    assert set(own.loc[own["component"].isin(["trampoline", "callback"]), "found"]) == {NEITHER}
    assert own["boundaries"].sum() == part(isa, unwinding.ALL, "ops")["boundaries"].sum()


def test_riscv_has_no_fixup():
    assert not unwinding.fixup(Kernel("riscv64"))
    assert unwinding.ALL not in set(rows().loc[rows()["isa"] == "riscv64", "records"])


@pytest.mark.parametrize("isa, release, moves", [("x86_64", "v7.2", 6), ("arm64", "v7.2", 2), ("arm64", "v6.1", 2)])
def test_taking_the_fixup_out_changes_nothing_else(isa, release, moves):
    """Two moves in every trampoline; the call returns what it did, the callback runs, and the text is put back."""
    kernel = Kernel(isa, release, frame_pointer=True)
    function = kernel.function("two_args")
    with kernel.attached(function, Ops()):
        found = unwinding.fixup(kernel)
        text = [kernel.machine.read(i.address, i.size) for i in found]
        before = kernel.call(function, 4, 5)
        with unwinding.without_fixup(kernel):
            run = kernel.call(function, 4, 5)
            assert not unwinding.fixup(kernel)
        assert len(found) == moves and [kernel.machine.read(i.address, i.size) for i in found] == text
    assert (run.value, run.hits, len(run.steps)) == (before.value, (1,), len(before.steps))
    assert run.registers == before.registers


def test_with_records_an_unwinder_may_miss_but_never_lies():
    """Where code is compiled without, the frame pointer is a register like any other, and the core uses it."""
    r = rows()
    wrong = r[r["wrong"] != ""]
    assert set(wrong["records"]) == {unwinding.NOBODY} and set(wrong["wrong"]) == {OUTSIDE, CROOKED, NO_CODE}
    assert set(wrong["component"]) == {"core", "callback"}
    made = r["hook"].isin([hook for hook, _ in unwinding.NEWEST])  # generated trampolines always make a frame
    alone = (r["records"] == unwinding.NOBODY) & (r["unwinder"] == unwinding.PLAIN)
    assert set(r.loc[alone & ~made, "found"]) <= {FUNCTION, NEITHER} and BOTH in set(r.loc[alone & made, "found"])


def test_knowing_the_first_instruction_gains_that_instruction():
    assert unwinding.numbers(rows())["entry-gained"] == "1"


def test_by_orc_s_rules_nothing_is_lost_through_ftrace():
    """In no release, of x86-64's kernels without frame pointers, which alone have such rules."""
    r = rows()
    by_orc = r[r["unwinder"] == unwinding.BY_ORC]
    assert set(by_orc["isa"]) == {"x86_64"} and set(by_orc["records"]) == {unwinding.NOBODY}
    assert set(by_orc["release"]) == set(releases.shown()) and set(by_orc["wrong"]) == {""}
    ftrace = by_orc[~by_orc["hook"].isin([hook for hook, _ in unwinding.NEWEST])]
    assert set(ftrace["found"]) == {BOTH} and not ftrace["guessed"].any()
    said = unwinding.numbers(r)
    assert said["orc-found-boundaries"] == said["orc-all-boundaries"] == ftrace["boundaries"].sum()
    guessed = r[r["guessed"]]
    assert set(guessed["hook"]) == {hook for hook, _ in unwinding.NEWEST} and set(guessed["found"]) == {NEITHER}
    assert set(guessed["first"].str.partition("[")[0]) == {"bpf_trampoline"}


def test_how_a_kernel_is_unwound():
    """What no kernel is, frame pointers with the fix-up off, is marked wherever a trampoline has a fix-up."""
    r = rows()
    how = {
        (row.isa, row.records, row.unwinder): row.unwound
        for row in r[["isa", "records", "unwinder", "unwound"]].drop_duplicates().itertuples()
    }
    for isa in LOST:
        assert how[isa, unwinding.ALL, unwinding.PLAIN] == unwound.FP
        assert how[isa, unwinding.FUNCTIONS, unwinding.PLAIN] == unwound.OFF == marked("fix-up off")
    assert how["riscv64", unwinding.FUNCTIONS, unwinding.PLAIN] == unwound.FP
    assert how["riscv64", unwinding.NOBODY, unwinding.PLAIN] == how["x86_64", unwinding.NOBODY, unwinding.PLAIN] == unwound.WITHOUT
    shown = unwinding.newest(r)
    assert (shown["hypothetical"] == shown["unwound"].str.endswith(MARK)).all() and shown["hypothetical"].any()
    assert unwinding.FIGURES[0].hypothetical


def test_shares_add_up_to_the_call():
    """Every boundary is in one part, once, and what was found in each part is what was found in the call."""
    r = rows()
    shares = unwinding.newest(r)
    own = r[(r["release"] == "v7.2") & (r["unwinder"] != unwinding.ENTRY)]
    for (isa, hook, how), found in shares.groupby(["isa", "hook", "unwound"]):
        there = own[(own["isa"] == isa) & (own["hook"] == hook) & (own["unwound"] == how)]
        assert found["boundaries"].sum() == there["boundaries"].sum()
        assert found["both"].sum() == there.loc[there["found"].isin([BOTH, APART]), "boundaries"].sum()
        assert found["function"].sum() - found["both"].sum() == there.loc[there["found"] == FUNCTION, "boundaries"].sum()
        assert found["caller"].sum() - found["both"].sum() == there.loc[there["found"] == CALLER, "boundaries"].sum()
    assert ((shares["share"] == 100) == (shares["both"] == shares["boundaries"])).all()
    assert ((shares["share"] == 0) == (shares["both"] == 0)).all()


def test_a_function_that_the_trampoline_calls_is_found_behind_it():
    """What x86-64 shows of it while an fexit program waits: the function, the trampoline, the caller."""
    r = rows()
    own = r[(r["release"] == "v7.2") & (r["isa"] == "x86_64") & (r["hook"] == "bpf-fexit") & (r["component"] == "function")]
    assert set(own.loc[own["unwound"] == unwound.ORC, "found"]) == {APART}
    shares = unwound.shares(own)
    assert set(shares.loc[shares["unwound"].isin([unwound.FP, unwound.ORC]), "share"]) == {100}
    lie = own.assign(wrong="main is no caller")
    assert set(unwound.shares(lie).loc[lambda s: s["unwound"] == unwound.ORC, "share"]) == {0}


def test_tables_fit_and_agree():
    """All figures are of the same boundaries."""
    frame = rows()
    for figure in unwinding.FIGURES:
        shown = figure.rows(frame)
        assert text_table(figure.table(shown), INDENTED_WIDTH, split="isa")
        assert figure.chart is None or figure.chart(shown)
    shares, golden = unwinding.newest(frame), unwinding.golden(frame).set_index(["isa", "hook", "unwound"])["v7.2"]
    table = unwound.table(shares).set_index(["isa", "hook", "unwound"])
    kept = golden[golden != "-"].drop(unwound.WITHOUT, level="unwound")
    assert list(kept.index) == list(table.index) and list(kept) == list(table["call"])
    for isa in LOST:
        assert table.loc[(isa, "ops", unwound.OFF), "trampoline"].startswith("0/")
        good, of = map(int, table.loc[(isa, "ops", unwound.FP), "trampoline"].split("/"))
        where = unwinding.lost(frame)
        hidden = where[(where["isa"] == isa) & (where["unwound"] == unwound.FP) & where["first"].str.startswith("ftrace_")]
        assert 0 < good == of - hidden["boundaries"].sum()


def changed(**values):
    """The rows, with other values where ORC's rules unwind a call of ftrace's."""
    r = rows().copy()
    chosen = (r["unwinder"] == unwinding.BY_ORC) & r["hook"].isin(["ops", unwinding.DRAWN])
    for name, value in values.items():
        r.loc[chosen, name] = value
    return r


def test_numbers_follow_the_rows():
    """And the findings follow the numbers."""
    assert not problem("orc-sees-through-ftrace", rows()) and not problem("trampolines-hide", rows())
    lost = changed(found=NEITHER)
    hidden = (lost["unwinder"] == unwinding.BY_ORC) & lost["hook"].isin(["ops", unwinding.DRAWN])
    n, less = unwinding.numbers(rows()), unwinding.numbers(lost)
    assert n["orc-found-boundaries"] - less["orc-found-boundaries"] == lost.loc[hidden, "boundaries"].sum() > 0
    assert "orc-found-boundaries == orc-all-boundaries is not so" in problem("orc-sees-through-ftrace", lost)
