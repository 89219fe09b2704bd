"""Judging a claim by running: the finding that is its verdict, held against numbers, and whether that was expected."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tramplab.base.errors import TramplabError, unknown

from ..findings import findings, guard
from ..findings.finding import Finding, filled
from ..phrases import listed
from . import claims
from .claims import BESIDES, DEPENDS, KINDS, THEN, UNDECIDABLE, Claim

#: In place of a verdict, where a guard of the finding that states it is not so.
REFUTED = "not as written"
#: claim id -> what tells what real kernels show of it.
_IN_KERNELS: dict[str, Callable[[], Seen]] = {}
#: claim id -> verdict, once it was asked for.
_VERDICTS: dict[str, Verdict] = {}


@dataclass(frozen=True)
class Verdict:
    """What a run says of a claim.

    kind: one of claims.KINDS. because: what its finding says, with the decisive numbers, and why. numbers: the same numbers by
    name. reason: only why; the rest is on the page already where that says it in short. on: what the verdict depends on, what
    changed since, or why no run can decide. result: what a citation has, "" where the start of `because` is short enough for one.
    """

    kind: str
    because: str
    numbers: Mapping[str, int | float | str] = field(default_factory=dict)
    on: str = ""
    reason: str = ""
    result: str = ""

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, REFUTED):
            raise unknown("verdict", self.kind, KINDS)
        if (self.kind in BESIDES) != bool(self.on):
            raise TramplabError(f"on= belongs to the verdicts {listed(map(repr, BESIDES))}, and to no other.")

    def __str__(self) -> str:
        return in_words(self.kind, self.on)


def in_words(kind: str, on: str) -> str:
    """A verdict in a few words.

    >>> in_words("depends", "the ISA"), in_words("holds", ""), in_words("true then", "not since v6.3")
    ('depends on the ISA', 'holds', 'true then: not since v6.3')
    """
    return {DEPENDS: f"{kind} on {on}", THEN: f"{kind}: {on}", UNDECIDABLE: f"{kind}: {on}"}.get(kind, kind)


@dataclass(frozen=True)
class Seen:
    """What real kernels show of a claim. said: a sentence with the decisive numbers. agrees: do they bear the verdict out?"""

    said: str
    agrees: bool


@dataclass(frozen=True)
class Judged:
    """A claim and what its run says; verdict is None while nothing judges it. seen: what real kernels show, where they can."""

    claim: Claim
    verdict: Verdict | None
    seen: Seen | None = None

    @property
    def problem(self) -> str:
        """One sentence if the run and data/claims.yml do not agree, otherwise empty."""
        claim, verdict = self.claim, self.verdict
        if verdict is None:
            return f"{claim.id} is expected to be {claim.expect!r}, but nothing judges it." if claim.expect else ""
        if not claim.expect:
            return f"the run says of {claim.id}: {verdict}; but {claims.FILE} has no expect: for it."
        if (verdict.kind, verdict.on) != (claim.expect, claim.on):
            return f"the run says of {claim.id}: {verdict}; expected was: {in_words(claim.expect, claim.on)}."
        if self.seen and not self.seen.agrees:
            return f"the run says of {claim.id}: {verdict}; real kernels do not bear that out."
        return ""


def in_kernels(claim_id: str) -> Callable[[Callable[[], Seen]], Callable[[], Seen]]:
    """Declare that a function tells what real kernels show of a claim; raises TramplabError if another one does already."""

    def declare(function: Callable[[], Seen]) -> Callable[[], Seen]:
        if claim_id in _IN_KERNELS:
            raise TramplabError(f"two functions tell what kernels show of {claim_id}: {function.__name__} is the second.")
        _IN_KERNELS[claim_id] = function
        return function

    return declare


def seen_of(claim_id: str) -> Seen | None:
    """What real kernels show of a claim; None where nothing tells. Raises TramplabError where the module that the claim names is
    not there, or tells nothing of it."""
    claim = claims.get(claim_id)
    if not claim.kernels:
        return None
    _import(claim_id, "kernels", claim.kernels)
    if claim_id not in _IN_KERNELS:
        raise TramplabError(f'{claims.FILE}: {claim_id}: {claim.kernels} has no function with @in_kernels("{claim_id}").')
    return _IN_KERNELS[claim_id]()


def study_of(claim_id: str) -> Any:
    """The study with the numbers of the finding that is a claim's verdict; None where none is. It is imported when it is first
    asked for.

    Raises TramplabError where the module that the claim names is not there.
    """
    return _import(claim_id, "judge", claims.get(claim_id).judge) if findings.of_claim(claim_id) else None


def _by_finding(claim: Claim, finding: Finding, numbers: Mapping[str, Any]) -> Verdict:
    """The verdict on file, if all guards of its finding, and of the claim's result, are so by the numbers of its study."""
    stated = findings.stated(finding, numbers)
    if stated.problem:
        return Verdict(REFUTED, f"{finding.id}: {stated.problem}.")
    if failed := guard.failures(claim.holds, numbers):
        return Verdict(REFUTED, f"{claim.id}: {'; '.join(failed)}.")
    shown = {name: numbers[name] for name in finding.named}
    result = filled(claim.result, f"number of {claim.id}", numbers)
    return Verdict(claim.expect, f"{stated.says} {stated.because}", shown, claim.on, stated.because, result)


def _import(claim_id: str, key: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        if not f"{module}.".startswith(f"{e.name}."):  # what it imports is missing, not it
            raise
        raise TramplabError(f"{claims.FILE}: {claim_id}: there is no module {module}, which {key}: names.") from None


def judge(claim_id: str) -> Verdict | None:
    """The verdict on a claim; None while nothing judges it. The run is made once per process.

    A claim that no run can decide needs no finding. Raises TramplabError for an unknown claim, with near matches.
    """
    claim, finding = claims.get(claim_id), findings.of_claim(claim_id)
    if finding is None:
        return Verdict(UNDECIDABLE, "", on=claim.on) if claim.expect == UNDECIDABLE else None
    if claim_id not in _VERDICTS:
        study = study_of(claim_id)
        _VERDICTS[claim_id] = _by_finding(claim, finding, study.numbers(study.rows()))
    return _VERDICTS[claim_id]


def judged(claim_id: str) -> Judged:
    """A claim with its verdict."""
    return Judged(claims.get(claim_id), judge(claim_id), seen_of(claim_id))


def all_judged() -> list[Judged]:
    """Every claim in order, each with its verdict."""
    return [judged(claim_id) for claim_id in claims.read()]


def problems() -> list[str]:
    """Where runs and data/claims.yml do not agree."""
    return [j.problem for j in all_judged() if j.problem]
