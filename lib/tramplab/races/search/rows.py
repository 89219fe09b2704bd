"""The steps of a thread as a table of numbers, for any number of threads."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.locals import IDLE
from ..model.verdicts import Violation
from .automaton import Automaton, State

#: (successor's code, or -1 - number of a violation), and the code of a thread that is idle and not noted down.
IDLE_CODE = 0


@dataclass(frozen=True)
class Rows:
    """An automaton as a table of numbers.

    codes: how many there are.
    steps: per moment, code -> the codes it leads to, or -1 - the number of a violation.
    carried: per moment, code -> the code with which that moment begins.
    empty: per moment, whether it begins only when all threads are idle.
    after: per moment, those that can be next.
    wrong: the violations.
    """

    codes: int
    steps: list[dict[int, tuple[int, ...]]]
    carried: list[dict[int, int]]
    empty: list[bool]
    after: list[tuple[int, ...]]
    wrong: list[Violation]


def rows(automaton: Automaton) -> Rows:
    """The table of an automaton that was built. Reduced: of moments one after the other those are left out that a thread cannot
    tell from the one before."""
    places: dict[int, int] = {IDLE: 0}

    def code(at: int, noted: bool) -> int:
        return 2 * places.setdefault(at, len(places)) + noted

    moments = automaton.threads.moments
    steps: list[dict[int, tuple[int, ...]]] = [{} for _ in moments]
    carried: list[dict[int, int]] = [{} for _ in moments]
    for state, after in automaton.table.items():
        moment, at, noted = state
        steps[moment][code(at, noted)] = tuple(to if to < 0 else code(to, still) for to, still in after)
    for (moment, at), (end, still) in automaton.carried.items():
        carried[moment][code(at, False)] = code(end, still)
    empty = [m.empty for m in moments]
    following = [m.after for m in moments]
    if automaton.reduced and following == _line(len(moments)):
        steps, carried, empty = _told_apart(steps, carried, empty, [bool(m.notes) or m.frozen for m in moments])
        following = _line(len(steps))
    return Rows(2 * len(places), steps, carried, empty, following, automaton.wrong)


def _line(count: int) -> list[tuple[int, ...]]:
    """The next moment of each of so many moments in a row."""
    return [(n + 1,) for n in range(count - 1)] + [()]


def _told_apart(
    steps: list[dict[int, tuple[int, ...]]], carried: list[dict[int, int]], empty: list[bool], special: list[bool]
) -> tuple[list[dict[int, tuple[int, ...]]], list[dict[int, int]], list[bool]]:
    """steps, carried and empty without the moments in which every thread does what it does in the one before."""
    kept = [0]
    for moment in range(1, len(steps)):
        before = steps[kept[-1]]
        same = all(before.get(code, row) == row for code, row in steps[moment].items())
        stays = all(code == after for code, after in carried[moment].items())
        if same and stays and not (empty[moment] or special[moment] or special[moment - 1]):
            steps[kept[-1]] = {**before, **steps[moment]}
        else:
            kept.append(moment)
    return [steps[m] for m in kept], [carried[m] for m in kept], [empty[m] for m in kept]


__all__ = ["IDLE_CODE", "Rows", "State", "rows"]
