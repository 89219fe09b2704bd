"""Claims as readers see them: a box in a chapter, the ledger of all of them, and both as text and JSON."""

from __future__ import annotations

import html
import json
import textwrap
from collections import Counter

from tramplab.base.errors import unknown
from tramplab.base.width import INDENTED_WIDTH, WIDTH

from ..cite import cite, permalinks
from ..figures.show import Shown
from ..findings import findings
from . import verdict
from .citation import NOT_JUDGED, citation
from .markup import SYMBOLS, box_html, entries_html, index_html
from .verdict import Judged

__all__ = ["NOT_JUDGED", "as_json", "as_text", "box", "citation", "ledger", "verdicts"]
_INDENT = " " * 4


def box(claim_id: str) -> Shown:
    """What a chapter shows where it discusses a claim; runs its study.

    Raises TramplabError for an unknown claim, with near matches.
    """
    j = verdict.judged(claim_id)
    finding = findings.of_claim(claim_id)
    brief = finding is not None and finding in findings.of_page(finding.page) and bool(j.verdict and j.verdict.reason)
    name = finding.id if finding and not brief else ""
    instead = j.verdict.reason if j.verdict and brief else ""
    return Shown(box_html(j, brief, name), _text(j, INDENTED_WIDTH, instead), citation(claim_id))


def verdicts() -> Shown:
    """The claims by their verdicts; as text, a row per claim, and in a page's text their number. Runs their studies."""
    everything = verdict.all_judged()
    head = f'<div class="tl-figure tl-ledger"><p class="tl-title">{_count(everything)}</p>'
    count = _fill(_count(everything), INDENTED_WIDTH, "", "") + "\n"
    rows = (f"{_fill(_head(j), INDENTED_WIDTH, _INDENT, '')}\n" for j in everything)
    shown = f"{head}\n{index_html(everything)}\n</div>"
    return Shown(shown, "\n".join([count, "".join(rows)]), cite.citation("claims", _count(everything)), count)


def ledger(chapter: str) -> Shown:
    """The claims of a chapter, each under its id; runs their studies. Raises TramplabError for an unknown chapter."""
    chapters = _chapters(verdict.all_judged())
    if chapter not in chapters:
        raise unknown("chapter", chapter, chapters)
    some = chapters[chapter]
    title, page = html.escape(some[0].claim.chapter_title), _page(chapter)
    there = f', discussed from <a href="{page}.html">{title}</a> on' if page else ", the chapter is not written yet"
    head = f'<div class="tl-figure tl-ledger"><p>{_count(some).removesuffix(".")}{there}.</p>'
    count = _fill(_count(some), INDENTED_WIDTH, "", "")
    text = "\n".join([count, "", *(_text(j, INDENTED_WIDTH) for j in some)])
    brief = "\n".join([count, "", *map(_brief, some)])
    return Shown(f"{head}\n{entries_html(some)}\n</div>", text, cite.citation(f"claims-{chapter}", _count(some)), brief)


def as_text(claim_id: str | None = None) -> str:
    """One claim, or the ledger, in lines of at most 72 columns."""
    if claim_id:
        return _text(verdict.judged(claim_id), WIDTH)
    everything = verdict.all_judged()
    parts = [_fill(_count(everything), WIDTH, "", "") + "\n"]
    for some in _chapters(everything).values():
        title = some[0].claim.chapter_title
        parts += [f"{title}\n{'-' * len(title)}\n", *(_text(j, WIDTH) for j in some)]
    return "\n".join(parts)


def as_json(claim_id: str | None = None) -> str:
    """One claim as a JSON object, or all of them as a list, a line each; verdict is null while nothing judges it."""
    if claim_id:
        return json.dumps(_record(verdict.judged(claim_id))) + "\n"
    lines = (json.dumps(_record(j)) for j in verdict.all_judged())
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _record(j: Judged) -> dict[str, object]:
    c, v = j.claim, j.verdict
    return {
        "id": c.id,
        "chapter": c.chapter,
        "said": c.said,
        "source": c.source,
        "messages": list(c.messages),
        "judged_by": c.judged_by,
        "expect": verdict.in_words(c.expect, c.on) or None,
        "verdict": {"kind": v.kind, "on": v.on, "because": v.because, "numbers": v.numbers} if v else None,
        "in_kernels": j.seen.said if j.seen else None,
        "problem": j.problem or None,
    }


def _count(everything: list[Judged]) -> str:
    """How far the judging has come.

    >>> _count([])
    '0 of 0 claims judged.'
    """
    kinds = Counter(j.verdict.kind for j in everything if j.verdict)
    each = ", ".join(f"{kind} {kinds[kind]}" for kind in SYMBOLS if kinds[kind])
    return f"{kinds.total()} of {len(everything)} claims judged" + (f" ({each})." if each else ".")


def _chapters(everything: list[Judged]) -> dict[str, list[Judged]]:
    """The claims by the page that discusses them, in order."""
    return {name: [j for j in everything if j.claim.chapter == name] for name in dict.fromkeys(j.claim.chapter for j in everything)}


def _page(chapter: str) -> str:
    """The page of a chapter without suffix; empty where it is not written yet."""
    link = permalinks.read().get(chapter)
    return link.page.rpartition("/")[2] if link else ""


# -- text


def _head(j: Judged) -> str:
    return f"{j.claim.id:<4}{j.verdict or NOT_JUDGED}"


def _brief(j: Judged) -> str:
    """What a page's text has: the claim, its mails, and what its verdict comes to, in a sentence."""
    c, v = j.claim, j.verdict
    named = [f"{mail.author} <{mail.id}>" for mail in (c.mail, c.also, c.asked, c.answered) if mail]
    result = (v.result or cite.sentences(v.because)[0]) if v else f"To be judged by: {c.judged_by}"
    parts = [c.said, *(named or [f"<{message}>" for message in c.messages]), result]
    problem = [f"Not as expected: {j.problem}"] if j.problem else []
    below = (_fill(text, INDENTED_WIDTH, _INDENT, _INDENT) for text in (*parts, *problem))
    return "\n".join([_fill(_head(j), INDENTED_WIDTH, _INDENT, ""), *below]) + "\n"


def _text(j: Judged, width: int, instead: str = "") -> str:
    """A claim with its verdict. instead: of all that the verdict says."""
    c, v = j.claim, j.verdict
    thread = f"Thread: {c.source}"
    mails = [" " * min(len(_INDENT), max(0, width - len(m) - 2)) + f"<{m}>" for m in c.messages]
    body = [instead or v.because] if v else [f"To be judged by: {c.judged_by}"]
    body += [j.seen.said] if j.seen else []
    body += [f"Not as expected: {j.problem}"] if j.problem else []
    above, below = ([_fill(text, width, _INDENT, _INDENT) for text in some if text] for some in ([c.said, thread], body))
    return "\n".join([_fill(_head(j), width, _INDENT, ""), *above, *mails, *below]) + "\n"


def _fill(text: str, width: int, indent: str, first: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
