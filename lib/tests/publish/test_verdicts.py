"""Verdicts follow from rows: other rows, another verdict, and reasons that say what the rows say."""

import dataclasses
import importlib
import re

import pandas as pd
import pytest

from support.publish import worded
from support.publish.guarded import problem
from support.publish.some_claims import IDS, JUDGED
from tramplab_book.publish.claims import claims, verdict
from tramplab_book.studies.variants.switching import backing_out, switching


def tampered(sequence: str, ops: str | int, column: str, value: object, isa: str | None = None) -> pd.DataFrame:
    """The rows with one column changed wherever just these ops are attached, or in one step."""
    frame = switching.rows()
    there = frame["step" if isinstance(ops, int) else "ops"] == ops
    where = (frame["sequence"] == sequence) & there & ((frame["isa"] == isa) | (isa is None))
    assert where.any() and (frame.loc[where, column] != value).any()
    frame.loc[where, column] = value
    return frame


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("s2", ("registers", "a r", "saved", 8)),
        ("s2", ("registers", "a r", "saved", 9, "arm64")),
        ("s2", ("registers", "a r s", "stores", 99)),
        ("s2", ("registers", "a r", "ran", "r")),
        ("s2", ("registers", "a", "saved", 28, "arm64")),
        ("s5", ("plain", "a", "target", "ftrace_caller")),
        ("s5", ("plain", "a b", "calls", "lab_callback")),
        ("s5", ("plain", "a b", "target", "ftrace_trampoline[1]")),
        ("s5", ("plain", 3, "target", "ftrace_caller")),
        ("s5", ("plain", 3, "calls", "ftrace_ops_list_func")),
        ("s6", ("direct", "d a", "ran", "d")),
        ("s6", ("direct", "d a", "ran", "a d d")),
        ("s6", ("direct", "d a", "right", False, "riscv64")),
        ("s6", ("direct", "d (a)", "ran", "a d")),
        ("s6", ("direct", "d", "ran", "")),
    ],
)  # fmt: skip
def test_rows_that_say_otherwise_refute_the_finding(claim, change):
    assert not problem(claim, switching.rows()) and problem(claim, tampered(*change))


@pytest.mark.parametrize(
    ("claim", "change"),
    [("s5", ("plain", "a b", "calls", "lab_callback", "arm64")), ("s6", ("direct", "d a", "ran", "d a"))],
)
def test_what_a_finding_does_not_speak_of_is_free(claim, change):
    assert not problem(claim, tampered(*change))


@pytest.mark.parametrize("column", ["site", "literal", "text", "idle"])
def test_a_removal_that_leaves_something_behind_is_seen(column, monkeypatch):
    frame = backing_out.rows()
    some = frame.assign(**{column: frame["isa"] != "x86_64"})
    for changed in (frame.assign(literal=True), frame.assign(**{column: False}), some):
        monkeypatch.setattr(backing_out, "rows", lambda changed=changed: changed)
        assert problem("s4", switching.rows())


# -- every claim's own


@pytest.mark.parametrize("claim_id", IDS)
def test_the_run_says_what_is_expected(claim_id):
    assert not verdict.judged(claim_id).problem


@pytest.mark.parametrize("claim_id", JUDGED)
def test_a_verdict_gives_its_numbers(claim_id):
    v = verdict.judge(claim_id)
    assert v is verdict.judge(claim_id), "a claim is judged once"
    assert v.because.endswith(".")
    assert all(isinstance(value, (int, float, str)) for value in v.numbers.values())
    shown = {n for value in v.numbers.values() for n in re.findall(r"\d+", str(value))}
    assert not shown or shown & set(re.findall(r"\d+", v.because)), "what is decisive is in the sentence, and among the numbers"


#: Claims whose verdicts are of what no kernel has, and say so elsewhere than in the sentence.
OF_NO_KERNEL = ("d3", "d5", "d8", "r8")


@pytest.mark.parametrize("claim_id", JUDGED)
def test_what_no_kernel_has_is_hypothetical_in_the_scope(claim_id):
    """So that it cannot be cut from a citation."""
    v, scope = verdict.judge(claim_id), claims.get(claim_id).scope
    said = f"{v} {v.because} {' '.join(map(str, (*v.numbers, *v.numbers.values())))}"
    if claim_id in OF_NO_KERNEL or re.search(r"hypothetical|no kernel (has|rewrites)|\*", said, re.I):
        assert re.search(r"\bhypothetical\b", scope, re.I)


RESULTS = [claim_id for claim_id in IDS if claims.get(claim_id).result]


@pytest.mark.parametrize("claim_id", RESULTS)
def test_a_result_is_held_by_its_guards(claim_id):
    claim = claims.get(claim_id)
    study = importlib.import_module(claim.judge)
    known = study.numbers(study.rows())
    worded.noticed(claim.result, claim.holds, known)
    assert not worded.not_beside(claim.result, claim.holds) and not worded.unguarded(claim.result, claim.holds)


def test_a_result_whose_guard_is_not_so_is_no_verdict(monkeypatch):
    changed = {"v4": dataclasses.replace(claims.get("v4"), holds=("alive > 0",))}
    monkeypatch.setattr(claims, "read", lambda: changed)
    monkeypatch.setattr(verdict, "_VERDICTS", {})
    assert verdict.judge("v4").kind == verdict.REFUTED and "v4: alive > 0 is not so: 0 and 0" in verdict.judge("v4").because
