"""The lines that a booted process writes, see init/init.c: each is one of ours, whole and well formed, or the kernel's.

A line that begins with one of our words and goes on otherwise was damaged on its way, as by a message of the kernel between two of
its fields. Nothing is read from it.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from ..base.errors import TramplabError
from .qemu import FEWER, quotable

_HEX = "[0-9a-f]{1,16}"
#: The first word of a line -> what may follow it.
_FORMS = {
    "counted": re.compile(f"({_HEX} {_HEX} {_HEX} {_HEX})( {_HEX} {_HEX} {_HEX} {_HEX})*"),
    "code": re.compile(f"{_HEX}( ([0-9a-f]{{2}})+)?"),  # nothing where the kernel has no JIT
    "bytes": re.compile(f"{_HEX} ([0-9a-f]{{2}})+"),
    "hits": re.compile(f"programs {_HEX} event {_HEX}"),
    "refused": re.compile(f"{_HEX} [a-z]+( .*)?"),
    "|": re.compile(".*"),
}
#: Error numbers that user space has no name for.
_NAMES = {524: "ENOTSUPP"}


@dataclass(frozen=True)
class Line:
    """A line of the booted process: its first word, and the rest."""

    word: str
    rest: str

    @property
    def numbers(self) -> list[int]:
        """The rest as hexadecimal numbers."""
        return [int(word, 16) for word in self.rest.split()]

    @property
    def named(self) -> dict[str, int]:
        """The rest as names, each with a hexadecimal number."""
        words = self.rest.split()
        return {name: int(number, 16) for name, number in zip(words[::2], words[1::2], strict=True)}

    @property
    def refusal(self) -> tuple[str, str]:
        """The name of the error, and the step, of a line "refused"."""
        number, _, step = self.rest.partition(" ")
        return error(int(number, 16)), step


def line(text: str) -> Line:
    """A line in its parts. Raises TramplabError for one of ours that is damaged.

    >>> line("refused 16 write /x 1").refusal
    ('EINVAL', 'write /x 1')
    """
    word, _, rest = text.partition(" ")
    if word in _FORMS and not _FORMS[word].fullmatch(rest):
        raise damaged(text)
    return Line(word, rest)


def damaged(text: str) -> TramplabError:
    """The error for a line that the process cannot have written so."""
    return TramplabError(f"the console damaged what the booted process writes, {quotable(text)!r}: {FEWER}.")


def lacks(what: str) -> TramplabError:
    """The error for what a process that came to its end should have written."""
    return TramplabError(f"the booted process came to its end, but {what} did not arrive: {FEWER}.")


def error(number: int) -> str:
    """The name of an error number."""
    return errno.errorcode.get(number) or _NAMES.get(number, str(number))
