"""The citation of a section: what its figures show, in their titles, or how its claims came out, or what its text says first."""

from __future__ import annotations

from ..publish.cite import cite, pages, permalinks
from ..publish.claims import claims
from ..publish.figures.citation import titled
from ..publish.figures.figure import find
from . import short, with_figure
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
    return cite.place(name, said, short.limits_of([figure for _, figure in there], " ".join(said)), full)
