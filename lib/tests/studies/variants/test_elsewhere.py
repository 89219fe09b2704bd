"""Ops on other functions: what each adds, and what is said of a pointer to the ops."""

import pytest

from tramplab.isa import ISAS
from tramplab_book.publish.claims.claims import DEPENDS, FAILS, HOLDS
from tramplab_book.studies.variants.switching import elsewhere


@pytest.fixture(scope="module")
def frame():
    return elsewhere.rows()


def test_an_own_trampoline_is_found_where_kernels_make_one(frame):
    found = {isa: set(part["own"]) for isa, part in frame[frame["line"] == elsewhere.ONE].groupby("isa", sort=False)}
    assert found == {"x86_64": {True}, "arm64": {False}, "riscv64": {False}}
    assert not frame["own"][frame["line"] != elsewhere.ONE].any(), "a trampoline of its own is for one ops"


def test_the_pointer_spares_the_walk_where_kernels_have_it(frame):
    verdict = elsewhere.pointer_instead_of_a_walk(frame)
    assert (verdict.kind, verdict.on) == (HOLDS, "") and "x86-64 has a trampoline made" in verdict.because
    assert {isa for isa in ISAS if elsewhere.isa_name(isa) in " ".join(verdict.numbers)} == {"arm64", "riscv64"}


@pytest.mark.parametrize(
    ("line", "others", "column", "value"),
    [
        (elsewhere.ONE, 4, "instructions", 10_000),  # something elsewhere is noticed with the pointer
        (elsewhere.WITHOUT, 4, "instructions", 0),  # the walk costs nothing
        (elsewhere.ONE, 0, "own", True),  # it takes a trampoline of its own
    ],
)
def test_a_pointer_that_does_not_spare_it_is_said_to_fail(frame, line, others, column, value):
    changed = frame.copy()
    here = (frame["line"] == line) & (frame["others"] == others) & frame["isa"].isin(("arm64", "riscv64"))
    changed.loc[here, column] = value
    assert elsewhere.pointer_instead_of_a_walk(changed).kind == FAILS
    changed.loc[here & (frame["isa"] == "arm64"), column] = frame[column]
    verdict = elsewhere.pointer_instead_of_a_walk(changed)
    assert (verdict.kind, verdict.on) == (DEPENDS, "the ISA")
