"""One module per question: functions that return rows. Everything shown in the book is drawn from them.

A folder per chapter, and a study is whichever module in one has a NAME and a TITLE: found, not listed. Nothing is imported
before somebody asks for it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any, Protocol

from ..errors import unknown
from ..publish.figure import Figure


class Study(Protocol):
    """What a module must have to be a study. One whose rows are the same on every machine has golden() besides, which gives
    the text that data/expected keeps."""

    NAME: str
    TITLE: str
    FIGURES: Sequence[Figure]

    def rows(self) -> Any:
        """What was found, as a tidy pandas frame (or several, by name), with units in its attributes."""
        ...

    def numbers(self, frame: Any) -> dict[str, object]:
        """What sentences of the book quote of the rows."""
        ...


@functools.cache
def every() -> dict[str, Any]:
    """All studies by name, by chapters; each is a module that has what Study says."""
    names = (m.name for m in pkgutil.walk_packages(__path__, f"{__name__}.") if not m.ispkg)
    modules = [importlib.import_module(name) for name in sorted(names)]
    return {m.NAME: m for m in modules if hasattr(m, "NAME") and hasattr(m, "TITLE")}


def golden() -> dict[str, Any]:
    """Those whose rows are the same on every machine."""
    return {name: m for name, m in every().items() if hasattr(m, "golden")}


def get(name: str) -> Any:
    """A study by name; raises TramplabError with near matches."""
    try:
        return every()[name]
    except KeyError:
        raise unknown("study", name, every()) from None


def with_figure(figure_id: str) -> Any | None:
    """The study that declares a figure; None if none does."""
    return next((m for m in every().values() if any(f.id == figure_id for f in m.FIGURES)), None)
