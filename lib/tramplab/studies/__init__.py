"""One module per question: functions that return rows. Everything shown in the book is drawn from them."""

from __future__ import annotations

from types import ModuleType

from ..errors import unknown
from . import backing_out, callbacks, counting, first_callback, single_callback, switching  # noqa: F401 (a claim's judge)

#: name -> module with NAME, TITLE, FIGURES, rows(), golden() and numbers()
STUDIES: dict[str, ModuleType] = {m.NAME: m for m in (single_callback, first_callback, callbacks, switching, counting)}


def get(name: str) -> ModuleType:
    """A study by name; raises TramplabError with near matches."""
    try:
        return STUDIES[name]
    except KeyError:
        raise unknown("study", name, STUDIES) from None


def with_figure(figure_id: str) -> ModuleType | None:
    """The study that declares a figure; None if none does."""
    return next((m for m in STUDIES.values() if any(f.id == figure_id for f in m.FIGURES)), None)
