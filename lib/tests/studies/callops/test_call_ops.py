"""The front page of the third argument: known relations of its rows, and verdicts that other rows change."""

import math

import pytest

from support.publish.guarded import problem
from tramplab import Kernel, Ops
from tramplab.ftrace import releases
from tramplab_book.publish import published
from tramplab_book.publish.claims import verdict
from tramplab_book.publish.claims.claims import HOLDS, UNDECIDABLE
from tramplab_book.publish.figures.figure import find
from tramplab_book.publish.figures.show import show
from tramplab_book.studies.callops import direct_cases, dispatch, literals, on_x86, timed
from tramplab_book.studies.callops.dispatch import ELSEWHERE, HERE, WITH, WITHOUT
from tramplab_book.studies.callops.on_x86 import POINTER
from tramplab_book.studies.time import published_call_ops
from tramplab_book.studies.variants.switching import elsewhere

#: Studies with something in them that no kernel has, and their figures that show it.
HYPOTHETICAL = {
    dispatch: ("fig-dispatch",),
    literals: ("fig-literals", "fig-literals-code"),
    on_x86: ("fig-x86-calls", "fig-x86-plans"),
}


@pytest.mark.parametrize("figure", [(study, name) for study, names in HYPOTHETICAL.items() for name in names], ids=lambda f: f[1])
def test_what_no_kernel_has_is_marked(figure):
    study, name = figure
    shown = show(study, name, study.rows())
    assert " *" in shown.text
    assert "hypothetical: no kernel has it" in f"{find(study, name).limits} {shown.citation}"


# -- the grid


@pytest.fixture(scope="module")
def grid():
    return dispatch.rows()


def test_the_grid_has_the_cells_that_were_published(grid):
    """And no others: of each table, before and after."""
    cells = set(zip(grid["here"], grid["elsewhere"], strict=True))
    for one in published_call_ops.TABLES:
        ids = {name for name in published.read() if name.startswith(f"{one.ids}-before-") and "2ndrow" not in name}
        there = {tuple(int(part[1:]) for part in name.split("-")[-3:-1]) for name in ids}
        assert there <= cells, one.machine
    assert (0, 200) in cells and (200, 0) in cells


@pytest.mark.parametrize("isa", ["arm64", "riscv64"])
def test_without_it_each_ops_costs_its_test_wherever_it_is(grid, isa):
    """The same as is seen on another function in the newest release, and less than one whose callback is called."""
    here, there = dispatch.each(grid, isa, WITHOUT, HERE), dispatch.each(grid, isa, WITHOUT, ELSEWHERE)
    assert there == elsewhere.each(elsewhere.rows(), isa, elsewhere.WITHOUT) and 0 < there < here
    assert dispatch.cell(grid, isa, WITHOUT, 1, 200) == dispatch.cell(grid, isa, WITHOUT, 1, 0) + 200 * there


@pytest.mark.parametrize(
    ("built", "column", "value", "guard"),
    [
        (WITH, "instructions", 10_000, "riscv64-with-1-100-added == riscv64-with-1-0-added"),
        (WITHOUT, "instructions", 200, "30 * riscv64-without-1-0-added < riscv64-without-1-100-added"),
        (WITH, "own", True, "riscv64-with-own == 0"),
    ],
)
def test_r1_falls_where_ops_elsewhere_cost_or_a_walk_does_not_or_a_trampoline_is_made(grid, built, column, value, guard):
    assert not problem("r1", grid)
    other = grid.copy()
    there = (grid["built"] == built) & (grid["here"] == 1) & (grid["elsewhere"] == 100) & (grid["isa"] == "riscv64")
    other.loc[there, column] = value
    assert f"{guard} is not so" in problem("r1", other)


def test_only_what_the_guest_has_no_room_for_is_computed(grid):
    assert set(grid.loc[grid["computed"], "here"].where(grid["elsewhere"] == 0).dropna()) <= {200}
    assert (grid["computed"] == ((grid["here"] == 200) | (grid["elsewhere"] == 200))).all()
    assert not grid[grid["hypothetical"]].empty and set(grid[grid["hypothetical"]]["isa"]) == {"x86_64"}


# -- beside the published tables


@pytest.fixture(scope="module")
def times():
    return timed.rows()


def test_every_table_is_a_multiple_of_its_own_reference(times):
    for machine, part in times.groupby("machine"):
        first = part[(part["built"] == WITH) & (part["here"] == 1) & (part["elsewhere"] == 0)].iloc[0]
        assert first["published_ratio"] == first["instructions_ratio"] == 1, machine
        wanted = part["published"] / first["published"]
        assert all(math.isclose(a, b, abs_tol=0.005) for a, b in zip(wanted, part["published_ratio"], strict=True))


