"""One run of a consumer as lines: what it was handed, which fields it read and what they hold, what it said and should have said.

The command prints them, and the book shows them of every cell that is not right.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from ...base.width import WIDTH
from .consumers import consumer as named
from .matrix import NOT_ASKED, Answer, Cell, Matrix

#: Stands in an answer for the word that was not given, because the consumer ended with a fault.
FAULT = "fault"
_INDENT = " " * 10


def words(answer: Answer) -> str:
    """An answer, hexadecimal, FAULT where there was none.

    >>> words((1, None))
    '0x1 fault'
    """
    return " ".join(FAULT if n is None else f"{n:#x}" for n in answer)


def structure(kernel: str, view: str, struct: str, size: int) -> str:
    """The structure that a view's consumers are given, in a line."""
    return f"{kernel}, {view}: a {struct} of {size} bytes"


def held(found: Matrix, cell: Cell) -> list[str]:
    """The content of each field that was read, in the order of the cell's fields."""
    return [str(found.frame.slots[field]) for field in cell.fields]


def concluded(consumer: str, outcome: str, fields: Iterable[tuple[str, str]], said: str, should: str) -> str:
    """What a consumer made of a structure, in lines of at most WIDTH columns. fields: those it read, each with what it holds. said,
    should: see words().

    >>> print(concluded("user-mode", "wrong", [("pstate", "constant: 0")], "0x1", "0x0"))
    user-mode (user_mode()): wrong
      reads   pstate, constant: 0
      says    0x1
      should  0x0
    """
    lines = [f"{consumer} ({named(consumer).stands_for}): {outcome}"]
    lines += [f"  reads   {field}, {holds}" for field, holds in fields]
    if outcome != NOT_ASKED:
        lines += [f"  says    {said.replace(FAULT, 'nothing, as it faults')}", f"  should  {should}"]
    return wrapped(lines)


def wrapped(lines: Iterable[str]) -> str:
    """Lines as text of at most WIDTH columns."""
    return "\n".join(line for long in lines for line in textwrap.wrap(long, WIDTH, subsequent_indent=_INDENT))
