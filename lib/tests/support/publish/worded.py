"""What a sentence needs for its guards to hold it: the ISA beside each number, comparisons for its words, bands for its numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from tramplab_book.publish.cite import cite
from tramplab_book.publish.findings import guard
from tramplab_book.publish.findings.guard import Comparison
from tramplab_book.publish.phrases import isa_name

_NAMED = re.compile(r"\{([^{}:]+)\}")
_ISA = re.compile(r"x86-64|arm64|riscv64")
_ISA_OF = re.compile(r"(?<!\w)(x86[_-]64|arm64|riscv64)(?!\w)")
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)\s*\*")
#: Words -> the factors, literals or percents of which one must be in a guard: of the part that is named, or of what is left. What a
#: factor of two says of one side it does not say of the other: half is written as half.
SHARES = {
    r"\btwice\b|\bdoubl(e|es|ed)\b": [(1.7, 2.4)],
    r"(?<!first )(?<!second )(?<!and a )\bhal(f|ves?|ved)\b(?! (of (it|each|that)|that size)\b)": [(0.4, 0.6)],
    r"(?<!at )(?<!the )(?<!costs )(?<!add )\bmost(ly)?\b": [(0.5, 1), (1.01, 3)],
    r"\ba third\b(?! one)": [(0.3, 0.37), (0.63, 0.7)],
    r"\ba tenth\b": [(0.08, 0.12)],
    r"\bthree times\b": [(2.5, 3.5)],
    r"\bfour times\b": [(3.5, 4.5)],
    r"\bfive times\b": [(4.4, 5.5)],
}
_ONLY = re.compile(r"\b[Oo]nly\b")


def not_beside(text: str, guards: Sequence[str] = (), before: str = "") -> list[str]:
    """The numbers whose ISA their sentence does not name, or names in another order. guards: a number that these compare with the
    same of another ISA may be said without any. before: what was said above; a sentence without an ISA is on that of the last one.

    >>> not_beside("On arm64 it is {arm64-a}. With it {arm64-b}."), not_beside("{arm64-a} on riscv64.")
    ([], ['arm64-a'])
    >>> not_beside("{arm64-a} on riscv64, {riscv64-a} on arm64."), not_beside("It is {arm64-a}.", ["arm64-a == riscv64-a"])
    (['arm64-a', 'riscv64-a'], [])
    """
    lost, last = [], _ISA.findall(_NAMED.sub("", before))
    for sentence in cite.sentences(text):
        there = _ISA.findall(_NAMED.sub("", sentence))
        last = there or last
        names = {name: isa_name(of[1]) for name in _NAMED.findall(sentence) if (of := _ISA_OF.search(name))}
        if last or not all(_compared(name, guards) for name in names):
            lost += [name for name, isa in names.items() if isa not in last]
        order = _runs(isa for isa in there if isa in names.values())
        said = _runs(names.values())
        if len(set(order)) == len(order) == len(said) == len(set(said)) and said != order:
            lost += [name for name in names if name not in lost]
    return lost


def _runs(values: Iterable[str]) -> list[str]:
    """Each once where several alike follow each other."""
    return [value for value, _ in itertools.groupby(values)]


def _compared(name: str, guards: Iterable[str]) -> bool:
    """Do guards compare it with the same number of another ISA?"""
    same = _ISA_OF.sub("", name)
    sides = [re.findall(r"[\w.+-]+", f"{c.left} {c.right}") for one in guards for c in guard.comparisons(one)]
    return any(name in side and sum(_ISA_OF.sub("", part) == same for part in side) > 1 for side in sides)


def unguarded(text: str, guards: Iterable[str]) -> list[str]:
    """The words of a text that say how much of something there is, or that nothing else is so, and no guard says it.

    >>> unguarded("It takes twice as many, only here.", ["1.9 * a < b < 2.2 * a", "c == 0"]), unguarded("Half.", ["2 * a < b"])
    ([], ['Half'])
    """
    several = [c for one in guards for c in guard.comparisons(one)]
    sides = [side for c in several for side in (c.left, c.right)]
    literals = [float(side) for side in sides if re.fullmatch(r"[\d.]+", side)]
    factors = [float(found) for side in sides for found in _FACTOR.findall(side)] + literals + [one / 100 for one in literals]
    words = []
    for word, ranges in SHARES.items():
        if not any(low <= f <= high for f in factors for low, high in ranges) and not _whole(word, several):
            words += [found[0] for found in re.finditer(word, text, re.I)]
    return words + [found[0] for found in _ONLY.finditer(text) if not _excludes(several)]


def _whole(word: str, several: Iterable[Comparison]) -> bool:
    """Most is said of all, too."""
    return "most" in word and any(c.operator == "==" and not re.fullmatch(r"[\d.]+|'.*'", c.right) for c in several)


def _excludes(several: list[Comparison]) -> bool:
    """Is something said that is not so elsewhere: none, an outcome by name, or a comparison in each direction?"""
    return any(c.operator in ("==", "!=") for c in several) or len(several) > 1


def _moved(value: object) -> list[object]:
    """A number thirty percent up and down, by one at least."""
    number = guard.as_number(value)
    step = max(0.3 * abs(number), 1)
    return [number + step, number - step]


def _pairs(guards, numbers):
    """The numbers that the guards compare with each other, also by a factor: both names of each comparison."""
    compared = [(c.left, c.right) for one in guards for c in guard.comparisons(one)]
    plain = [tuple(re.sub(r"^[\d.]+\s*\*\s*", "", side) for side in sides) for sides in compared]
    return [sides for sides in plain if all(side in numbers for side in sides)]


def noticed(says: str, holds: Sequence[str], numbers: Mapping[str, object]) -> None:
    """Guards fail when a number that the text names moves, up or down, or two that they compare are swapped."""
    for one in _NAMED.findall(says):
        if isinstance(guard.as_number(numbers[one]), float):
            for other in _moved(numbers[one]):
                assert guard.failures(holds, {**numbers, one: other}), (one, other)
    for left, right in _pairs(holds, numbers):
        if numbers[left] != numbers[right]:
            swapped = {**numbers, left: numbers[right], right: numbers[left]}
            assert guard.failures(holds, swapped), (left, right)
