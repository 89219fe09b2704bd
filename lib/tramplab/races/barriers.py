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


_FENCES = {_name(sync.kernel) for sync in FENCES}


@dataclass(frozen=True)
class Barrier:
    """A step of a plan that can be left out.

    name: the wait's kernel name, with a number where the plan waits that way for several reasons.
    why: the reason.
    numbers: the steps of the plan that belong to it; they are left out together.
    fence: it only orders stores, so removing it changes no verdict where data are ordered.
    orders: it is for the order of loads, which is not modelled, and for text only on ISAs where any interrupt is.
    """

    name: str
    why: str
    numbers: tuple[int, ...]
    fence: bool = False
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
        out.append(Barrier(kernel + several, why, tuple(numbers), kernel in _FENCES, kernel == _name(Sync.FTRACE_IPI.kernel)))
    return out


def numbers_of(subject: Subject, names: Sequence[str]) -> list[int]:
    """The steps of the barriers of these names; raises TramplabError with near matches."""
    by_name = {b.name: b for b in barriers(subject)}
    for name in names:
        if name not in by_name:
            raise unknown("barrier", name, by_name)
    return [number for name in names for number in by_name[name].numbers]
