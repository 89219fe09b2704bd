"""Findings as readers see them: in short at the top of a page, below a figure, as a citation, as text and as JSON."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Iterable, Sequence

import msgspec

from tramplab.base.entries import mail_address
from tramplab.base.width import INDENTED_WIDTH, WIDTH

from ..cite import cite
from ..classes import FIGURE
from . import findings
from .finding import KINDS, RINGS, Finding, Prior, Stated

#: Where a finding was seen, in a word.
SEEN = {
    "lab": "the lab",
    "image": "images",
    "machine": "times of a CPU",
    "booted": "a booted kernel",
    "published": "published times",
}


def citation(stated: Stated, full: bool = False, lines: int = cite.LINES) -> str:
    """The block for a review mail: the sentence, its reason where there is room, and always the scope."""
    f = stated.finding
    parts = [_problem(stated), stated.says, stated.because]
    body = "\n".join(f"  {guard}" for guard in f.guards) if full else ""
    whole = [part for part in parts if part]
    return cite.citation(f.id, whole, body, f.limits, f"tramplab findings {f.id}", full, lines=lines, terms=False)


def of_several(name: str, several: Sequence[Stated], limits: str, rerun: str, full: bool = False) -> str:
    """The citation of a page or a figure: as many of its findings as fit, each whole and with its scope."""
    for count in range(len(several), 0, -1):
        parts = [*map(scoped, several[:count]), *_further(several[count:])]
        text = cite.citation(name, parts, "", limits, rerun, full, terms=False)
        if full or parts[-1] in " ".join(text.split()):
            return text
    return cite.citation(name, [*map(scoped, several)], "", limits, rerun, full, terms=False)


def of_rows(several: Sequence[Stated], names: Sequence[str]) -> list[str]:
    """The lines above rows that are asked for by names, such as an ISA: the first finding about one, and which others are."""
    asked = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names))
    about = [s for s in several if names and asked.search(s.says)]
    return cite.wrapped(" ".join([*map(scoped, about[:1]), *_further(about[1:])])).splitlines()


def scoped(stated: Stated) -> str:
    """A finding's sentence with what it is true of behind it."""
    return _joined(_problem(stated), f"{stated.says} [{_scope(stated)}]")


def _further(several: Sequence[Stated]) -> list[str]:
    return [f"Further: {', '.join(s.finding.id for s in several)} (tramplab cite ID)."] if several else []


def limits_of(several: Sequence[Stated]) -> str:
    """What is true of several findings' numbers."""
    rings = dict.fromkeys(RINGS[ring] for s in several for ring in s.finding.seen_in)
    return " ".join([f"Seen in {'; and in '.join(rings)}.", *dict.fromkeys(KINDS[s.finding.kind] for s in several)])


def in_short_html(page: str, several: Sequence[Stated], text: str) -> str:
    """The list at the top of a page, each item under the finding's id, and the page's citation."""
    items = [f'<li id="{s.finding.id}">{html.escape(s.says)} {_link(s)}{_problem_html(s)}</li>' for s in several]
    head = f'<div class="{FIGURE} tl-short"><p class="tl-title">In short</p><ul>'
    return "\n".join([head, *items, "</ul>", cite.box(text, page), "</div>"])


def in_short_text(several: Sequence[Stated]) -> str:
    """The same for a terminal and for the page's text, in lines of a code cell's width."""
    items = (f"{_joined(_problem(s), s.says)} ({s.finding.figure})" for s in several)
    return f"In short\n\n{_bullets(items)}"


def _bullets(items: Iterable[str]) -> str:
    return "".join(f"{_wrapped(item, INDENTED_WIDTH, '- ', '  ')}\n" for item in items)


def _wrapped(text: str, width: int, first: str = "", further: str = "") -> str:
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=further, break_on_hyphens=False)


def headlines_html(several: Iterable[Stated]) -> str:
    """Faults as a list: what they say, which kernels have it, where it was seen, and a link to their section of *Findings*."""
    items = []
    for s in several:
        link = f'<a href="findings.html#{s.finding.section}" aria-label="how: {html.escape(s.finding.id)}">how</a>'
        items.append(f"<li>{html.escape(s.says)} <em>{html.escape(_state(s))}</em> {link}{_problem_html(s)}</li>")
    return "\n".join([f'<div class="{FIGURE} tl-headlines"><ul>', *items, "</ul></div>"])


def headlines_text(several: Iterable[Stated]) -> str:
    """The same for a terminal and for the page's text."""
    return _bullets(f"{_joined(_problem(s), s.says, _state(s))} ({s.finding.id})" for s in several)


