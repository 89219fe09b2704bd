"""The book's bibliography: every mail and commit that a page or a data file rests on, as BibTeX, made of those.

Who wrote a mail and when is known from the claims' threads and from the notes of the pages on the debates; what a commit is about
from the sources of releases and addresses and from published figures. Of what is only named on a page the address alone is known.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tramplab.base import documents
from tramplab.base.entries import LORE, Entry, Source, facts, mail_address

from .. import published
from ..findings import findings
from . import claims

FILE = "references.bib"
#: What stands in front of it in the file is written by hand, and stays.
MARK = "% From here on `make update` writes what pages and data rest on.\n"
MAIL, COMMIT = "mail", "commit"
_SOURCES = ("releases.yml", "addresses.yml")
_TREE = "https://git.kernel.org/torvalds/c/"
_LINK = re.compile(re.escape(LORE) + r"([^/\s>)]+)/")
_NAMED = re.compile(r"pulled in ([^\s;,)\"]+@[^\s;,)\"]+)")
_NOTE = re.compile(r"^\[\^[\w-]+\]: ([^,\[]+), (\d+ \w+ \d{4}),\s+\S*" + re.escape("(" + LORE) + r"([^/\s>)]+)/", re.M)
_HASH = re.compile(r"(?<![\w.@-])(?=[0-9a-f]*[a-f])[0-9a-f]{12}(?![\w@-])")


class _Facts(Entry, frozen=True, forbid_unknown_fields=False):
    """A file of facts, of which only the sources are read here."""

    sources: dict[str, Source]


@dataclass(frozen=True)
class Reference:
    """kind: MAIL or COMMIT. id: a message-id, or a hash's first twelve digits. author, date ("4 Aug 2023") and title: as far as
    they are known. where: pages and data files that name it."""

    kind: str
    id: str
    author: str = ""
    date: str = ""
    title: str = ""
    where: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What BibTeX calls it."""
        return f"{self.kind}-{re.sub(r'[^0-9A-Za-z.@-]', '.', self.id)}"

    @property
    def url(self) -> str:
        """Where it can be read."""
        return mail_address(self.id) if self.kind == MAIL else f"{_TREE}{self.id}"

    def __or__(self, other: Reference) -> Reference:
        """This one, with what the other knows beside."""
        known = {name: getattr(self, name) or getattr(other, name) for name in ("author", "date", "title")}
        return replace(self, **known, where=tuple(dict.fromkeys((*self.where, *other.where))))


def collected(pages: Mapping[str, str]) -> list[Reference]:
    """All that data files and these pages rest on, by their names, mails first, each kind in the order of its ids."""
    found: dict[tuple[str, str], Reference] = {}
    of_pages = (replace(one, where=(name,)) for name, text in pages.items() for one in of_page(text))
    for one in (*_of_claims(), *_of_published(), *_of_sources(), *_of_findings(), *of_pages):
        key = one.kind, one.id
        found[key] = found[key] | one if key in found else one
    return sorted(found.values(), key=lambda r: (r.kind != MAIL, r.id))


def of_page(text: str) -> Iterator[Reference]:
    """What a page's text names: mails by their links, with author and day where a note has them, and commits by their hashes."""
    for author, date, message in _NOTE.findall(text):
        day, month, year = date.split()
        yield Reference(MAIL, message, " ".join(author.split()), f"{day} {month[:3]} {year}")
    for message in _LINK.findall(text):
        yield Reference(MAIL, message)
    for commit in _HASH.findall(_LINK.sub("", text)):
        yield Reference(COMMIT, commit)


def _of_claims() -> Iterator[Reference]:
    for claim in claims.read().values():
        for thread in claim.threads:
            for mail in thread.mails:
                yield Reference(MAIL, mail.id, mail.author, mail.date, f"In the thread “{thread.title}”", (claims.FILE,))


def _of_sources() -> Iterator[Reference]:
    for file in _SOURCES:
        for source in facts(file, _Facts).sources.values():
            for message in filter(None, (source.message, *_NAMED.findall(source.text))):
                yield Reference(MAIL, message.rstrip("."), title=source.text, where=(file,))
            for commit in filter(None, source.commit.split(", ")):
                yield Reference(COMMIT, commit, title=source.text, where=(file,))


def _of_findings() -> Iterator[Reference]:
    for finding in findings.read().values():
        where = (f"{findings.FOLDER}/{finding.argument}.yml",)
        for one in finding.prior:
            if one.message:
                day = datetime.date.fromisoformat(one.date)
                yield Reference(MAIL, one.message, one.who, f"{day.day} {day:%b %Y}", where=where)
        for commit in _HASH.findall(str(finding.extent)):
            yield Reference(COMMIT, commit, where=where)


def _of_published() -> Iterator[Reference]:
    for one in published.read().values():
        if one.message:
            yield Reference(MAIL, one.message, title=one.source, where=(published.FILE,))
        for commit in _HASH.findall(one.commit):
            yield Reference(COMMIT, commit, title=one.source, where=(published.FILE,))


def _plain(text: str) -> str:
    """As BibTeX has it, which takes fields for LaTeX; what reads them has no way to write a brace."""
    return re.sub(r"([%#&$_])", r"\\\1", text.translate({ord("{"): "(", ord("}"): ")"}))


def entry(reference: Reference) -> str:
    """It, in BibTeX."""
    what = {MAIL: "Mail", COMMIT: "Commit"}[reference.kind]
    title = reference.title or (f"{what} {reference.id}" if reference.kind == COMMIT else what)
    fields = {"title": f"{{{_plain(title)}}}"} | ({"author": f"{{{_plain(reference.author)}}}"} if reference.author else {})
    fields |= {"howpublished": reference.date} if reference.date else {}
    fields["url"] = reference.url
    fields["note"] = _plain("In " + ", ".join(reference.where))
    return f"@misc{{{reference.key},\n" + ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items()) + "\n}\n"


def updated(old: str, book: Path) -> str:
    """The file as it should be: what is written by hand, and all that the pages in this folder and the data rest on."""
    head = old.partition(MARK)[0].rstrip("\n") + "\n\n"
    pages = {page.stem: documents.text(page, page.name) for page in sorted(book.glob("*.md"))}
    return head + MARK + "\n" + "\n".join(map(entry, collected(pages)))
