"""The editions of the book that a published folder holds, under e/: which there are, their order, and the page that lists them."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from pathlib import Path

from ..base import documents
from ..base.errors import TramplabError
from .cite.edition import Edition

FILE = "edition.json"  # in the built book and in every frozen copy: which edition it is
ORDER = "editions.txt"  # in e/: the editions in the order in which they were published
LIST = "index.html"  # in e/: the same for readers, newest first


def write_edition(folder: Path, now: Edition) -> None:
    """Record in a built book what it is."""
    (folder / FILE).write_text(json.dumps(asdict(now), indent=1) + "\n", "utf-8")


def read_edition(folder: Path) -> Edition:
    """What a built or published book is; raises TramplabError if it does not say."""
    try:
        fields = documents.parsed(FILE, documents.text(folder / FILE, FILE))
        return Edition(**{**fields, "authors": tuple(fields["authors"])})
    except (TramplabError, KeyError, TypeError):
        raise TramplabError(f"{folder} holds no built book: run `make book` first.") from None


def names(frozen: Path) -> list[str]:
    """The editions in a site's e/ in the order in which they were published; none where none is, also without e/.

    Raises TramplabError if the list does not agree with what is there: an edition would be lost.
    """
    path = frozen / ORDER
    listed = path.read_text("utf-8", errors="replace").split() if path.is_file() else []
    folders = [one for one in frozen.iterdir() if one.is_dir()] if frozen.is_dir() else []
    there = {one.name for one in folders if one.name in listed or (one / FILE).is_file()}  # another one is a stranger's
    if sorted(listed) != sorted(there):
        lost = ", ".join(sorted(there - set(listed)))
        what = f"does not list {lost}" if lost else "lists what is not there, or twice"
        how = f"the names of the folders beside it, a line each, the oldest first; {LIST} there has them, newest first"
        raise TramplabError(f"{path} {what}: give it {how}.")
    return listed


def page(frozen: Path, order: list[str], now: Edition) -> str:
    """The page e/index.html; now: the edition that is about to be there."""
    editions = [now if name == now.name else _published(frozen / name) for name in reversed(order)]
    title = html.escape(editions[0].title)
    items = "".join(
        f'<li><a href="{html.escape(one.name)}/index.html">{html.escape(str(one))}</a></li>\n' for one in editions
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Editions of {title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light dark">\n'
        f"</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>Every published edition, the newest first. None is ever changed.\n"
        f'<a href="../index.html">The newest</a> is also at the top of this site.</p>\n<ul>\n{items}</ul>\n'
        "</main>\n</body>\n</html>\n"
    )


def _published(folder: Path) -> Edition:
    try:
        return read_edition(folder)
    except TramplabError:
        raise TramplabError(f"{folder / FILE} does not say which edition is there: put it back from a copy of the site.") from None
