"""Judging a claim by running: the judges that studies declare, what they say, and whether that was expected."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tramplab.base.errors import TramplabError, unknown

from ..findings import findings, guard
from ..findings.findings import Finding
from ..phrases import listed
from ..table import require_columns
from . import claims
from .claims import BESIDES, DEPENDS, FAILS, HOLDS, KINDS, THEN, UNDECIDABLE, Claim

if TYPE_CHECKING:
    import pandas as pd

#: In place of a verdict, where a guard of the finding that states it is not so.
REFUTED = "not as written"
Judge = Callable[[], "Verdict"]
#: claim id -> judge; a module's judges are here once it is imported, which a claim sees to that names it.
_JUDGES: dict[str, Judge] = {}
#: claim id -> what tells what real kernels show of it.
_IN_KERNELS: dict[str, Callable[[], Seen]] = {}
#: claim id -> verdict, once it was asked for.
_VERDICTS: dict[str, Verdict] = {}


@dataclass(frozen=True)
class Verdict:
    """What a run says of a claim.

    kind: one of claims.KINDS. because: one or two sentences with the decisive numbers, made from the rows. numbers: the
    same numbers by name. reason: of a verdict that is a finding, the sentence that says why; the other is on the page already where
    that says it in short. on: what the verdict depends on, what changed since, or why no run can decide. result: what a
    citation has, "" where the start of `because` is short enough for one.
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


def judges(claim_id: str) -> Callable[[Judge], Judge]:
    """Declare that a function of no arguments judges a claim; raises TramplabError if another one does already.

    The verdict's kind must follow from rows, as `across` finds it, so that a changed trampoline can change it.
    """

    def declare(function: Judge) -> Judge:
        if claim_id in _JUDGES:
            raise TramplabError(f"two functions judge {claim_id}: {_JUDGES[claim_id].__name__}, {function.__name__}.")
        _JUDGES[claim_id] = function
        return function

    return declare


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


def judge_of(claim_id: str) -> Judge | None:
    """The function that judges a claim, if there is one; the module that has it is imported when it is first asked for. Of a claim
    whose verdict is a finding it holds the finding's guards against the numbers of that module, a study.

    Raises TramplabError where the module that the claim names is not there, or does not judge it.
    """
    claim = claims.get(claim_id)
    if (finding := findings.of_claim(claim_id)) and claim_id not in _JUDGES:
        study = _import(claim_id, "judge", claim.judge)
        by_finding = functools.partial(_by_finding, claim, finding, study)
        by_finding.__wrapped__ = study.numbers  # type: ignore[attr-defined]  # what a page links to as the experiment
        _JUDGES[claim_id] = by_finding
    if claim.judge and claim_id not in _JUDGES:
        _import(claim_id, "judge", claim.judge)
        if claim_id not in _JUDGES:
            raise TramplabError(f'{claims.FILE}: {claim_id}: {claim.judge} has no function with @judges("{claim_id}").')
    return _JUDGES.get(claim_id)


def _by_finding(claim: Claim, finding: Finding, study: Any) -> Verdict:
    """The verdict on file, if all guards of its finding are so."""
    numbers = study.numbers(study.rows())
    stated = findings.stated(finding, numbers)
    if stated.problem:
        return Verdict(REFUTED, f"{finding.id}: {stated.problem}.")
    shown = {name: numbers[name] for name in finding.named}
    return Verdict(claim.expect, f"{stated.says} {stated.because}", shown, claim.on, stated.because)


def _import(claim_id: str, key: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        if not f"{module}.".startswith(f"{e.name}."):  # what it imports is missing, not it
            raise
        raise TramplabError(f"{claims.FILE}: {claim_id}: there is no module {module}, which {key}: names.") from None


def judge(claim_id: str) -> Verdict | None:
    """The verdict on a claim; None while nothing judges it. The run is made once per process.

    A claim that no run can decide needs no judge. Raises TramplabError for an unknown claim, with near matches.
    """
    claim, function = claims.get(claim_id), judge_of(claim_id)
    if function is None:
        return Verdict(UNDECIDABLE, "", on=claim.on) if claim.expect == UNDECIDABLE else None
    if claim_id not in _VERDICTS:
        _VERDICTS[claim_id] = _with_result(claim, function())
    return _VERDICTS[claim_id]


def _with_result(claim: Claim, found: Verdict) -> Verdict:
    """The same with the claim's result; refuted where a guard of that is not so."""
    if not claim.result:
        return found
    study = _import(claim.id, "judge", claim.judge)
    known = {**(study.numbers(study.rows()) if hasattr(study, "numbers") else {}), **found.numbers}
    if failed := guard.failures(claim.holds, known):
        return Verdict(REFUTED, f"{claim.id}: {'; '.join(failed)}.")
    return replace(found, result=findings.filled(claim.result, f"number of {claim.id}", known))


def judged(claim_id: str) -> Judged:
    """A claim with its verdict."""
    return Judged(claims.get(claim_id), judge(claim_id), seen_of(claim_id))


def all_judged() -> list[Judged]:
    """Every claim in order, each with its verdict."""
    return [judged(claim_id) for claim_id in claims.read()]


def problems() -> list[str]:
    """Where runs and data/claims.yml do not agree, judges of claims that do not exist included."""
    strays = [
        f"{f.__name__}() judges {name}, which is no claim." for name, f in _JUDGES.items() if name not in claims.read()
    ]
    return [j.problem for j in all_judged() if j.problem] + strays


#: What a verdict can depend on: column -> its name in a sentence.
BY_ISA = {"isa": "the ISA"}
BY_RELEASE = {**BY_ISA, "release": "the release"}


def across(rows: pd.DataFrame, by: dict[str, str], truth: str = "truth") -> tuple[str, str]:
    """Kind and `on` of a verdict from rows with a column that says whether the claim is true there.

    by: column -> its name in a sentence. Rows that are alike in all of these are one case, in which the claim is true if it is
    in every row. The first column whose value alone decides is what the verdict depends on.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"isa": ["x86_64", "x86_64", "arm64"], "release": ["v1", "v2", "v2"]})
    >>> across(rows.assign(truth=[True, True, False]), {"isa": "the ISA", "release": "the release"})
    ('depends', 'the ISA')
    >>> across(rows.assign(truth=[True, False, False]), {"isa": "the ISA", "release": "the release"})
    ('depends', 'the release')
    >>> across(rows.assign(truth=[False, True, False]), {"isa": "the ISA", "release": "the release"})
    ('depends', 'the ISA and the release')
    >>> across(rows.assign(truth=[True, True, False], release="v2"), {"isa": "the ISA", "release": "the release"})
    ('depends', 'the ISA')
    """
    require_columns(rows, [*by, truth])
    if not len(rows):
        raise TramplabError("there is no case to judge: the rows are empty.")
    cases = rows.groupby(list(by), as_index=False, sort=False)[truth].all()
    if cases[truth].nunique() == 1:
        return (HOLDS if cases[truth].all() else FAILS), ""
    alone = [name for column, name in by.items() if (cases.groupby(column)[truth].nunique() == 1).all()]
    return DEPENDS, alone[0] if alone else listed(by.values())
