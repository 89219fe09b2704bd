"""What the sources of the pages declare: their headings and citable ids. Code blocks are not looked into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tramplab.errors import TramplabError
from tramplab.paths import checkout

_FENCE = re.compile(r"^(`{3,}|~{3,})")
_LABEL = re.compile(r"^\(([a-z0-9-]+)\)=\s*$")
_HEADING = re.compile(r"^#{1,6} +(.*?)\s*$")
_FIGURE = re.compile(r"^ +name: (fig-[a-z0-9-]+)\s*$")


def prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """The lines of a page's source: number (from 1), text, and whether it belongs to a fenced block or front matter."""
    fence, front = None, text.startswith("---\n")
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if front:
            yield number, line, True
            front = number == 1 or line != "---"
        elif fence:
            yield number, line, True
            fence = None if line.strip() == fence else fence
        else:
            fence = mark[1] if mark else None
            yield number, line, bool(mark)


def heading(page: str, name: str | None = None) -> str:
    """The heading under a label of a page such as book/method; the page's first without one.

    Raises TramplabError if there is no such page or label. A figure's heading is that of its section.
    """
    try:
        text = (checkout() / f"{page}.md").read_text("utf-8")
    except OSError:
        raise TramplabError(f"the book has no page {page}.md.") from None
    wanted, last = name is None, None
    for _, line, inside in prose(text):
        if not inside and (match := _HEADING.match(line)):
            last = match[1]
            if wanted:
                return last
        if name is not None:
            if not inside and (match := _LABEL.match(line)):
                wanted = match[1] == name
            elif inside and last and (match := _FIGURE.match(line)) and match[1] == name:
                return last
    raise TramplabError(f"{page}.md has no heading{f' under the label ({name})=' if name else ''}.")


def addresses(folder: Path) -> list[str]:
    """The citable addresses that the pages of a book/ folder declare: section labels and figure names."""
    found = []
    for page in sorted(folder.glob("*.md")):
        for _, line, inside in prose(page.read_text("utf-8")):
            if match := (_FIGURE if inside else _LABEL).match(line):
                found.append(f"{folder.name}/{page.stem}.html#{match[1]}")
    return found
