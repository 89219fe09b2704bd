"""Which book this is: its title, edition, commit and address. CITATION.cff says it, git adds the commit."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from tramplab.base import documents
from tramplab.base.entries import Entry, Text, checked
from tramplab.base.errors import TramplabError, shown
from tramplab.base.revision import of_package

from ...places import PACKAGE, root

FILE = "CITATION.cff"
SHORT_DIGITS = 7  # in an address, where every character counts: a mail has 72 columns
DIRTY = "-dirty"  # behind a commit
UNKNOWN = "unknown"  # in place of one, and of a folder under /e/
_MARKS = "-._~%+=,@:/"  # what a path may have besides letters and digits: nothing that ends a link in HTML, BibTeX or a mail
_PATH = rf"(?:/[A-Za-z0-9{re.escape(_MARKS)}]*)"
_ADDRESS = re.compile(rf"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?{_PATH}?|file://{_PATH}")


@dataclass(frozen=True)
class Edition:
    """One state of the book.

    commit: "" where it is unknown, see why_unknown(); it ends in "-dirty" where tracked files differ from it.
    name: the folder under /e/ that holds the pages of this edition: the version where the commit is tagged with it, otherwise the
        commit, so that a citation never points at pages with other numbers.
    date: the day of release.
    contact: an address for faults, "" while there is none.
    license: its SPDX name.
    """

    title: str
    authors: tuple[str, ...]
    version: str
    year: str
    commit: str
    name: str
    base_url: str
    date: str = ""
    contact: str = ""
    license: str = ""

    def __str__(self) -> str:
        return f"edition {self.version}, {self.of}"

    @property
    def of(self) -> str:
        """The commit, as citations name it."""
        return f"commit {self.commit or UNKNOWN}"

    @property
    def clean(self) -> bool:
        """Is the edition of a commit and nothing else? Only such a one can be published."""
        return bool(self.commit) and not self.commit.endswith(DIRTY)

    @property
    def published(self) -> bool:
        """May its address lead anywhere? One under .example never does (RFC 2606), and is not given to readers."""
        return self.clean and not (urlsplit(self.base_url).hostname or "").endswith(".example")

    def url(self, path: str) -> str:
        """The address of a file of this edition, frozen."""
        return f"{self.base_url}/e/{self.name}/{path}"


class _Author(Entry, frozen=True, forbid_unknown_fields=False, rename="kebab"):
    name: str = ""
    given_names: str = ""
    family_names: str = ""

    def __post_init__(self) -> None:
        if not (self.name or (self.given_names and self.family_names)):
            raise ValueError("an author has a name, or given-names and family-names")


class _Contact(Entry, frozen=True, forbid_unknown_fields=False):
    email: Text


class _Citation(Entry, frozen=True, rename="kebab", kw_only=True):
    """What CITATION.cff may say: keys of the Citation File Format 1.2, and of those that the book needs how they are written."""

    cff_version: Literal["1.2.0"]
    message: Text
    type: Literal["software"]
    title: Text
    authors: Annotated[tuple[_Author, ...], Meta(min_length=1)]
    contact: tuple[_Contact, ...] = ()  # where a fault is reported
    version: Annotated[str, Meta(pattern=r"^\d+(\.\d+)+$", description="a version is written like 0.1")]
    date_released: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="a day is written like 2026-11-21")]
    url: Annotated[str, Meta(pattern=r"^https?://[^/\s]+", description="an address is written like https://example.org")]
    license: Text
    keywords: tuple[Text, ...] = ()
    abstract: Any = None
    commit: Any = None
    doi: Any = None
    identifiers: Any = None
    license_url: Any = None
    preferred_citation: Any = None
    references: Any = None
    repository: Any = None
    repository_artifact: Any = None
    repository_code: Any = None


@functools.cache
def current() -> Edition:
    """The edition of the checkout around the package, or the one that its wheel was built from.

    The base address is `url` in CITATION.cff, or $TRAMPLAB_URL where the book is built for another host. Raises
    TramplabError if CITATION.cff is missing or says something else than one may.
    """
    cff = checked(FILE, documents.parsed(FILE, documents.text(root() / FILE, FILE), "yml"), _Citation)
    version, released = cff.version, cff.date_released
    try:
        datetime.date.fromisoformat(released)
    except ValueError:
        raise TramplabError(f"{FILE}: date-released: there is no day {released}.") from None
    base = (os.environ.get("TRAMPLAB_URL") or cff.url).rstrip("/")
    if not _is_address(base):
        raise TramplabError(
            f"{shown(base)} is no address that a page can link to: write it like https://example.org/book, or file:///srv/book, in "
            f"letters, digits and {_MARKS}; see url in {FILE}, which TRAMPLAB_URL may replace."
        )
    authors = tuple(author.name or f"{author.given_names} {author.family_names}" for author in cff.authors)
    now = of_package(PACKAGE)
    tagged = f"v{version}" in now.tags and not now.dirty
    short, commit = now.commit[:SHORT_DIGITS], now.commit
    if now.dirty:
        short, commit = f"{short}+", f"{commit}{DIRTY}"
    name = version if tagged else short or UNKNOWN
    contact = next((person.email for person in cff.contact), "")
    return Edition(cff.title, authors, version, released[:4], commit, name, base, released, contact, cff.license)


def _is_address(text: str) -> bool:
    """May links begin with this address?"""
    with contextlib.suppress(ValueError):  # of brackets that hold no IPv6 address, and of a port that is none
        return _ADDRESS.fullmatch(text) is not None and (urlsplit(text).port or 0) >= 0
    return False


def why_unknown() -> str:
    """Why the commit is unknown, with what to do, to stand in a sentence; "" where it is known."""
    return "" if current().commit else of_package(PACKAGE).why
