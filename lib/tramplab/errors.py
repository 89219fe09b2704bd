"""The one family of exceptions a user of the package is meant to see."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class TramplabError(Exception):
    """Something a reader can act on: the message is one clear sentence with what to do."""


@dataclass(frozen=True)
class Recursion:
    """What a stack that ran out was filled with: the functions that call each other, outermost first, how often they did, and how
    many bytes they take each time."""

    functions: tuple[str, ...]
    rounds: int
    size: int


class GuestFault(TramplabError):
    """The emulated CPU could not go on; says where, at which instruction and with which registers. recursion: what the stack is
    full of, where it ran out."""

    recursion: Recursion | None = None


class StepLimit(TramplabError):
    """A run executed more instructions than it was allowed; says which loop it is in."""


def unknown(kind: str, name: object, known: Iterable[object], listed: Iterable[object] | None = None) -> TramplabError:
    """An error for a name that does not exist, with the near matches among `known` and the full list.

    listed: what to list where all that is known would be too long.

    >>> print(unknown("hook", "opps", ["none", "ops"]))
    unknown hook 'opps'; did you mean ops? Known: none, ops.
    """
    names = [str(k) for k in known]
    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    shown = names if listed is None else [str(k) for k in listed]
    return TramplabError(f"unknown {kind} {str(name)!r}{hint} Known: {', '.join(shown)}.")


def whole_number(text: str, what: str) -> int:
    """What a user typed as a whole number; `what` names it in the error.

    >>> whole_number("8", "--args")
    8
    """
    try:
        return int(text)
    except ValueError:
        raise TramplabError(f"{what} is a whole number, not {text!r}.") from None
