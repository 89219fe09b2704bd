"""Claims as readers see them: a box in a chapter, the ledger of all of them, and both as text and JSON."""

from __future__ import annotations

import html
import inspect
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...width import INDENTED_WIDTH, WIDTH
from ..cite import cite, permalinks
from ..figures.files import Files
from ..figures.show import Shown
from . import verdict
from .claims import DEPENDS, FAILS, HOLDS, NOT_TESTABLE, PAGE, Claim
from .verdict import Judged

NOT_JUDGED = "not yet judged"
#: Beside the words, so that verdicts can be told apart at a glance and without colour.
SYMBOLS = {HOLDS: "✓", FAILS: "✗", DEPENDS: "◐", NOT_TESTABLE: "–"}
UNJUDGED_SYMBOL = "○"
_LORE = "https://lore.kernel.org/r/"
_INDENT = " " * 4
CLAIM_LINES, MAIL_LINES = 3, 2  # of a citation, the rest is for the verdict


def box(claim_id: str) -> Shown:
    """What a chapter shows where it discusses a claim; runs its judge.

    Raises TramplabError for an unknown claim, with near matches.
    """
    j = verdict.judged(claim_id)
    return Shown(_box_html(j), _text(j, INDENTED_WIDTH), citation(claim_id))


def ledger() -> Shown:
    """All claims by chapter, with an anchor for each id; runs every judge."""
    everything = verdict.all_judged()
    text = _ledger_text(everything, INDENTED_WIDTH)
    return Shown(_ledger_html(everything), text, cite.citation("claims", _count(everything)))


def citation(claim_id: str, full: bool = False) -> str:
    """The block for a review mail: the claim, its mail, and what the run says of it; full: with all mails and numbers."""
    j = verdict.judged(claim_id)
    c, v = j.claim, j.verdict
    head, rerun = f"Claim {c.id}, in our words: {c.said}", f"tramplab claims {c.id}" if v else ""
    says = f"Verdict: {v}. {v.because}" if v else f"Verdict: {NOT_JUDGED}. To be judged by: {c.judged_by}"
    problem = f"Not as expected: {j.problem}" if j.problem else ""
    limits = (cite.ESTIMATES if re.search(r"\bcycles?\b", f"{v.because} {[*v.numbers]}") else cite.LIMITS) if v else ""
    if full:
        said = "\n".join([cite.wrapped(f"Thread: {c.source}"), *(f"<{m}>" for m in c.messages)])
        parts = [said, cite.wrapped(says), _aligned(v.numbers) if v else "", cite.wrapped(problem)]
        return cite.citation(c.id, head, "\n\n".join(p for p in parts if p), limits, rerun, full=True)
    above = [*cite.fitted(head, CLAIM_LINES), *cite.fitted(_mail(c), MAIL_LINES)]
    return cite.citation(c.id, f"{problem} {says}".strip(), "", limits, rerun, above=above, least=3 if problem else 2)


def _mail(c: Claim) -> str:
    """The mail that a citation names, and whose it is; a mail of the thread where the claim's is not known."""
    thread = next((t for t in c.threads if t.mails), c.threads[0])
    where = f"{c.mail.author}, {c.mail.date}" if c.mail else f"Thread: {thread.title}, {thread.date}"
    return ", ".join([where, *(f"<{m}>" for m in c.messages[:1])])


def as_text(claim_id: str | None = None) -> str:
    """One claim, or the ledger, in lines of at most 72 columns."""
    return _text(verdict.judged(claim_id), WIDTH) if claim_id else _ledger_text(verdict.all_judged(), WIDTH)


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


def _chapters(everything: list[Judged]) -> Iterable[tuple[str, list[Judged]]]:
    for chapter in dict.fromkeys(j.claim.chapter for j in everything):
        yield chapter, [j for j in everything if j.claim.chapter == chapter]


# -- text


def _text(j: Judged, width: int) -> str:
    c, v = j.claim, j.verdict
    head, thread = f"{c.id:<4}{v or NOT_JUDGED}", f"Thread: {c.source}"
    mails = [" " * min(len(_INDENT), max(0, width - len(m) - 2)) + f"<{m}>" for m in c.messages]
    body = [v.because] if v else [f"To be judged by: {c.judged_by}"]
    body += [f"Not as expected: {j.problem}"] if j.problem else []
    above, below = ([_fill(text, width, _INDENT, _INDENT) for text in some if text] for some in ([c.said, thread], body))
    return "\n".join([_fill(head, width, _INDENT, ""), *above, *mails, *below]) + "\n"


