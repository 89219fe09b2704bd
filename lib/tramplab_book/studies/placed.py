"""The citation of a section: what its figures show, in their titles, or how its claims came out, or what its text says first."""

from __future__ import annotations

from collections.abc import Sequence

from ..publish.cite import cite, pages, permalinks
from ..publish.claims import claims
from ..publish.figures.citation import titled
from ..publish.figures.figure import KINDS, SOURCES, Figure, find, marks
from . import with_figure
from .front import claimed


def citation(name: str, full: bool = False) -> str:
    """The block for a review mail that cites a chapter or section which says nothing in short."""
    link = permalinks.get(name)
    anchor = link.target.partition("#")[2]
    chapter = permalinks.chapter(link.page)
    if chapter is None or chapter.id == name:
        return cite.place(name, full=full)
    if link.page == claims.PAGE:
        return cite.place(name, [claimed.verdicts(anchor.partition("-")[2])], full=full)
    own = pages.figures(link.page, anchor) or ([] if pages.says(link.page, anchor) else pages.figures(link.page))
    studies = {each: with_figure(each) for each in own}
    figures = [(study, find(study, each)) for each, study in studies.items() if study]
    there = [(study, figure) for study, figure in figures if not figure.own]  # one of this machine would be measured now
    said = [f"{titled(study, figure, study.rows()).rstrip('.?')} ({figure.id})." for study, figure in there]
    if not said:
        return cite.place(name, full=full)
    return cite.place(name, said, _limits([figure for _, figure in there], " ".join(said)), full)


def _limits(figures: Sequence[Figure], text: str) -> str:
    """What is true of the numbers of several figures, of which a text is said."""
    kinds = dict.fromkeys(KINDS[figure.kind] for figure in figures)
    sources = {figure.source for figure in figures}
    source = sources.pop() if len(sources) == 1 else "both" if sources & {"both", "image"} else "lab"
    hypothetical = marks(any(figure.hypothetical for figure in figures), text)
    return " ".join(filter(None, (f"{SOURCES[source]}; {'; '.join(kinds)}.", hypothetical)))
