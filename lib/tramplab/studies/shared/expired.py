"""A claim that was true when it was made: kind and words of its verdict, from rows by release."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ...ftrace.releases import parse
from ...publish.claims.claims import THEN
from ...publish.claims.verdict import BY_RELEASE, across
from ...publish.phrases import isa_name, listed


def expired(cases: pd.DataFrame, ended: Mapping[str, str], by: str) -> tuple[str, str]:
    """Kind and `on` of a verdict from rows with isa, release and truth.

    ended: ISA -> the first release with what made the claim false there, which `by` names. Where every case before is true, and
    none since, the claim was true then; otherwise it is judged as any other.

    >>> rows = pd.DataFrame({"isa": ["arm64"] * 2 + ["x86_64"], "release": ["v6.1", "v6.4", "v6.4"], "truth": [True, False, True]})
    >>> expired(rows, {"arm64": "v6.3"}, "CALL_OPS")
    ('true then', 'not with CALL_OPS (arm64 since v6.3)')
    >>> expired(rows, {"arm64": "v6.12"}, "CALL_OPS")
    ('depends', 'the ISA and the release')
    >>> expired(rows.assign(truth=True), {"arm64": "v6.3"}, "CALL_OPS")
    ('holds', '')
    """
    before = [r.isa not in ended or parse(r.release) < parse(ended[r.isa]) for r in cases.itertuples()]
    if not all(before) and list(cases["truth"]) == before:
        gone = [f"{isa_name(isa)} since {release}" for isa, release in ended.items() if isa in set(cases["isa"])]
        return THEN, f"not with {by} ({listed(gone)})"
    return across(cases, BY_RELEASE)
