"""The one family of exceptions a user of the package is meant to see."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: A word that is too long for a message, with the beginning and the end that are shown.
_LONG = re.compile(r"(\S{150})\S{200,}(\S{50})")


class TramplabError(Exception):
    """Something a reader can act on: the message is one clear sentence with what to do, on one line whatever it quotes."""

    #: The exit status of a command that ends with this error.
    status = 2

    def __str__(self) -> str:
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in super().__str__())
        return _LONG.sub(r"\1...\2", text)


class Unwritten(TramplabError):
    """A result cannot be written to its destination."""

    status = 1


@dataclass(frozen=True)
class Recursion:
    """The recursion that filled a stack: the functions that call each other, outermost first, how often they did, and how many
    bytes they take each time."""

    functions: tuple[str, ...]
    rounds: int
    size: int


class GuestFault(TramplabError):
    """The emulated CPU could not go on; says where, at which instruction and with which registers. recursion: what the stack is
    full of, where it ran out."""

    recursion: Recursion | None = None


class StepLimit(TramplabError):
    """A run executed more instructions than it was allowed; says which loop it is in."""


#: Shows what was given; of a long value only the beginning and the end, so that a sentence stays one.
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 80
#: Bits of the largest number that is printed; Python refuses to print many more digits.
_BITS = 4096


def shown(value: object) -> str:
    """A value of the wrong kind, for an error: the value itself if it fits a sentence, else its type.

    >>> print(shown("two"), shown(1.5), shown(None), shown([1, 2]))
    'two' 1.5 None a list
    """
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"one of {value.bit_length()} bits"
    return _REPR.repr(value) if value is None or isinstance(value, (str, int, float)) else f"a {type(value).__name__}"


#: The most names that are all listed, and how many are listed of more.
MOST_LISTED, FEW = 50, 5


def unknown(
    kind: str,
    name: object,
    known: Iterable[object],
    listed: Iterable[object] | None = None,
    elsewhere: Mapping[str, str] | None = None,
) -> TramplabError:
    """An error for a name that does not exist, with the near matches among `known`, and the list or its start.

    listed: what to list where all that is known would be too long. elsewhere: names that others use, each with what of it there is
    here, in words.

    >>> print(unknown("hook", "opps", ["none", "ops"]))
    unknown hook 'opps'; did you mean ops? Known: none, ops.
    >>> print(unknown("hook", "tracer", ["none", "ops"], elsewhere={"tracer": "ops, which a tracer registers"}))
    unknown hook 'tracer'; did you mean ops, which a tracer registers? Known: none, ops.
    >>> print(unknown("claim", "v99", [f"v{n}" for n in range(60)]))
    unknown claim 'v99'; did you mean v9 or v59 or v49? Known: v0, v1, v2, v3, v4 and 55 others.
    """
    names = [str(k) for k in known]
    meant = (elsewhere or {}).get(str(name)) or " or ".join(difflib.get_close_matches(str(name), names, n=3, cutoff=0.5))
    hint = f"; did you mean {meant}?" if meant else "."
    listed_names = names if listed is None else [str(k) for k in listed]
    whole = ", ".join(listed_names)
    if len(listed_names) > MOST_LISTED:
        whole = f"{', '.join(listed_names[:FEW])} and {len(listed_names) - FEW} others"
    return TramplabError(f"unknown {kind} {shown(str(name))}{hint} Known: {whole}.")
