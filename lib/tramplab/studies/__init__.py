"""One module per question: functions that return rows. Everything shown in the book is drawn from them."""

from __future__ import annotations

from types import ModuleType

from ..errors import unknown
from . import (
    arguments,
    callbacks,
    choosing,
    consumers,
    counting,
    dead_registers,
    dropped_saves,
    first_callback,
    first_program,
    fix_up,
    generated,
    jobs,
    live_patching,
    native_hooks,
    native_shapes,
    published_call_ops,
    published_pairs,
    record_life,
    register_map,
    return_stack,
    save_set_cycles,
    save_sets,
    single_callback,
    switching,
    unwinding,
)

#: name -> module with NAME, TITLE, FIGURES, rows() and numbers(), and golden() where the rows are the same on every machine
STUDIES: dict[str, ModuleType] = {
    m.NAME: m
    for m in (
        single_callback,
        first_callback,
        dead_registers,
        register_map,
        dropped_saves,
        save_sets,
        save_set_cycles,
        generated,
        jobs,
        first_program,
        arguments,
        callbacks,
        choosing,
        record_life,
        switching,
        live_patching,
        consumers,
        counting,
        return_stack,
        unwinding,
        fix_up,
        published_call_ops,
        published_pairs,
        native_shapes,
        native_hooks,
    )
}
#: Those whose rows are the same on every machine.
GOLDEN = {name: m for name, m in STUDIES.items() if hasattr(m, "golden")}


def get(name: str) -> ModuleType:
    """A study by name; raises TramplabError with near matches."""
    try:
        return STUDIES[name]
    except KeyError:
        raise unknown("study", name, STUDIES) from None


def with_figure(figure_id: str) -> ModuleType | None:
    """The study that declares a figure; None if none does."""
    return next((m for m in STUDIES.values() if any(f.id == figure_id for f in m.FIGURES)), None)
