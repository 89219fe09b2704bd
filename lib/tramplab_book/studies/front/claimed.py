"""How what was claimed in the threads came out."""

from __future__ import annotations

from collections import Counter

from ...publish.claims import claims
from ...publish.phrases import listed

#: Verdict -> what so many claims do; "" is that of a claim which nothing judges.
WORDS = {
    claims.HOLDS: "hold",
    claims.FAILS: "do not hold",
    claims.DEPENDS: "hold on some conditions only",
    claims.THEN: "held then and do not any more",
    claims.UNDECIDABLE: "cannot be decided by a run",
    "": "are not judged yet",
}


def verdicts(chapter: str = "") -> str:
    """The claims by the verdicts on file, which the runs must reach, in a sentence: those of a chapter, or all where it has
    none. No judge runs for it."""
    known = claims.read().values()
    kinds = Counter(claim.expect for claim in [c for c in known if c.chapter == chapter] or known)
    each = [f"{kinds[kind]} {words}" for kind, words in WORDS.items() if kinds[kind]]
    return f"Of {kinds.total()} claims made in the threads {listed(each)}."
