"""The study of what unwinders find at each boundary of a hooked call: where trampolines hide a function, and sums of parts."""

from __future__ import annotations

import functools

import pytest

from support.publish.guarded import problem
from tramplab import Kernel, Ops
from tramplab.base.width import INDENTED_WIDTH
from tramplab.ftrace import releases
from tramplab.unwind.unwind import APART, BOTH, CALLER, CROOKED, FUNCTION, NEITHER, NO_CODE, OUTSIDE
from tramplab_book.publish.phrases import MARK, marked
from tramplab_book.publish.table import text_table
from tramplab_book.studies.variants.unwinding import unwinding, unwound


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