def fault_html(finding: Finding) -> str:
    """Which kernels have a fault, whether it is known, who said it before, and why there is no letter, where there is none."""
    lines = [f"<dt>{head}</dt><dd>{html.escape(text)}</dd>" for head, text in _extent(finding)]
    items = [f"<li>{_told(one, _linked(one))}</li>" for one in finding.prior]
    why = [f"<p>{html.escape(finding.withdrawn)}</p>"] if finding.withdrawn else []
    head = f"</dl><details><summary><strong>{_newness(finding)}</strong></summary><ul>"
    return "\n".join(
        ['<dl class="tl-extent">', *lines, head, *items, "</ul></details>", *why]
    )


def fault_text(finding: Finding) -> str:
    """The same for a terminal and for the page's text."""
    lines = "".join(f"{_wrapped(f'{head}: {text}', INDENTED_WIDTH, '', '  ')}\n" for head, text in _extent(finding))
    why = f"\n{_wrapped(finding.withdrawn, INDENTED_WIDTH)}" if finding.withdrawn else ""
    return f"{lines}\n{_newness(finding)}\n\n{_bullets(_told(one, one.where) for one in finding.prior)}{why}"


def _extent(finding: Finding) -> list[tuple[str, str]]:
    extent = finding.extent
    if extent is None:
        return []
    lines = [("Since", extent.since), ("Until", extent.until), ("Configured", extent.configured), ("Not on", extent.spared)]
    return [*lines, *([("Brought by", extent.brought)] if extent.brought else [])]


def _linked(one: Prior) -> str:
    address = one.address or mail_address(one.message)
    return f'<a href="{html.escape(address)}">{html.escape(one.where)}</a>'


def _newness(finding: Finding) -> str:
    return f"Known, not fixed in {findings.latest()}." if finding.known else "Prior mails and reports"


def _told(one: Prior, where: str) -> str:
    return f"{one.who}, {one.date} ({where}): {one.said}" if one.who else f"Searched on {one.date}: {one.said}"


def _state(s: Stated) -> str:
    seen = " and ".join(SEEN[ring] for ring in s.finding.seen_in)
    return f"Since {s.finding.extent.since}; seen in {seen}." if s.finding.extent else f"Seen in {seen}."


def below(stated: Stated) -> tuple[str, str]:
    """What is below a figure of a finding that the page does not say in short, as HTML and as text."""
    text = _joined(_problem(stated), stated.says, stated.because)
    return f'<p class="tl-finding" id="{stated.finding.id}">{html.escape(text)}</p>', f"{_wrapped(text, INDENTED_WIDTH)}\n"


def as_text(several: Sequence[Stated]) -> str:
    """Findings in lines of at most 72 columns."""
    parts = []
    for s in several:
        extent = (f"{head}: {text}" for head, text in _extent(s.finding))
        paragraphs = (_joined(_problem(s), s.says), s.because, s.finding.limits, *extent)
        filled = [_wrapped(paragraph, WIDTH, "  ", "  ") for paragraph in paragraphs]
        parts.append("\n".join([f"{s.finding.id} ({s.finding.figure})", *filled]) + "\n")
    return "\n".join(parts)


def as_json(several: Sequence[Stated]) -> str:
    """Findings as a list of JSON objects, a line each."""
    return "[\n" + ",\n".join(json.dumps(_record(s)) for s in several) + "\n]\n"


def _record(s: Stated) -> dict[str, object]:
    f = s.finding
    return {
        "id": f.id,
        "figure": f.figure,
        "page": f.page,
        "says": s.says,
        "because": s.because,
        "scope": f.scope,
        "kind": f.kind,
        "seen_in": list(f.seen_in),
        "hypothetical": f.hypothetical,
        "claims": list(f.claims),
        "extent": msgspec.to_builtins(f.extent),
        "prior": msgspec.to_builtins(f.prior),
        "holds": list(f.guards),
        "problem": s.problem or None,
    }


def _scope(s: Stated) -> str:
    scope = s.finding.scope.rstrip(".")
    return f"{scope}; hypothetical, no kernel has it" if s.finding.hypothetical else scope


def _problem(s: Stated) -> str:
    return f"Not so in this run: {s.problem}. The text was:" if s.problem else ""


def _problem_html(s: Stated) -> str:
    return f' <strong class="tl-problem">Not so in this run: {html.escape(s.problem)}.</strong>' if s.problem else ""


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _link(s: Stated) -> str:
    return f'<a href="#{s.finding.figure}" aria-label="Figure of this finding">figure</a>'
