"""The citable addresses of the book: which there are, where each one leads, and its short link."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from ... import documents
from ...errors import TramplabError, unknown
from ...paths import data_file
from . import edition

FILE = "permalinks.txt"
HEAD = """\
# Every citable address of the book: chapters, sections, figures, claims. Mails and commits rest on them, so no line ever goes.
# `make update` adds new ones. An address that moved keeps its line and says where it went:
#   book/old.html#name -> book/new.html#name
"""
_ADDRESS = re.compile(r"[\w./-]+\.html#([a-z0-9][a-z0-9-]*)")


@dataclass(frozen=True)
class Permalink:
    """A citable place: `address` is where it was first published, `target` where it is now (often the same)."""

    id: str
    address: str
    target: str

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
        address, arrow, target = (part.strip() for part in line.partition("->"))
        match = _ADDRESS.fullmatch(address)
        if not match or (arrow and not _ADDRESS.fullmatch(target)):
            raise TramplabError(f"{FILE}, line {number}: expected page.html#id, or one -> another, not {line!r}.")
        if match[1] in found:
            raise TramplabError(f"{FILE}, line {number}: the id {match[1]} is already {found[match[1]].address}.")
        found[match[1]] = Permalink(match[1], address, target or address)
    return found


@functools.cache
def read() -> dict[str, Permalink]:
    """The permalinks of this checkout, by id."""
    return parse(documents.text(data_file(FILE), FILE))


def get(name: str) -> Permalink:
    """One permalink by id; raises TramplabError with near matches."""
    try:
        return read()[name]
    except KeyError:
        raise unknown("citable id", name, read()) from None


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
    """The file's text with the addresses that it lacks added at the end; nothing else changes."""
    known = parse(text)
    new = [
        address
        for address in addresses
        if known.get(address.partition("#")[2], Permalink("", "", "")).target != address
    ]
    text = (text or HEAD) + "".join(f"{address}\n" for address in dict.fromkeys(new))
    parse(text)  # an id that is used twice is refused here
    return text
