"""A claim as a block for a mail: the claim, the mail it was said in, and what the run says of it."""

from __future__ import annotations

from collections.abc import Mapping

from tramplab.base.width import WIDTH

from ..cite import cite
from . import verdict
from .claims import Claim

NOT_JUDGED = "not yet judged"
CLAIM_LINES = 4, 5, 6  # of a citation, with the mail, if that many hold a sentence, or else; the rest is for the verdict


def citation(claim_id: str, full: bool = False, lines: int = cite.LINES) -> str:
    """The block for a review mail: the claim, its mail, what the run says of it, and always its scope; full: with all mails and
    numbers."""
    j = verdict.judged(claim_id)
    c, v = j.claim, j.verdict
    head, rerun = f"Claim {c.id}, in our words: {c.said}", f"tramplab claims {c.id}" if v else ""
    says = f"Verdict: {v}. {v.because}" if v else f"Verdict: {NOT_JUDGED}. To be judged by: {c.judged_by}"
    brief = f"Verdict: {v}. {v.result}" if v and v.result else says
    problem = f"Not as expected: {j.problem}" if j.problem else ""
    limits = c.scope or (cite.LIMITS if v else "")
    if full:
        thread = "\n".join([cite.wrapped(f"Thread: {c.source}"), *(f"<{m}>" for m in c.messages)])
        seen = cite.wrapped(j.seen.said) if j.seen else ""
        parts = [thread, cite.wrapped(says), seen, _aligned(v.numbers) if v else "", cite.wrapped(problem)]
        return cite.citation(c.id, head, "\n\n".join(p for p in parts if p), limits, rerun, full=True, terms=False)
    said = next(filter(None, (cite.fitted(cite.sentences(head), most, _mails(c)) for most in CLAIM_LINES)), [])
    return cite.citation(c.id, brief, "", f"{problem} {limits}".strip(), rerun, above=said, lines=lines, terms=False)


def _mails(c: Claim) -> str:
    """The mail that a citation names, whose it is, and whose the rest and the answer are; a mail of the thread where the claim's is
    not known."""
    thread = next((t for t in c.threads if t.mails), c.threads[0])
    where = f"{c.mail.author}, {c.mail.date}" if c.mail else f"Thread: {thread.title}, {thread.date}"
    others = (("and", c.also), ("answered by", c.answered))
    more = [f" ({how} {mail.author})" for how, mail in others if mail and mail.author not in c.scope]
    return ", ".join([where + "".join(more), *(f"<{m}>" for m in c.messages[:1])])


def _aligned(numbers: Mapping[str, int | float | str]) -> str:
    """Names and values in two columns, or a paragraph where those do not fit a mail."""
    left = max(map(len, numbers), default=0)
    lines = [f"  {name:<{left}}  {value}" for name, value in numbers.items()]
    if max(map(len, lines), default=0) <= WIDTH:
        return "\n".join(lines)
    return cite.wrapped("; ".join(f"{name}: {value}" for name, value in numbers.items()))
