"""The features, in order, and running one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....errors import unknown
from ....ftrace.ops import Request
from ....lab.kernel import Kernel
from . import calls, leaving, told
from .cell import Cell
from .stage import Stage


@dataclass(frozen=True)
class Feature:
    """name: as charts call it. asks: the question that its run answers. run: a kernel with a probe -> what it came to."""

    name: str
    asks: str
    run: Callable[[Stage], Cell]


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("entry data", "does the return find what was left at the entry of its own call?", told.entry_data),
        Feature("a page of data", "can that be 4096 bytes?", told.most_data),
        Feature("arguments at exit", "does the return still tell what the call was given?", told.arguments_at_exit),
        Feature("value read", "is the returned value told?", told.value_read),
        Feature("value changed", "can the handler change it?", told.value_changed),
        Feature("may decline", "can the entry say that this return is of no interest?", told.declines),
        Feature("same function nested", "is each return seen once, in order, with its value?", calls.nesting),
        Feature(
            "entry calls function",
            "if the handler at the entry calls the function, does that end, and is every call seen or counted?",
            calls.recursion_at_entry,
        ),
        Feature("exit calls function", "the same of the handler at the return?", calls.recursion_at_exit),
        Feature("tail call", "are both returns seen if a function leaves by a jump to another one?", calls.tail_call),
        Feature("kprobe below", "is a kprobe's breakpoint between entry and return no matter?", calls.kprobe_below),
        Feature("kprobe in handler", "is a kprobe hit in what the handler at the return calls?", calls.kprobe_in_handler),
        Feature("left early", "may a call be left without a return, at no cost?", leaving.alone),
        Feature("left, both hooked", "does the one where it goes on return rightly, if hooked as well?", leaving.below_another),
        Feature("misses told", "does the probe's own counter have the calls for which there was no room?", calls.misses_told),
    )
}


def get(name: str) -> Feature:
    """A feature by name; raises TramplabError with near matches."""
    try:
        return FEATURES[name]
    except KeyError:
        raise unknown("feature of a probe on returns", name, FEATURES) from None


def run(kernel: Kernel, request: Request, name: str) -> Cell:
    """Whether a probe has a feature, by calls in a kernel, which is as before afterwards.

    Raises TramplabError for an unknown feature, and for a request that sees no function return.

    >>> from tramplab import Fprobe
    >>> run(Kernel("x86_64", meter="count"), Fprobe(entry=False, exit=True), "a page of data")
    Cell(outcome='in part', said='120 bytes', number=120)
    """
    return get(name).run(Stage(kernel, request))
