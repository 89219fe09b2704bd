"""One module per question: functions that return rows. Everything shown in the book is drawn from them.

A folder per argument, in it in it one for each page with several modules of its own. A study is whichever module in one has what
publish.figures.figure.Study says: found, not listed. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from tramplab.base.arguments import of_name

from ..publish.figures.figure import Study


@functools.cache
def every() -> dict[str, Study]:
    """All studies by name, by chapters."""
    names = (m.name for m in pkgutil.walk_packages(__path__, f"{__name__}.") if not m.ispkg)
    modules = [importlib.import_module(name) for name in sorted(names)]
    return {m.NAME: m for m in modules if isinstance(m, Study)}


def get(name: str) -> Study:
    """A study by name; raises TramplabError with near matches."""
    return of_name("study", name, every())


def with_figure(figure_id: str) -> Study | None:
    """The study that declares a figure; None if none does."""
    return next((m for m in every().values() if any(f.id == figure_id for f in m.FIGURES)), None)