def _ledger_text(everything: list[Judged], width: int) -> str:
    parts = [_fill(_count(everything), width, "", "") + "\n"]
    for _, some in _chapters(everything):
        title = some[0].claim.chapter_title
        parts.append(f"{title}\n{'-' * len(title)}\n")
        parts += [_text(j, width) for j in some]
    return "\n".join(parts)


def _fill(text: str, width: int, indent: str, first: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _aligned(numbers: Mapping[str, int | float | str]) -> str:
    """Names and values in two columns, or a paragraph where those do not fit a mail."""
    left = max(map(len, numbers), default=0)
    lines = [f"  {name:<{left}}  {value}" for name, value in numbers.items()]
    if max(map(len, lines), default=0) <= WIDTH:
        return "\n".join(lines)
    return cite.wrapped("; ".join(f"{name}: {value}" for name, value in numbers.items()))


# -- HTML


def _box_html(j: Judged) -> str:
    name, page = j.claim.id, PAGE.rpartition("/")[2]
    links = [f'<a href="{page}.html">All claims</a>', *_experiment(name)]
    parts = [
        f'<div class="tl-figure tl-claim {_css(j)}">',
        f'<p class="tl-title">Claim <a href="{page}.html#{name}">{name}</a></p>',
        *_said_html(j),
        cite.box(citation(name), name),
        f'<p class="tl-links">{" · ".join(links)}</p></div>',
    ]
    return "\n".join(parts)


def _ledger_html(everything: list[Judged]) -> str:
    parts = [f'<div class="tl-figure tl-ledger"><p class="tl-title">{html.escape(_count(everything))}</p><ul>']
    for chapter, some in _chapters(everything):
        done = sum(j.verdict is not None for j in some)
        title = html.escape(some[0].claim.chapter_title)
        parts.append(f'<li><a href="#claims-{chapter}">{title}</a>: {done} of {len(some)}</li>')
    parts.append("</ul>")
    for chapter, some in _chapters(everything):
        title = html.escape(some[0].claim.chapter_title)
        page = permalinks.read().get(chapter)  # a chapter that is not written yet has no page
        link = f' <a class="tl-links" href="{page.page.rpartition("/")[2]}.html">read it</a>' if page else ""
        parts.append(f'<h2 id="claims-{chapter}">{title}{link}</h2>')
        parts += [_entry_html(j) for j in some]
    return "\n".join([*parts, "</div>"])


def _entry_html(j: Judged) -> str:
    c = j.claim
    end = [cite.box(citation(c.id), c.id), f'<p class="tl-links">{"".join(_experiment(c.id))}</p>'] if j.verdict else []
    head = f'<p class="tl-title">Claim <a href="#{c.id}">{c.id}</a></p>'
    return "\n".join([f'<div class="tl-claim {_css(j)}" id="{c.id}">', head, *_said_html(j), *end, "</div>"])


def _said_html(j: Judged) -> list[str]:
    """What was said, by whom, and the verdict, as paragraphs."""
    c, v = j.claim, j.verdict
    mails = (
        f'<a href="{_LORE}{html.escape(m)}/"><code class="literal">{html.escape(m)}</code></a>' for m in c.messages
    )
    where = ", ".join([html.escape(c.source), *mails])
    symbol = f'<span aria-hidden="true">{SYMBOLS[v.kind] if v else UNJUDGED_SYMBOL}</span>'
    words = str(v or NOT_JUDGED)
    reason = v.because if v else f"The experiment: {c.judged_by}"
    says = f"{symbol} <strong>{html.escape(words[0].upper() + words[1:])}.</strong> {html.escape(reason)}"
    parts = [
        f"<p>{html.escape(c.said)}</p>",
        f'<p class="tl-links">In our words. Thread: {where}</p>',
        f'<p class="tl-verdict">{says}</p>',
    ]
    if j.problem:
        parts.append(f'<p class="tl-problem"><strong>Not as expected:</strong> {html.escape(j.problem)}</p>')
    return parts


def _css(j: Judged) -> str:
    return f"tl-{j.verdict.kind.split()[0]}" if j.verdict else "tl-unjudged"


def _experiment(claim_id: str) -> list[str]:
    """A link to the code of the judge, if there is one."""
    function = verdict.judge_of(claim_id)
    if function is None:
        return []
    path, line = Path(inspect.getfile(function)), inspect.getsourcelines(function)[1]
    label = f"{'/'.join(path.parts[-3:])}, line {line}"  # with the folder of its chapter
    return ["Experiment: " + Files(path.stem).link(".py.txt", label, path.read_text("utf-8"), "text/plain")]
