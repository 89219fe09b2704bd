"""What a reader pastes into a mail or a bibliography: plain text that stands without its link, and BibTeX."""

from __future__ import annotations

import html
import textwrap

from ...width import WIDTH
from . import edition, permalinks
from .pages import heading

LIMITS = "Emulated counts, no timing."
LONGEST_TABLE = 40  # lines; a longer one is left to the link
_TEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"})


def citation(name: str, head: str, body: str = "", limits: str = LIMITS) -> str:
    """The block for a review mail: what was asked or claimed, the numbers, the limits, edition, commit and link.

    name: a citable id. head: the question or the claim, wrapped here. body: preformatted, e.g. a table; kept as it is.
    No line is longer than 72 columns if the body's are not; a Link line too, as long as the book's address is short.
    """
    now = edition.current()
    source = f"{now.title.partition(':')[0]}, {now}, {name}"
    listed = name in permalinks.read()  # a reader's own figure in a notebook is not
    end = [
        wrapped(limits),
        wrapped(source),
        f"Link: {permalinks.link(name)}" if listed else "(not in a published edition)",
    ]
    parts = [wrapped(head), body.strip("\n"), "\n".join(end)]
    return "\n\n".join(part for part in parts if part) + "\n"


def wrapped(text: str) -> str:
    """A paragraph in lines of at most 72 columns; long words, which are ids or symbols, stay whole."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def place(name: str) -> str:
    """The citation of a chapter or section, which has no numbers of its own."""
    link = permalinks.get(name)
    title, chapter = heading(link.page, link.target.partition("#")[2]), heading(link.page)
    return citation(name, title if title == chapter else f"{chapter}: {title}")


def bibtex(name: str) -> str:
    """The BibTeX entry of the chapter that an id is in; of the book itself for its front page."""
    now, link = edition.current(), permalinks.get(name)
    first = permalinks.chapter(link.page)
    chapter = first.id if first else name
    title = heading(link.page)
    whole = title == now.title.partition(":")[0]
    fields = {
        "author": " and ".join("{" + author.translate(_TEX) + "}" for author in now.authors),
        "title": (now.title if whole else title).translate(_TEX),
        "booktitle": "" if whole else now.title.translate(_TEX),
        "edition": now.version,
        "year": now.year,
        "note": f"commit {now.commit}" if now.commit else "",
        "url": permalinks.link(chapter),
    }
    lines = [_field(key, value) for key, value in fields.items() if value]
    kind, key = ("book", "tramplab") if whole else ("incollection", f"tramplab-{chapter}")
    return "\n".join([f"@{kind}{{{key},", *lines, "}"]) + "\n"


def box(text: str, name: str, label: str = "Cite") -> str:
    """The text behind a summary line, as HTML. In the book it gets the copy button that code has."""
    return (
        f'<details class="tl-cite"><summary>{html.escape(label)}</summary><div class="highlight">'
        f'<pre tabindex="0" aria-label="Citation of {html.escape(name)}">{html.escape(text)}</pre></div></details>'
    )


def _field(key: str, value: str) -> str:
    """One BibTeX field, broken at spaces; an address is one word and stays whole."""
    start = f"  {key}={{"
    indent = " " * len(start)
    return textwrap.fill(
        value + "},",
        WIDTH,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
