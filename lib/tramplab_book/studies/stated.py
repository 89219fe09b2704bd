"""Findings with the numbers of a run made now: what pages, commands and notebooks show of data/findings/."""

from __future__ import annotations

import functools
import html
import json
import time
from collections.abc import Iterable, Mapping, Sequence

from tramplab.base import cache
from tramplab.base.errors import TramplabError

from ..places import state_of_rows
from ..publish.cite import cite
from ..publish.classes import FIGURE
from ..publish.figures.figure import Study
from ..publish.figures.show import Shown
from ..publish.findings import findings, rendered
from ..publish.findings.finding import Finding, Stated
from . import with_figure


def study_of(finding: Finding) -> Study:
    """The study that has a finding's figure; raises TramplabError where none has."""
    study = with_figure(finding.figure)
    if study is None:
        raise TramplabError(f"{findings.FOLDER}/{finding.argument}.yml: {finding.id}: no study has the figure {finding.figure}.")
    return study


LETTER = "A text for the list"
#: Folders of the cache with the numbers of studies, each for one state of the sources; for how many seconds an unused one is kept.
_KEPT, _OLD = "numbers-", 7 * 24 * 3600
#: A figure of each study that has what booted kernels did.
_BOOTED = ("fig-booted", "fig-found", "fig-guard-fix", "fig-list-ended", "fig-patches", "fig-replayed")


def numbers_of(finding: Finding) -> dict[str, object]:
    """The numbers that a finding may name."""
    return numbers_in(study_of(finding))


def numbers_in(study: Study) -> dict[str, object]:
    """The numbers of a study, from a run made now, or before from the same sources and data."""
    if not (count := getattr(study, "numbers", None)):
        return {}
    name = f"{_kept_for()}/{study.NAME}.json"
    if (kept := cache.read(name)) is not None:
        return json.loads(kept)
    numbers = count(study.rows())
    cache.remove_old(_KEPT, _OLD, time.time(), _kept_for())
    cache.keep(name, json.dumps(numbers, default=lambda number: number.item()))  # what pandas counts in
    return numbers


@functools.cache
def _kept_for() -> str:
    """The folder of the cache for the sources and data that this process has begun with."""
    return f"{_KEPT}{state_of_rows()}"


def booted_numbers() -> dict[str, object]:
    """The numbers of booted kernels, which guards and letters of all findings may name."""
    found: dict[str, object] = {}
    for study in filter(None, map(with_figure, _BOOTED)):
        found |= numbers_in(study)
    return found


def stated(finding: Finding, booted: Mapping[str, object] | None = None) -> Stated:
    """A finding with its numbers, and what booted kernels contradict of it. booted: their numbers, where they are known already."""
    one = findings.stated(finding, numbers_of(finding))
    return findings.booted(one, booted_numbers() if booted is None else booted) if finding.booted else one


def every() -> list[Stated]:
    """All findings, each with its numbers."""
    booted = booted_numbers()
    return [stated(finding, booted) for finding in findings.read().values()]


def in_short(page: str) -> Shown:
    """What a page shows at its top: its findings, each with a link to its figure, and the page's citation."""
    several = [stated(finding) for finding in findings.of_page(page)]
    text = _page_citation(page, several)
    return Shown(rendered.in_short_html(page, several, text), rendered.in_short_text(several), text)


def headlines(names: Sequence[str]) -> Shown:
    """Faults for the front page, each with what has it and where it was seen."""
    several = [stated(findings.get(name)) for name in names]
    return Shown(rendered.headlines_html(several), rendered.headlines_text(several), citation(names[0]))


def letter(name: str) -> str:
    """What could be sent to the list of a finding, with the numbers of a run made now; raises TramplabError where it has none."""
    finding = findings.get(name)
    if not finding.letter:
        raise TramplabError(finding.withdrawn or f"{name} has no letter; those that have one: {', '.join(with_letter())}.")
    return findings.letter(finding, booted_numbers())


def with_letter() -> list[str]:
    """The findings of which something could be sent to the list."""
    return [one.id for one in findings.read().values() if one.letter]


def posted(name: str) -> Shown:
    """The end of a fault's section: which kernels have it, who said it before, and a text for the list, to open and to copy, in a
    page's text by its command, or why there is none."""
    finding = findings.get(name)
    shown, text = rendered.fault_html(finding), rendered.fault_text(finding)
    brief = f"{text}\n{LETTER}: tramplab letter {name}\n" if finding.letter else text
    if finding.letter:
        body = letter(name)
        head = f'<details class="tl-letter"><summary>{LETTER}</summary><div class="highlight">'
        shown += f'{head}<pre tabindex="0" aria-label="{LETTER}: {name}">{html.escape(body)}</pre></div></details>'
        text += f"\n{body}"
    return Shown(f'<div class="{FIGURE}">{shown}</div>', text, text, brief)


def page_citation(page: str, full: bool = False) -> str:
    """The block for a review mail that cites a page."""
    return _page_citation(page, [stated(finding) for finding in findings.of_page(page)], full)


def _page_citation(page: str, several: Sequence[Stated], full: bool = False) -> str:
    return rendered.of_several(page, several, rendered.limits_of(several), "make book", full)


def citation(name: str, full: bool = False, lines: int = cite.LINES) -> str:
    """The block for a review mail that cites a finding."""
    return rendered.citation(stated(findings.get(name)), full, lines)


def one(name: str) -> Shown:
    """A finding for a notebook: what it says, why, its scope, and its citation."""
    several = [stated(findings.get(name))]
    return Shown(rendered.below(several[0])[0], rendered.as_text(several), citation(name))


def sentences(names: Iterable[str]) -> dict[str, str]:
    """What findings say, by their ids: for a page to quote."""
    return {name: stated(findings.get(name)).says for name in names}
