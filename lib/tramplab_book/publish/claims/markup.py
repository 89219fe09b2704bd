"""Claims as HTML: the box of a chapter, and the table and entries of the ledger."""

from __future__ import annotations

import html
from collections.abc import Iterable

from tramplab.base.entries import mail_address

from ..cite import cite
from ..figures.files import experiment
from . import verdict
from .citation import NOT_JUDGED, citation
from .claims import DEPENDS, FAILS, HOLDS, PAGE, THEN, UNDECIDABLE
from .verdict import Judged

#: Beside the words, so that verdicts can be told apart at a glance and without colour.
SYMBOLS = {HOLDS: "✓", FAILS: "✗", DEPENDS: "◐", THEN: "◷", UNDECIDABLE: "–"}
UNJUDGED_SYMBOL = "○"


def box_html(j: Judged, brief: bool, finding: str) -> str:
    """What a chapter shows of a claim; brief: only why, as the page says the rest in short. finding: the id of what it says, ""
    where another place has that id, or none does."""
    name, page = j.claim.id, PAGE.rpartition("/")[2]
    links = [f'<a href="{page}.html">All claims</a>', *_experiment(name)]
    place = f' id="{finding}"' if finding else ""
    parts = [
        f'<div class="tl-figure tl-claim {_css(j)}"{place}>',
        f'<p class="tl-title">Claim <a href="{page}.html#{name}">{name}</a></p>',
        *_said_html(j, brief, links),
        f"{cite.box(citation(name), name)}</div>",
    ]
    return "\n".join(parts)


def index_html(everything: list[Judged]) -> str:
    """A line per kind of verdict with the ids of its claims, each of which leads to its place below."""
    kinds: dict[str, list[Judged]] = {kind: [] for kind in (*SYMBOLS, NOT_JUDGED)}
    for j in everything:
        kinds[j.verdict.kind if j.verdict else NOT_JUDGED].append(j)
    lines = []
    for kind, some in kinds.items():
        links = ", ".join(f'<a href="#{j.claim.id}">{html.escape(j.claim.id)}</a>' for j in some)
        lines += [f"<li>{_symbol(some[0])} <strong>{html.escape(_capital(kind))}</strong>: {links}</li>"] if some else []
    return "\n".join(['<ul class="tl-verdicts">', *lines, "</ul>"])


def entries_html(some: list[Judged]) -> str:
    """The claims of a chapter, each under its id: its words and its verdict, with the rest folded; all of one whose run says
    something else than was expected."""
    return "\n".join(_entry_html(j) if j.problem else _folded_html(j) for j in some)


def _entry_html(j: Judged) -> str:
    c = j.claim
    head = f'<p class="tl-title">Claim <a href="#{c.id}">{c.id}</a></p>'
    return "\n".join([f'<div class="tl-claim {_css(j)}" id="{c.id}">', head, *_said_html(j), *_end_html(j), "</div>"])


def _end_html(j: Judged) -> list[str]:
    """How to cite a claim that is judged, and its experiment."""
    name = j.claim.id
    return [cite.box(citation(name), name), f'<p class="tl-links">{"".join(_experiment(name))}</p>'] if j.verdict else []


def _folded_html(j: Judged) -> str:
    """The id is on what is never folded, so its address shows the claim in every browser; book.js also opens it."""
    c = j.claim
    says = f" <strong>{html.escape(_capital(str(j.verdict)))}.</strong>" if j.verdict else ""
    head = f'<summary>{_symbol(j)} <strong>{c.id}</strong> {html.escape(c.said)}{says}</summary>'
    rest = [*_said_html(j)[1:], *_end_html(j)]
    return "\n".join([f'<details class="tl-claim {_css(j)}" id="{c.id}">', head, *rest, "</details>"])


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _symbol(j: Judged) -> str:
    """Beside the words, for the eye alone."""
    return f'<span aria-hidden="true">{SYMBOLS.get(j.verdict.kind, UNJUDGED_SYMBOL) if j.verdict else UNJUDGED_SYMBOL}</span>'


def _said_html(j: Judged, brief: bool = False, links: Iterable[str] = ()) -> list[str]:
    """The claim, its author and thread, with links behind them, and the verdict, as paragraphs."""
    c, v = j.claim, j.verdict
    mails = (
        f'<a href="{html.escape(mail_address(m))}"><code class="literal">{html.escape(m)}</code></a>' for m in c.messages
    )
    where = ", ".join([html.escape(c.source), *mails])
    words = str(v or NOT_JUDGED)
    reason = (v.reason if brief else v.because) if v else f"The experiment: {c.judged_by}"
    says = f"{_symbol(j)} <strong>{html.escape(_capital(words))}.</strong> {html.escape(reason)}"
    parts = [
        f"<p>{html.escape(c.said)}</p>",
        f'<p class="tl-links">{" · ".join([f"In our words. Thread: {where}", *links])}</p>',
        f'<p class="tl-verdict">{says}</p>',
    ]
    if j.seen:
        parts.append(f'<p class="tl-links">{html.escape(j.seen.said)}</p>')
    if j.problem:
        parts.append(f'<p class="tl-problem"><strong>Not as expected:</strong> {html.escape(j.problem)}</p>')
    return parts


def _css(j: Judged) -> str:
    return f"tl-{j.verdict.kind.split()[0]}" if j.verdict else "tl-unjudged"


def _experiment(claim_id: str) -> list[str]:
    """A link to the code that counts what the verdict says, if there is one."""
    study = verdict.study_of(claim_id)
    return [experiment(study.numbers, folders=True)] if study else []
