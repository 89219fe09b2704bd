"""The ways out as rows: they agree with each other, and the verdicts follow from them."""

import pytest

from tramplab.ftrace import releases
from tramplab.isa import ISAS
from tramplab.sparsity.consumers.matrix import GARBAGE, RIGHT, WRONG
from tramplab.sparsity.ways.ways import COPY, FULL, STACK
from tramplab.sparsity.ways.ways_served import LACKING
from tramplab_book.studies.sparsity import conversions, kprobe_multi, ways, ways_drawn


@pytest.fixture(scope="module")
def out():
    return ways.rows()


@pytest.fixture(scope="module")
def shares():
    return kprobe_multi.rows()


@pytest.fixture(scope="module")
def copies():
    return conversions.rows()


def test_who_is_right_is_counted_from_the_letters(out):
    letters = ways.served()
    assert set(letters["outcome"]) == {RIGHT, WRONG, GARBAGE, LACKING}
    for (isa, way), part in letters.groupby(["isa", "way"]):
        row = out[(out["isa"] == isa) & (out["way"] == way)].iloc[0]
        said = dict(zip(part["consumer"], part["outcome"], strict=True))
        assert (row["right"], row["asked"]) == (sum(o == RIGHT for o in said.values()), len(said))
        assert row["serves"] == all(said[consumer] == RIGHT for consumer in ways.WANTED)
    assert set(letters["consumer"]) == set(ways.SHORT)


def test_charts_have_one_of_each_way_where_a_kernel_puts_it(out):
    some = ways_drawn.drawn(out, ways.SAVING)
    plain = tuple(way for way in ways_drawn.DRAWN if way != ways_drawn.INLINED)
    assert [tuple(part["way"]) for _, part in some.groupby("isa", sort=False)] == [plain, plain, ways_drawn.DRAWN]
    stack = some[(some["place"] == STACK) & (some["kind"] == COPY)]
    assert list(zip(stack["isa"], stack["way"], strict=True)) == [("x86_64", "perf")]
    assert not some.loc[(some["way"] == FULL), "hypothetical"].any()
    said = ways_drawn.priced(out, ways.SAVING).set_index(["isa", "way"])["said"]
    assert said["x86_64", FULL] == "(12/12)" and said["riscv64", "perf"] == "(0/11)"
    assert set(ways_drawn.compared(ways.served(), ways.SAVING)["isa"]) == set(ISAS)


def test_the_share_beside_a_bar_is_that_of_its_part(shares):
    for (_, _), part in kprobe_multi.drawn(shares).groupby(["isa", "probe"]):
        of = part.set_index("part")["instructions"]
        assert set(part["said"]) == {f"({round(100 * of['copying'] / of.sum())} %)"}


@pytest.mark.parametrize("isa", ISAS)
def test_the_last_release_that_saved_all_is_the_last(isa):
    every = [r for r in ("v6.1", "v6.4", "v6.9", "v6.10", "v6.12", "v7.2") if releases.features(ISAS[isa], r, {})["regs"]]
    assert every[-1] == ways.SAVING[isa]


def test_no_fill_is_dearer_in_fields_than_one_that_does_more(out):
    """`kernel` is `plain` and a mark; `most` clears all besides."""
    found = out[(out["kind"] == COPY) & ~out["way"].str.startswith("perf") & ~out["way"].str.endswith(ways_drawn.INLINED)]
    for _, part in found.groupby(["isa", "place"]):
        stores = part.set_index(part["way"].str.split(",").str[0])["stores"]
        assert stores["plain"] < stores["kernel"] < stores["most"]


def test_a_way_adds_to_a_link_what_its_row_says(out, shares):
    entry = shares[(shares["probe"] == kprobe_multi.ENTRY) & (shares["kind"] != FULL)]
    both = entry.merge(out, on=["isa", "way"], suffixes=("", "_out"))
    assert len(both) == len(entry) and (both["instructions"] == both["instructions_out"]).all()


def test_with_a_handler_at_the_return_it_is_made_twice(shares):
    wide = shares[shares["kind"] != FULL].pivot(index=["isa", "way"], columns="probe", values="instructions")
    off = wide[kprobe_multi.BOTH] - 2 * wide[kprobe_multi.ENTRY]
    assert off.abs().max() <= 8, "but for registers that a compiler keeps at one end"


def test_what_a_compiler_decides_is_told_both_ways(shares):
    """By a call the copy takes as many instructions more as memcpy() executes, or more, as the caller keeps registers for it."""
    frame = kprobe_multi.inlined()
    assert set(frame["isa"]) == {"riscv64"} and len(frame) == 4
    entry = shares[shares["probe"] == kprobe_multi.ENTRY].set_index(["isa", "way"])["instructions"]
    for r in frame.itertuples():
        assert r.call == entry[r.isa, r.way] and r.call - r.inline >= 5 * 16 - 16
    n = kprobe_multi.numbers(shares)
    assert n["riscv64-merged-inline-percent"] < 0.5 * n["riscv64-merged-percent"]


def test_a_fill_is_held_against_a_chain_that_the_same_compiler_made(copies, shares, out):
    n = conversions.numbers(copies)
    added = out.set_index(["isa", "way"])["instructions"]
    inline = kprobe_multi.inlined().set_index(["isa", "way"])["inline"]
    assert n["riscv64-fill-added"] == inline["riscv64", "kernel, stack"] < added["riscv64", "kernel, stack"]
    assert added["riscv64", "kernel, inlined"] == inline["riscv64", "kernel, per-CPU"]
    assert all(n[f"{isa}-chain-added"] == added[isa, "chain"] for isa in ISAS)


def test_a_chain_copies_as_many_bytes_as_its_parts(copies):
    whole = conversions.table(copies)
    for isa, part in whole.groupby("isa"):
        single = copies[(copies["isa"] == isa) & copies["chain"]]
        assert part[part["conversion"].str.startswith("up to")]["written"].item() == single["written"].sum()
