"""The citable addresses of the book: which there are, where each one leads, and its short link."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tramplab.base import documents
from tramplab.base.arguments import of_name
from tramplab.base.errors import TramplabError
from tramplab.base.revision import History

from ...places import data_file
from . import edition

FILE = "permalinks.txt"
HEAD = """\
# Every citable address of the book: chapters, sections, figures, claims. Mails and commits rest on them, so no line ever goes.
# `make update` adds new ones. An address that moved keeps its line and says where it went; if it moves again, that too:
#   book/old.html#name -> book/new.html#name
#   book/old.html#name -> book/new.html#name -> book/newer.html#name
"""
_ADDRESS = re.compile(r"[\w./-]+\.html#([a-z0-9][a-z0-9-]*)")


@dataclass(frozen=True)
class Permalink:
    """A citable place: `address` is where it was first published, `target` where it is now (often the same), `between` where it
    was in the meantime."""

    id: str
    address: str
    target: str
    between: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Everywhere that it was, and where it is."""
        return self.address, *self.between, self.target

    def __str__(self) -> str:
        return " -> ".join(self.places if self.between or self.target != self.address else self.places[:1])

    @property
    def page(self) -> str:
        """The page it is on now, without suffix: book/method."""
        return self.target.partition(".html#")[0]


def parse(text: str) -> dict[str, Permalink]:
    """The permalinks of a file's text, by id, in order; TramplabError names the line that is wrong."""
    found: dict[str, Permalink] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        address, *moves = (part.strip() for part in line.split("->"))
        match = _ADDRESS.fullmatch(address)
        if not match or not all(map(_ADDRESS.fullmatch, moves)):
            raise TramplabError(f"{FILE}, line {number}: expected page.html#id, or one -> another, not {line!r}.")
        if match[1] in found:
            raise TramplabError(f"{FILE}, line {number}: the id {match[1]} is already {found[match[1]].address}.")
        found[match[1]] = Permalink(match[1], address, moves[-1] if moves else address, tuple(moves[:-1]))
    return found


@functools.cache
def read() -> dict[str, Permalink]:
    """The permalinks of this checkout, by id."""
    return parse(documents.text(data_file(FILE), FILE))


def get(name: str) -> Permalink:
    """One permalink by id; raises TramplabError with near matches."""
    return of_name("citable id", name, read())


def chapter(page: str, links: dict[str, Permalink] | None = None) -> Permalink | None:
    """The permalink of a page such as book/method as a whole: the one with the page's name, else its first, which is that of
    its heading; None without one."""
    there = (read() if links is None else links).values()
    own = {p.id: p for p in there if p.page == page and p.target.endswith(f"#{p.id}")}
    return own.get(page.rpartition("/")[2]) or next(iter(own.values()), None)


def link(name: str) -> str:
    """The short, frozen address of an id: a page of one line that leads to the place."""
    return edition.current().url(f"p/{get(name).id}.html")


def updated(text: str, addresses: list[str]) -> str:
    """The file's text with the addresses that it lacks added at the end; nothing else changes. Raises TramplabError for one whose
    id is that of another place."""
    known = parse(text)
    new = []
    for address in dict.fromkeys(addresses):
        there = known.get(address.partition("#")[2])
        if there is None:
            new.append(f"{address}\n")
        elif there.target != address:
            raise TramplabError(f"{FILE}: {address} has the id of `{there}`: if it moved, write `{there} -> {address}`.")
    text = (text or HEAD) + "".join(new)
    parse(text)  # an id that is used twice is refused here
    return text


def lost(links: Mapping[str, Permalink], history: History) -> dict[str, str]:
    """Ids of places that a line of the file once had and none of these has, with a sentence each that says what to put back."""
    places = {place for link in links.values() for place in link.places}
    gone = {}
    for line, commit in history.lines.items():
        for link in _lines(line):
            if missing := [place for place in link.places if place not in places] or [link.address] * (link.id not in links):
                back = f"put back the line `{line}` of commit {commit}, and behind it where that is now"
                gone[link.id] = f"{FILE} has lost {missing[0]}: {back}."
    return gone


def _lines(line: str) -> Iterable[Permalink]:
    """What a line of an earlier state lists: nothing, where it was no such line yet."""
    try:
        return parse(line).values()
    except TramplabError:
        return ()
