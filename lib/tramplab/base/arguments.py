"""Checks of values from outside: arguments of callers in Python, and numbers on a command line.

Each is returned as what it stands for, a whole number of numpy's as an int; or it is refused in one sentence that says how it was
called, what it may be and what it was.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from .errors import TramplabError, shown, unknown

Of = TypeVar("Of")
#: The ends of what a register can be given: negative numbers are passed as C passes them.
WORDS = -(1 << 63), (1 << 64) - 1
#: Digits of the largest number that a user may type.
_DIGITS = 20


def whole(value: object, what: str, least: int | None = None, most: int | None = None) -> int:
    """A whole number of Python's or numpy's; True and 1.0 are none.

    >>> whole(8, "cpus", 1, 64)
    8
    >>> whole(-1, "cpus", 1, 64)
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: cpus is a whole number from 1 to 64, not -1.
    """
    number = value if type(value) is int else _index(value)
    if number is None or not _between(number, least, most):
        raise TramplabError(f"{what} is a whole number{_range(least, most)}, not {shown(value if number is None else number)}.")
    return number


def _index(value: object) -> int | None:
    """The int that a number of another type, such as numpy's, stands for; None for what is no whole number."""
    with contextlib.suppress(TypeError):
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]  # which is what is asked
    return None


def wholes(value: object, what: str, least: int | None = None, most: int | None = None) -> tuple[int, ...]:
    """Several whole numbers, or none, as a tuple.

    >>> wholes(range(3), "dropped", 0)
    (0, 1, 2)
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TramplabError(f"{what} is several whole numbers, such as [1, 2], not {shown(value)}.")
    return tuple(whole(one, f"each of {what}", least, most) for one in value)


def typed(text: str, what: str, least: int | None = None, most: int | None = None) -> int:
    """The whole number that a user typed: the digits 0 to 9, with a minus before them where it is negative.

    >>> typed("8", "--args", 0, 8)
    8
    >>> typed("1_0", "--args", 0, 8)
    Traceback (most recent call last):
    tramplab.base.errors.TramplabError: --args is a whole number from 0 to 8, not '1_0'.
    """
    number = int(text) if re.fullmatch(rf"-?[0-9]{{1,{_DIGITS}}}", text) else None
    if number is None or not _between(number, least, most):
        raise TramplabError(f"{what} is a whole number{_range(least, most)}, not {shown(text if number is None else number)}.")
    return number


def seconds(value: object, what: str) -> float:
    """A number of seconds above 0, whole or not; infinity is one."""
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not number > 0:
        raise TramplabError(f"{what} is a number of seconds above 0, not {shown(value)}.")
    return number


def typed_seconds(text: str, what: str) -> float:
    """The number of seconds above 0 that a user typed.

    >>> typed_seconds("1.5", "--time-limit")
    1.5
    """
    number = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else math.nan
    if not 0 < number < math.inf:
        raise TramplabError(f"{what} is a number of seconds above 0, such as 60 or 0.5, not {shown(text)}.")
    return number


def switch(value: object, what: str) -> bool:
    """True or False, numpy's too."""
    if not isinstance(value, (bool, np.bool_)):
        raise TramplabError(f"{what} is True or False, not {shown(value)}.")
    return bool(value)


def text(value: object, what: str) -> str:
    """The value, which is a string."""
    if not isinstance(value, str):
        raise TramplabError(f"{what} is a string, not {shown(value)}.")
    return value


def names(value: object, what: str) -> tuple[str, ...]:
    """One name or several, as a tuple.


    >>> names("one_arg", "filter"), names(["one_arg", "two_args"], "filter")
    (('one_arg',), ('one_arg', 'two_args'))
    """
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    for name in found:
        if not isinstance(name, str):
            raise TramplabError(f"{what} is one name or several, not {shown(value if name is None else name)}.")
    return found


def folder(value: object, what: str) -> Path:
    """A path, as pathlib has it or as a string."""
    if not isinstance(value, (str, os.PathLike)):
        raise TramplabError(f"{what} is a path, not {shown(value)}.")
    return Path(value)


def of_name(kind: str, name: object, known: Mapping[str, Of], elsewhere: Mapping[str, str] | None = None) -> Of:
    """The object of this name; raises TramplabError with the near matches, also for a value that is no name. elsewhere: as for
    unknown()."""
    if not isinstance(name, str) or name not in known:
        raise unknown(kind, name, known, elsewhere=elsewhere)
    return known[name]


def _between(number: int, least: int | None, most: int | None) -> bool:
    return (least is None or least <= number) and (most is None or number <= most)


def _range(least: int | None, most: int | None) -> str:
    if least is None or most is None:
        return "" if least is None else f" from {least} on"
    return f" from {least} to {most}"