def test_the_mistaken_row_repeats_the_one_above_and_is_not_drawn(times):
    """Its total, as published, is larger than that of the row above."""
    odd = times[times["mistaken"]]
    assert [*zip(odd["machine"], odd["here"], odd["elsewhere"], strict=True)] == [("QEMU", 1, 2)]
    above = published.get("riscv-callops-qemu-before-r1-i1-overhead")
    assert odd["published"].iloc[0] == above.ns
    drawn = timed.dumbbells(times)
    assert not drawn[["mistaken", "odd"]].any(axis=None) and set(drawn["machine"]) == {"M1", "K1", "QEMU"}
    assert {(1, 1), (1, 10)} < set(zip(drawn["here"], drawn["elsewhere"], strict=True))


def test_steps_leave_out_what_is_wrong_in_a_table(times):
    """Between 1/1 and 1/10 of QEMU's table lie nine ops, not eight; the M1's first step starts at 1/1."""
    assert (1, 10) in timed.steps(times, "QEMU", WITHOUT, "elsewhere")
    assert min(timed.steps(times, "M1", WITHOUT, "elsewhere")) == (1, 2)
    k1 = timed.steps(times, "K1", WITHOUT, "elsewhere")
    assert k1[0, 1] == 172 - 123 and k1[100, 200] == pytest.approx((15791 - 5038) / 100)


# -- the VisionFive 2


def test_r12_is_left_open_and_tells_how_the_times_grow(times):
    found = verdict.judge("r12")
    assert found.kind == UNDECIDABLE and found.because.startswith("No run can tell") and "43 to 108 ns" in found.because
    even = times.copy()
    k1 = (even["machine"] == "K1") & (even["built"] == WITHOUT) & (even["here"] == 1)
    even.loc[k1, "published"] = 100 + 50 * even.loc[k1, "elsewhere"]
    assert not problem("k1-grows-unevenly", times) and "k1-elsewhere-step-high" in problem("k1-grows-unevenly", even)


# -- where the ops is


@pytest.fixture(scope="module")
def found():
    return literals.rows()


@pytest.mark.parametrize("build", literals.BUILDS, ids=lambda b: f"{b.isa}-{b.built}")
def test_the_ops_is_where_the_compiler_left_room(build):
    """Beside every function of the image, as its symbol table has them: eight bytes before, and of nobody while nobody traces."""
    kernel = Kernel(build.isa, releases.LATEST, **build.overrides)
    nobody = kernel.image.address("ftrace_nop_ops")
    for symbol in kernel.image.functions.values():
        assert symbol.address % 8 == 0 and kernel.machine.read_u64(symbol.address - 8) == nobody, symbol.name
    with kernel.attached(kernel.function("one_arg"), Ops()) as (ops,):
        assert kernel.machine.read_u64(kernel.image.functions["one_arg"].address - 8) == ops.address


def test_the_load_is_the_last_instruction_that_finds_it(found):
    for isa, part in literals.images(found).groupby("isa"):
        texts = part["code"].iloc[0].split("\n")
        assert "0x10(t0)" in texts[-1] if isa == "riscv64" else "[" in texts[-1]


def test_r2_falls_with_another_distance_and_with_another_load(found):
    assert verdict.judge("r2").kind == HOLDS
    moved, unread, called = found.copy(), found.copy(), found.copy()
    moved.loc[(moved["isa"] == "arm64") & (moved["built"] == "BTI"), "literal"] = -12
    assert "calls-right == calls-total" in problem("r2", moved) and "arm64-bti-before == 8" in problem("r2", moved)
    unread.loc[unread["function"] == "tail_call", "read"] = False
    assert problem("r2", unread) == "calls-right == calls-total is not so: 32 and 36"
    called.loc[(called["isa"] == "riscv64") & (called["function"] == "no_args"), "right"] = False
    assert problem("r2", called) == "calls-right == calls-total is not so: 34 and 36"
    only = found.copy()
    only.loc[only["hypothetical"], "literal"] = 0
    assert not problem("r2", only)  # what no kernel has judges nothing


# -- direct calls


def test_r10_falls_where_a_case_goes_another_way():
    frame = direct_cases.rows()
    assert verdict.judge("r10").kind == HOLDS
    assert set(frame["isa"]) == {"arm64", "riscv64"} and set(frame["case"]) == set(direct_cases.EXPECTED)
    stored = frame.copy()
    stored.loc[(stored["isa"] == "arm64") & (stored["case"] == direct_cases.FAR), "stores"] = 1
    assert "cases-described == cases-total" in problem("r10", stored)
    for column, value in (("right", False), ("reached", False), ("places", [("site", "ftrace_caller")] * len(frame))):
        assert "cases-described == cases-total" in problem("r10", frame.assign(**{column: value})), column


# -- x86-64


@pytest.fixture(scope="module")
def x86():
    return on_x86.rows()


def test_r11_is_left_open_and_tells_what_was_built(x86):
    found = verdict.judge("r11")
    assert found.kind == UNDECIDABLE and found.because.startswith("By counts") and "13 waits" in found.because
    assert "wrong-calls == 0 is not so: 10" in problem("r11", x86.assign(right=False))
    quicker = x86.copy()
    quicker.loc[(quicker["what"] == "one ops") & (quicker["built"] == POINTER), "instructions"] -= 2
    assert "copies-one-ops-added < pointer-one-ops-added" in problem("r11", quicker)
