"""The editions of the book that a published folder holds, under e/: which there are, their order, and the page that lists them."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from pathlib import Path

from tramplab.base import documents
from tramplab.base.errors import TramplabError

from .cite.edition import Edition

FILE = "edition.json"  # in the built book and in every frozen copy: which edition it is
ORDER = "editions.txt"  # in e/: the editions in the order in which they were published
LIST = "index.html"  # in e/: the page that lists the editions for readers, newest first


def write_edition(folder: Path, now: Edition) -> None:
    """Record in a built book what it is."""
    (folder / FILE).write_text(json.dumps(asdict(now), indent=1) + "\n", "utf-8")


def read_edition(folder: Path) -> Edition:
    """The edition of a built or published book; raises TramplabError if the book does not say it."""
    try:
        fields = documents.parsed(FILE, documents.text(folder / FILE, FILE))
        return Edition(**{**fields, "authors": tuple(fields["authors"])})
    except (TramplabError, KeyError, TypeError):
        raise TramplabError(
            f"{folder} holds no book with a sound {FILE}: run `make book` first, or put a published one back from a copy."
        ) from None


def names(frozen: Path) -> list[str]:
    """The editions in a site's e/ in the order in which they were published; one that is not listed yet is the newest."""
    listed = (frozen / ORDER).read_text("utf-8", "replace").split() if (frozen / ORDER).is_file() else []
    there = sorted(path.parent.name for path in frozen.glob(f"*/{FILE}"))
    return [name for name in dict.fromkeys([*listed, *there]) if name in there]


def page(frozen: Path, order: list[str]) -> str:
    """The page e/index.html."""
    editions = [(name, read_edition(frozen / name)) for name in reversed(order)]
    title = html.escape(editions[0][1].title)
    items = "".join(f'<li><a href="{html.escape(name)}/index.html">{html.escape(str(one))}</a></li>\n' for name, one in editions)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Editions of {title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light dark">\n'
        f"</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>Every published edition, the newest first. None is ever changed.\n"
        f'<a href="../index.html">The newest</a> is also at the top of this site.</p>\n<ul>\n{items}</ul>\n'
        "</main>\n</body>\n</html>\n"
    )
