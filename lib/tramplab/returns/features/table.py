"""The features, in order, and running one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base.arguments import of_name
from ...ftrace.ops import Request
from ...lab.kernel import Kernel
from . import call_data, calls, leaving
from .cell import Cell
from .stage import Stage


@dataclass(frozen=True)
class Feature:
    """Something that a probe can do.

    name: its name in charts.
    does: the words after "it can" in a sentence.
    run: a kernel with a probe -> the outcome.
    """

    name: str
    does: str
    run: Callable[[Stage], Cell]


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("entry data", "hand a word from the entry of a call to its return", call_data.entry_data),
        Feature("a page of data", "keep a page of data for a call", call_data.most_data),
        Feature("arguments at exit", "tell the arguments at the return", call_data.arguments_at_exit),
        Feature("value read", "tell the value", call_data.value_read),
        Feature("value changed", "change the value", call_data.value_changed),
        Feature("may decline", "decline a return at the entry", call_data.declines),
        Feature("same function nested", "follow a function that calls itself", calls.nesting),
        Feature("entry calls function", "see or count what its entry handler calls", calls.recursion_at_entry),
        Feature("exit calls function", "see or count what its exit handler calls", calls.recursion_at_exit),
        Feature("tail call", "see both returns of a tail call", calls.tail_call),
        Feature("kprobe below", "see a return with a kprobe's breakpoint before it", calls.kprobe_below),
        Feature("kprobe in handler", "let a kprobe be hit in what its exit handler calls", calls.kprobe_in_handler),
        Feature("left early", "let a call be left without a return at no cost", leaving.alone),
        Feature("left, both hooked", "bring back a hooked function above one that was left", leaving.below_another),
        Feature("misses told", "count all calls that it misses", calls.misses_told),
    )
}


def get(name: str) -> Feature:
    """A feature by name; raises TramplabError with near matches."""
    return of_name("feature of a probe on returns", name, FEATURES)


def run(kernel: Kernel, request: Request, name: str) -> Cell:
    """The cell that says whether a probe has a feature, by calls in a kernel, which is as before afterwards.

    Raises TramplabError for an unknown feature, and for a request that sees no function return.

    >>> from tramplab import Fprobe
    >>> run(Kernel("x86_64", meter="count"), Fprobe(entry=False, exit=True), "a page of data")
    Cell(outcome='in part', said='120 bytes', number=120)
    """
    return get(name).run(Stage(kernel, request))
