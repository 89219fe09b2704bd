"""The search: what each section of the finished pages says, read as readers see it, and the index that is made of it.

The words are in book_index.py. Prose, captions, questions and answers of figures, claims and terms count; of code, what stands in
prose, and of tables those of figures. What the machine that builds the book has measured is left out, so that the index is the same
for every build of a commit.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import book_index

from tramplab_book.publish.classes import OWN

INDEX = "search-index.js"
_VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
_SKIPPED = {"pre", "script", "style", "svg", "tl-steps", "nav", "button", "summary"}
_SKIPPED_CLASSES = {"cell_input", "headerlink", "tl-cite", "tl-letter", "tl-links", "tl-runs", "tl-moved", "section-number"}
_SKIPPED_CLASSES |= {OWN.split()[-1]}
_CLAIM = re.compile(r"[a-z]\d+")  # other boxes of claims are part of the section that they stand in
_HEADINGS = ("h1", "h2", "h3", "h4")
_BLOCKS = {"p", "li", "dt", "dd", "td", "th", "figcaption", "br", *_HEADINGS}


def setup(app):
    """Register with Sphinx what makes the index."""
    app.connect("builder-inited", no_index)
    app.connect("build-finished", write, priority=850)  # before what is not used is taken out


def no_index(app):
    """Have Sphinx make no index for its own search, which finds pages: a tenth of what one page costs, for each."""
    app.builder.index_page = app.builder.dump_search_index = lambda *_: None


def write(app, exception):
    """Write the index, a script because no page on file:// may fetch another file."""
    out = Path(app.outdir)
    if exception is not None or app.builder.format != "html" or not (out / "search.html").is_file():
        return
    pages = {name: sections((out / f"{name}.html").read_text("utf-8")) for name in sorted(app.env.found_docs)}
    (out / "_static" / INDEX).write_text(f"window.tramplabIndex = {book_index.made(pages)};\n", "utf-8")


@dataclass
class Section:
    """A section, a claim or a term, without the sections in it.

    anchor: its id on the page.
    parts: its text.
    code: the code in its sentences, which `parts` has, too.
    tables: the tables of its figures, which `parts` does not have.
    """

    anchor: str
    title: str = ""
    parts: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The section's text in one line."""
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
        self._terms: list[Section] = []  # those that the definition at hand is of
        self._defined = False
        self._elements: list[tuple[str, bool, str]] = []  # name, begins a section, what its text is
        self._title = False

    @property
    def _kind(self) -> str:
        return self._elements[-1][2] if self._elements else ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in _BLOCKS:
            self._add_text(" ")
        if tag in _VOID:
            return
        name, classes = attributes.get("id") or "", set((attributes.get("class") or "").split())
        begins = bool(name) and (tag == "section" or ("tl-claim" in classes and bool(_CLAIM.fullmatch(name))))
        if begins:
            self._open.append(Section(name, f"Claim {name}" if tag != "section" else ""))
            self.found.append(self._open[-1])
        elif tag == "dt" and name.startswith("term-"):
            self._terms = [*([] if self._defined else self._terms), Section(name)]
            self._defined = False
            self.found.append(self._terms[-1])
        elif tag == "span" and self._open and not self._open[-1].title and not re.fullmatch(r"(id\d+)?", name):
            self._open[-1].anchor = name  # a label stands for good, what Sphinx makes of a title does not
        self._elements.append((tag, begins, self._kind_of(tag, classes)))
        self._title = self._title or self._titles(tag, classes)

    def _kind_of(self, tag: str, classes: set[str]) -> str:
        """What the text of an element is: skipped, table, code, or that of the element around it."""
        around, begins = (self._elements[-1][0], self._elements[-1][1]) if self._elements else ("", False)
        if self._kind == "skipped" or classes & _SKIPPED_CLASSES:
            return "skipped"
        if tag == "pre" and around == "details":
            return "table"
        if tag in _SKIPPED and not (tag == "summary" and begins):  # the words of a claim that is folded
            return "skipped"
        return "code" if tag == "code" else self._kind

    def _titles(self, tag: str, classes: set[str]) -> bool:
        """Does this element hold the title of the section that is open?"""
        if self._terms:
            return tag == "dt"
        return bool(self._open) and not self._open[-1].title and (tag in _HEADINGS or "tl-title" in classes)

    def handle_endtag(self, tag: str) -> None:
        while self._elements:
            name, begins, _ = self._elements.pop()
            if begins:
                self._open.pop()
            if name == tag:
                break
        if tag in (*_HEADINGS, "p", "dt"):
            self._title = False
        self._defined = self._defined or tag == "dd"
        if tag == "dl":
            self._terms = []
        if tag in _BLOCKS:
            self._add_text(" ")

    def handle_data(self, data: str) -> None:
        if self._title and self._kind != "skipped":
            (self._terms or self._open)[-1].title += data
        else:
            self._add_text(data)

    def _add_text(self, text: str) -> None:
        for section in self._terms or self._open[-1:]:
            if self._kind == "table":
                section.tables.append(text)
            elif self._kind != "skipped":
                section.parts.append(text)
                section.code += [text] if self._kind == "code" else []
