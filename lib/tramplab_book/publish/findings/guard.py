"""The comparisons that a finding rests on: names of a study's numbers and literals, each with what it compares.

A guard is `side OP side`, a chain of such, or several joined by `and`. OP is one of < <= == != >= >. A side is a number, a text in
quotes, the name of a number, min(...) or max(...) of such, or a literal factor and one of these: `0.5 * direct`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tramplab.base.errors import TramplabError, unknown

Value = float | str
_COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
_OPERATOR = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_QUOTED = re.compile(r"'([^']*)'")
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)\s*\*\s*(.+)")
_CALL = re.compile(r"(min|max)\((.+)\)")


@dataclass(frozen=True)
class Comparison:
    """One comparison of a guard: both sides as they are written, and the operator between them."""

    left: str
    operator: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"

    def fails(self, numbers: Mapping[str, object]) -> str:
        """Both sides and their values if it is not true; "" if it is. Raises TramplabError for a name that is no number's."""
        left, right = value(self.left, numbers), value(self.right, numbers)
        if isinstance(left, str) != isinstance(right, str):
            raise TramplabError(f"the guard {self} compares a text with a number: {left!r} and {right!r}.")
        return "" if _COMPARE[self.operator](left, right) else f"{self} is not so: {shown(left)} and {shown(right)}"


def comparisons(guard: str) -> list[Comparison]:
    """The comparisons of a guard; raises TramplabError where there is none.

    >>> [str(c) for c in comparisons("0 < near < 0.5 * far and kinds == 3")]
    ['0 < near', 'near < 0.5 * far', 'kinds == 3']
    """
    found = []
    for part in re.split(r"\s+and\s+", guard.strip()):
        sides = _OPERATOR.split(part)
        if len(sides) < 3 or not all(sides):
            raise TramplabError(f"the guard {guard!r} has no comparison in {part!r}; one is written like near < far.")
        found += [Comparison(*sides[n : n + 3]) for n in range(0, len(sides) - 2, 2)]
    return found


def check(guards: Iterable[str], where: str) -> None:
    """Raise TramplabError, with the place that has them, for one without a comparison.

    >>> check(["near < far"], "findings/returns.yml: an-id")
    """
    for guard in guards:
        try:
            comparisons(guard)
        except TramplabError as e:
            raise TramplabError(f"{where}: {e}") from None


def value(side: str, numbers: Mapping[str, object]) -> Value:
    """What a side of a comparison is.

    >>> value("0.5 * max(near, far)", {"near": 3, "far": "1,000"}), value("'v7.2'", {})
    (500.0, 'v7.2')
    """
    if _NUMBER.fullmatch(side):
        return float(side)
    if quoted := _QUOTED.fullmatch(side):
        return quoted[1]
    if call := _CALL.fullmatch(side):
        several = [_number(part.strip(), numbers) for part in call[2].split(",")]
        return min(several) if call[1] == "min" else max(several)
    if factor := _FACTOR.fullmatch(side):
        return float(factor[1]) * _number(factor[2], numbers)
    if side not in numbers:
        raise unknown("number", side, numbers)
    return as_number(numbers[side])


def _number(side: str, numbers: Mapping[str, object]) -> float:
    found = value(side, numbers)
    if isinstance(found, str):
        raise TramplabError(f"{side} is {found!r} and no number; compare it as it is.")
    return found


def as_number(given: object) -> Value:
    """A number, also where it is written as text or in percent; any other text as it is.

    >>> as_number("39,831"), as_number("11%"), as_number("near"), as_number(True)
    (39831.0, 11.0, 'near', 1.0)
    """
    if isinstance(given, bool):
        return float(given)
    try:
        return float(str(given).replace(",", "").removesuffix("%"))
    except ValueError:
        return str(given)


def failures(guards: Iterable[str], numbers: Mapping[str, object]) -> list[str]:
    """What is not true of the numbers, a sentence without its point each."""
    return [failed for guard in guards for c in comparisons(guard) if (failed := c.fails(numbers))]


def shown(given: Value) -> str:
    """A value as messages have it.

    >>> shown(3.0), shown(2.25), shown("near")
    ('3', '2.25', 'near')
    """
    return f"{given:g}" if isinstance(given, float) else given
