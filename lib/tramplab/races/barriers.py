"""The steps of a plan that can be left out one by one, by name: what is waited for, and what is put right by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..base.errors import unknown
from ..ftrace.steps import FENCES, Sync, Wait
from .subject import FixUp, Subject


def _name(kernel: str) -> str:
    """A wait's name on the command line.

    >>> _name("ic ivau; isb")
    'ic-ivau+isb'
    """
    return kernel.replace("; ", "+").replace(" ", "-")


#: The names of those that only order data.
_ORDERS = {_name(sync.kernel) for sync in (*FENCES, Sync.FTRACE_IPI)}


@dataclass(frozen=True)
class Barrier:
    """A step of a plan that can be left out.

    name: the wait's kernel name, with a number where the plan waits that way for several reasons.
    why: the reason.
    numbers: the steps of the plan that belong to it; they are left out together.
    orders: the barrier only orders stores or loads of data, so removing it changes no verdict where data are ordered.
    """

    name: str
    why: str
    numbers: tuple[int, ...]
    orders: bool = False


def barriers(subject: Subject) -> list[Barrier]:
    """The barriers of a subject's plan, in the order of the plan."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, step in enumerate(subject.steps):
        if isinstance(step, (Wait, FixUp)):
            kernel = step.sync.kernel if isinstance(step, Wait) else "fix up"
            found.setdefault((_name(kernel), step.why), []).append(number)
    kinds = [kernel for kernel, _ in found]
    out = []
    for at, ((kernel, why), numbers) in enumerate(found.items()):
        several = f"-{kinds[: at + 1].count(kernel)}" if kinds.count(kernel) > 1 else ""
        out.append(Barrier(kernel + several, why, tuple(numbers), kernel in _ORDERS))
    return out


def numbers_of(subject: Subject, names: Sequence[str]) -> list[int]:
    """The steps of the barriers of these names; raises TramplabError with near matches."""
    by_name = {b.name: b for b in barriers(subject)}
    for name in names:
        if name not in by_name:
            raise unknown("barrier", name, by_name)
    return [number for name in names for number in by_name[name].numbers]
