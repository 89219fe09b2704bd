"""The search: sections, each with an excerpt, also from file://, where no page may fetch another.

What the sections say is written into a script, read from the finished pages as readers see them: prose, captions, questions and
answers of figures, claims. Code and tables are left out, and what the machine that builds the book has measured, so that the
script is the same for every build of a commit.
"""

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from tramplab.publish.classes import OWN

SCRIPTS = '<script defer src="_static/sections.js"></script>\n<script defer src="_static/search.js"></script>\n'
_VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
_SKIPPED = {"pre", "script", "style", "svg", "tl-steps", "nav", "button", "summary"}
_SKIPPED_CLASSES = {"cell_input", "headerlink", "tl-cite", "tl-links", "tl-runs", "tl-moved", "section-number", OWN.split()[-1]}
_BLOCKS = {"p", "li", "dt", "dd", "td", "th", "figcaption", "h1", "h2", "h3", "h4", "br"}


def setup(app):
    """Register with Sphinx what makes the script."""
    app.connect("builder-inited", no_index)
    app.connect("build-finished", write, priority=850)  # before what is not used is taken out


def no_index(app):
    """Have Sphinx make no index for its own search, which finds pages: a tenth of what one page costs, for each."""
    app.builder.index_page = app.builder.dump_search_index = lambda *_: None


def write(app, exception):
    """Write the script with all sections, and have the search page load it."""
    page = Path(app.outdir) / "search.html"
    if exception is not None or app.builder.format != "html" or not page.is_file():
        return
    found = []
    for name in sorted(app.env.found_docs):
        html = (Path(app.outdir) / f"{name}.html").read_text("utf-8")
        found += [[name, s.anchor, s.title, s.text] for s in sections(html)]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in found)
    (page.parent / "_static" / "sections.js").write_text(f"window.tramplabSections = [\n{lines}\n];\n", "utf-8")
    page.write_text(page.read_text("utf-8").replace("</head>", f"{SCRIPTS}</head>", 1), "utf-8")


@dataclass
class Section:
    """A section or a claim: where it is, its title, and what it says without the sections in it."""

    anchor: str
    title: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """In one line."""
        return " ".join("".join(self.parts).split())


def sections(html: str) -> list[Section]:
    """The sections of a finished page, in order."""
    reader = _Reader()
    reader.feed(html)
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Section] = []
        self._open: list[Section] = []
        self._elements: list[tuple[str, bool, bool]] = []  # name, begins a section, says nothing
        self._skipped = 0
        self._title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in _BLOCKS:
            self._add_text(" ")
        if tag in _VOID:
            return
        name, classes = attributes.get("id") or "", set((attributes.get("class") or "").split())
        begins = bool(name) and (tag == "section" or "tl-claim" in classes)
        of_claim = tag == "summary" and bool(self._elements) and self._elements[-1][1]  # the words of one that is folded
        skipped = (tag in _SKIPPED and not of_claim) or bool(classes & _SKIPPED_CLASSES)
        if begins:
            self._open.append(Section(name, f"Claim {name}" if tag != "section" else ""))
            self.found.append(self._open[-1])
        elif tag == "span" and self._open and not self._open[-1].title and not re.fullmatch(r"(id\d+)?", name):
            self._open[-1].anchor = name  # a label stands for good, what Sphinx makes of a title does not
        self._elements.append((tag, begins, skipped))
        self._skipped += skipped
        self._title = self._title or self._titles(tag, classes)

    def _titles(self, tag: str, classes: set[str]) -> bool:
        """Does this element hold the title of the section that is open?"""
        return bool(self._open) and not self._open[-1].title and (tag in ("h1", "h2", "h3", "h4") or "tl-title" in classes)

    def handle_endtag(self, tag: str) -> None:
        while self._elements:
            name, begins, skipped = self._elements.pop()
            self._skipped -= skipped
            if begins:
                self._open.pop()
            if name == tag:
                break
        if tag in ("h1", "h2", "h3", "h4", "p"):
            self._title = False
        if tag in _BLOCKS:
            self._add_text(" ")

    def handle_data(self, data: str) -> None:
        if self._title and self._open and not self._skipped:
            self._open[-1].title += data
        else:
            self._add_text(data)

    def _add_text(self, text: str) -> None:
        if self._open and not self._skipped:
            self._open[-1].parts.append(text)
