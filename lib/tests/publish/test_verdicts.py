"""Verdicts follow from rows: other rows, another verdict, and reasons that say what the rows say."""

import dataclasses
import importlib
import re

import pandas as pd
import pytest

from support.publish import worded
from support.publish.some_claims import IDS, JUDGED
from tramplab.publish.claims import claims, verdict
from tramplab.publish.findings import findings
from tramplab.studies.variants.switching import backing_out, switching


def tampered(sequence: str, ops: str | int, column: str, value: object, isa: str | None = None) -> pd.DataFrame:
    """The rows with one column changed wherever just these ops are attached, or in one step."""
    frame = switching.rows()
    there = frame["step" if isinstance(ops, int) else "ops"] == ops
    where = (frame["sequence"] == sequence) & there & ((frame["isa"] == isa) | (isa is None))
    assert where.any() and (frame.loc[where, column] != value).any()
    frame.loc[where, column] = value
    return frame


@pytest.mark.parametrize(
    ("judge", "change", "expected"),
    [
        (switching.all_get_registers, ("registers", "a r", "saved", 8), "does not hold"),
        (switching.all_get_registers, ("registers", "a r", "saved", 9, "arm64"), "depends on the ISA"),
        (switching.all_get_registers, ("registers", "a r s", "stores", 99), "does not hold"),
        (switching.all_get_registers, ("registers", "a r", "ran", "r"), "does not hold"),
        (switching.all_get_registers, ("registers", "a", "saved", 28, "arm64"), "depends on the ISA"),
        (switching.list_replaces_own_trampoline, ("plain", "a", "target", "ftrace_caller"), "does not hold"),
        (switching.list_replaces_own_trampoline, ("plain", "a b", "calls", "lab_callback"), "does not hold"),
        (switching.list_replaces_own_trampoline, ("plain", "a b", "target", "ftrace_trampoline[1]"), "does not hold"),
        (switching.list_replaces_own_trampoline, ("plain", "a b", "calls", "lab_callback", "arm64"), "holds"),
        (switching.list_replaces_own_trampoline, ("plain", 3, "target", "ftrace_caller"), "does not hold"),
        (switching.list_replaces_own_trampoline, ("plain", 3, "calls", "ftrace_ops_list_func"), "does not hold"),
        (switching.direct_call_shares, ("direct", "d a", "ran", "d"), "does not hold"),
        (switching.direct_call_shares, ("direct", "d a", "ran", "d a"), "holds"),
        (switching.direct_call_shares, ("direct", "d a", "ran", "a d d"), "does not hold"),
        (switching.direct_call_shares, ("direct", "d a", "right", False, "riscv64"), "depends on the ISA"),
        (switching.direct_call_shares, ("direct", "d (a)", "ran", "a d"), "does not hold"),
        (switching.direct_call_shares, ("direct", "d", "ran", ""), "does not hold"),
    ],
)  # fmt: skip
def test_other_rows_give_another_verdict(judge, change, expected):
    assert str(judge(tampered(*change))) == expected


@pytest.mark.parametrize("column", ["site", "literal", "text", "idle"])
def test_a_removal_that_leaves_something_behind_is_seen(column):
    frame = backing_out.rows()
    assert str(backing_out.backs_out_exactly(frame)) == "true then: not with CALL_OPS (arm64 since v6.3 and riscv64 since v6.16)"
    early = frame.assign(literal=frame["release"] != frame["release"].iloc[0])
    assert str(backing_out.backs_out_exactly(early)) == "depends on the release"
    exact = frame.assign(literal=True)
    assert str(backing_out.backs_out_exactly(exact)) == "holds"
    spoilt = exact.assign(**{column: exact["isa"] != "x86_64"})
    assert str(backing_out.backs_out_exactly(spoilt)) == "depends on the ISA"
    assert str(backing_out.backs_out_exactly(exact.assign(**{column: False}))) == "does not hold"


def test_the_reasons_are_those_of_the_rows():
    """A sentence with a number from a tampered row has that number."""
    assert "from 8 to 77 on x86-64" in switching.all_get_registers(tampered("registers", "a r", "saved", 77)).because
    changed = tampered("plain", "a b", "target", "ftrace_regs_caller", "x86_64")
    assert "to ftrace_regs_caller and ftrace_ops_list_func with two" in switching.list_replaces_own_trampoline(changed).because
    shared = switching.direct_call_shares(tampered("direct", "d (a)", "ran", "a d"))
    assert "both stay registered: ops then direct call everywhere." in shared.because
    assert "901 and 301 on x86-64" in switching.direct_call_shares(tampered("direct", "d", "total", 901)).because
    silent = backing_out.backs_out_exactly(None, switching.rows().assign(calls="lab_callback")).because
    assert " So " not in silent and "24 do not restore the ops pointer" in silent
    own = switching.list_replaces_own_trampoline(tampered("plain", "a", "target", "ftrace_trampoline[0]")).because
    assert "no trampoline for one ops" not in own


# -- every claim's own


@pytest.mark.parametrize("claim_id", IDS)
def test_the_run_says_what_is_expected(claim_id):
    assert not verdict.judged(claim_id).problem


@pytest.mark.parametrize("claim_id", JUDGED)
def test_a_verdict_gives_its_numbers(claim_id):
    v = verdict.judge(claim_id)
    assert v is verdict.judge(claim_id), "a claim is judged once"
    assert v.because.endswith(".") and (v.numbers or findings.of_claim(claim_id))
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
    known = {**(study.numbers(study.rows()) if hasattr(study, "numbers") else {}), **verdict.judge(claim_id).numbers}
    worded.noticed(claim.result, claim.holds, known)
    assert not worded.not_beside(claim.result, claim.holds) and not worded.unguarded(claim.result, claim.holds)


def test_a_result_whose_guard_is_not_so_is_no_verdict(monkeypatch):
    changed = {"v4": dataclasses.replace(claims.get("v4"), holds=("alive > 0",))}
    monkeypatch.setattr(claims, "read", lambda: changed)
    monkeypatch.setattr(verdict, "_VERDICTS", {})
    monkeypatch.setattr(verdict, "_JUDGES", {})
    assert verdict.judge("v4").kind == verdict.REFUTED and "v4: alive > 0 is not so: 0 and 0" in verdict.judge("v4").because
