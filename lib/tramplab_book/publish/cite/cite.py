"""What a reader pastes into a mail or a bibliography: plain text that stands without its link, and BibTeX."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence

from tramplab.base.width import WIDTH

from . import edition, pages, permalinks

#: The limits of every number of the lab.
LAB = "Rewritten trampolines and a lab C core, not Linux"
LIMITS = f"{LAB}; counts, not time."
LINES = 12  # of a block, unless all of it is asked for
#: The glossary, which says what names of hooks and other terms mean: its id, and its place in a checkout.
TERMS, PAGE_OF_TERMS = "glossary", "book/glossary.md"
#: The end of a sentence, and no point elsewhere.
_SENTENCE = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.)(?<=[.?!])\s+")
_NUMBER = re.compile(r"(?<!\S)-?\d[\d.+/x]*[!?%]?(?!\S)")
_TEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"})


def citation(
    name: str,
    head: str | Sequence[str],
    body: str = "",
    limits: str = LIMITS,
    rerun: str = "",
    full: bool = False,
    above: Sequence[str] = (),
    lines: int = LINES,
    terms: bool = True,
) -> str:
    """The block for a review mail: an answer or a verdict, numbers, limits, edition, commit, how to run it again, where terms are
    explained, link.

    name: a citable id.
    head: sentences, wrapped here, or parts that are kept whole.
    body, above: lines that stay as they are, e.g. a table, below and above the head.
    limits: what is true of all its numbers.
    rerun: the command.
    terms: does it have names that the glossary explains?
    full: leave nothing out; otherwise sentences and lines of the body are left out, from the end, and never the limits.
    lines: how many lines it has at most, if not full.

    No line is longer than 72 columns if the body's are not; nor is a Link line, if the book's address is short.
    """
    tail = _tail(name, limits, rerun, terms)
    several = sentences(head) if isinstance(head, str) else head
    if full:
        parts = ["\n".join(above), wrapped(" ".join(several)), body.strip("\n"), "\n".join(tail)]
        return "\n\n".join(part for part in parts if part) + "\n"
    room, rows = lines - len(tail) - len(above), body.strip("\n").splitlines()
    said = fitted(several, min(room, max(2, room - len(rows))))
    if several and not said and not rows:
        said = wrapped(f"Longer than a mail's block: tramplab cite {name} --full").splitlines()
    if rows and len(said) + len(rows) > room:
        left = room - len(said) - 1
        kept = rows[:left] if any(_NUMBER.search(row) for row in rows[:left]) else []  # no heading without a row
        rows = [*kept, f"({len(rows) - len(kept)} more lines: tramplab cite {name} --full)"]
    apart = [""] if len(said) + len(rows) < room else []
    return "\n".join([*above, *said, *rows, *apart, *tail]) + "\n"


def _tail(name: str, limits: str, rerun: str, terms: bool) -> list[str]:
    """The lines below: what the numbers are, which edition's, and where they are from."""
    now = edition.current()
    listed = name in permalinks.read()  # a reader's own figure in a notebook is not
    linked = listed and now.published
    book = f"{now.title.partition(':')[0]}, {now}"
    again = rerun + f"; terms: {PAGE_OF_TERMS}" * (terms and listed and not linked)
    rows = [f"{book}; rerun: {again}"] if name in rerun.split() else [f"{book}, {name}", f"Rerun: {again}" if rerun else ""]
    found = [line for text in (limits, *rows) for line in wrapped(text).splitlines()]
    if terms and rerun and linked:
        found.append(f"Terms: {permalinks.link(TERMS)}")
    if linked:
        found.append(f"Link: {permalinks.link(name)}")
    return found if listed else [*found, "(not in a published edition)"]


def sentences(text: str) -> list[str]:
    """The sentences of a text, each whole.

    >>> sentences("It adds 35 in v6.4. arm64 has none, e.g. before v6.4, of 1.5. Why?")
    ['It adds 35 in v6.4.', 'arm64 has none, e.g. before v6.4, of 1.5.', 'Why?']
    """
    return _SENTENCE.split(" ".join(text.split()))


def fitted(parts: Sequence[str], lines: int, end: str = "") -> list[str]:
    """The lines of as many of the parts, from the first on, as fit whole into so many lines. end: stands behind them in any case.

    >>> fitted(["Short.", "long " * 30 + "end."], 2), fitted(["long " * 30], 2)
    (['Short.'], [])
    """
    for count in range(len(parts), 0, -1):
        whole = wrapped(" ".join([*parts[:count], end])).splitlines()
        if len(whole) <= lines:
            return whole
    return []


def wrapped(text: str) -> str:
    """A paragraph in lines of at most 72 columns; long words, which are ids or symbols, stay whole."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def place(name: str, shown: Sequence[str] = (), limits: str = f"{LAB}.", full: bool = False) -> str:
    """The citation of a chapter or section. shown: sentences on what its figures show, with their limits; without any it has what
    its text begins with."""
    link = permalinks.get(name)
    anchor = link.target.partition("#")[2]
    title, chapter = pages.heading(link.page, anchor), pages.heading(link.page)
    head = title if title == chapter else f"{chapter}{'' if chapter[-1] in '?!' else ':'} {title}"
    said = list(shown) or [s for text in pages.says(link.page, anchor) for s in sentences(text)]
    return citation(name, [head if head[-1] in "?!" else f"{head}.", *said], limits=limits, full=full)


def bibtex(name: str, title: str = "") -> str:
    """The BibTeX entry of an id under a title of its own, such as a figure's question, in its chapter.

    Without a title the entry is that of the chapter which the id is in; of the book itself for its front page.
    """
    now, link = edition.current(), permalinks.get(name)
    first = permalinks.chapter(link.page)
    chapter = pages.heading(link.page)
    name = name if title or not first else first.id
    whole = not title and chapter == now.title.partition(":")[0]
    notes = [f"{name} in the chapter {chapter}" if title else "", now.of]
    fields = {
        "author": " and ".join("{" + author.translate(_TEX) + "}" for author in now.authors),
        "title": (now.title if whole else title or chapter).translate(_TEX),
        "booktitle": "" if whole else now.title.translate(_TEX),
        "edition": now.version,
        "year": now.year,
        "note": ", ".join(note for note in notes if note).translate(_TEX),
        "url": permalinks.link(name) if now.published else "",
    }
    lines = [_field(key, value) for key, value in fields.items() if value]
    kind, key = ("book", "tramplab") if whole else ("incollection", f"tramplab-{name}")
    return "\n".join([f"@{kind}{{{key},", *lines, "}"]) + "\n"


def box(text: str, name: str, label: str = "Cite") -> str:
    """The text behind a summary line, as HTML. In the book it gets the copy button that code has."""
    return (
        f'<details class="tl-cite"><summary>{html.escape(label)}</summary><div class="highlight">'
        f'<pre tabindex="0" aria-label="Citation of {html.escape(name)}">{html.escape(text)}</pre></div></details>'
    )


def boxed(page: str, name: str) -> str | None:
    """The text of the first box() of this name in a page of HTML; None where there is none.

    >>> boxed("<p>" + box("a < b\\n", "unwinding") + "</p>", "unwinding")
    'a < b\\n'
    """
    _, found, rest = page.partition(f'aria-label="Citation of {html.escape(name)}">')
    return html.unescape(rest.partition("</pre>")[0]) if found else None


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
