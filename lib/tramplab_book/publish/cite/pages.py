"""What the sources of the pages declare: their headings and citable ids. They are read by the parser of the book itself."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tramplab.base import documents
from tramplab.base.errors import TramplabError
from tramplab.base.paths import told_apart

from ...places import root

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: Of MyST's extensions those that _config.yml switches on.
EXTENSIONS = {"colon_fence", "deflist", "attrs_inline"}
LABEL, HEADING, FIGURE, TEXT = "label", "heading", "figure", "text"
_FILLED = "\0"  # in a text, where a number of a run stands in the book
_LINE = "---\n"  # before and after a cell's options


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it.renderer import RendererHTML  # a tenth of a second that few commands are to wait for
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    return create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)


def tokens(text: str) -> list[Token]:
    """A page's source as the blocks that the book is made of; lines in their `map` are counted from 0."""
    return _parser().parse(text)


def cell(token: Token) -> tuple[dict, str]:
    """The options and the code of a block of code; there are no options where it is no cell. Raises yaml.YAMLError."""
    if not token.info.startswith("{code-cell}") or not token.content.startswith(_LINE):
        return {}, token.content
    options, _, code = token.content.removeprefix(_LINE).partition(_LINE)
    return documents.read_yaml(options) or {}, code


def declared(text: str) -> Iterator[tuple[str, str]]:
    """What a page declares, in its order: LABEL, HEADING or FIGURE, and its name or text; and TEXT, a paragraph without marks."""
    before = ""  # the kind of block that came last
    for token in tokens(text):
        if token.type == "myst_target":
            yield LABEL, token.content
        elif token.type == "inline" and before == "heading_open":
            yield HEADING, token.content
        elif token.type == "inline" and before == "paragraph_open":
            yield TEXT, _plain(token)
        elif token.type == "fence" and (name := cell(token)[0].get("mystnb", {}).get("figure", {}).get("name")):
            yield FIGURE, name
        before = token.type


def _plain(token: Token) -> str:
    """A paragraph's words, with _FILLED for each role."""
    return "".join(_words(child) for child in token.children or ())


def _words(child: Token) -> str:
    if child.type == "myst_role":  # of a link the words, which may have their target behind them
        return _FILLED if child.meta["name"].startswith("glue") else child.content.partition(" <")[0]
    return " " if child.type == "softbreak" else child.content if child.type in ("text", "code_inline") else ""


def figures(page: str, name: str | None = None) -> list[str]:
    """The figures of the section under a label, up to the next heading; all of a page without one."""
    return [said for what, said in _section(page, name) if what == FIGURE]


def says(page: str, name: str) -> list[str]:
    """The paragraphs under a label's heading, each up to the first sentence with a number that a run has to fill in."""
    texts = (said.partition(_FILLED) for what, said in _section(page, name) if what == TEXT)
    whole = (before if not filled else before[: before.rfind(". ") + 1] for before, filled, _ in texts)
    return [text for text in whole if text[-1:] in (".", "?", "!")]


def _section(page: str, name: str | None) -> Iterator[tuple[str, str]]:
    """What is declared between the heading under a label and the next one; all of a page without a label."""
    wanted = inside = False
    for what, said in _declared_by(root() / f"{page}.md"):
        if inside and what == HEADING and name:
            return
        wanted |= (what, said) == (LABEL, name) or name is None
        inside |= wanted and what == HEADING
        if inside and what != HEADING:
            yield what, said


def heading(page: str, name: str | None = None) -> str:
    """The heading under a label of a page such as book/method; the page's first without one.

    Raises TramplabError if there is no such page or label. A figure's heading is that of its section.
    """
    wanted, last = name is None, ""
    for what, said in _declared_by(root() / f"{page}.md"):
        if what == HEADING:
            last = said
        elif said == name:
            wanted = True
        if wanted and (what == HEADING or (what == FIGURE and last)):
            return last
    raise TramplabError(f"{page}.md has no heading{f' under the label ({name})=' if name else ''}.")


def addresses(folder: Path) -> list[str]:
    """The citable addresses that the pages of a book/ folder declare: section labels and figure names."""
    return [
        f"{folder.name}/{page.stem}.html#{said}"
        for page in sorted(folder.glob("*.md"))
        for what, said in _declared_by(page)
        if what in (LABEL, FIGURE)
    ]


def _declared_by(path: Path) -> tuple[tuple[str, str], ...]:
    name = f"{path.parent.name}/{path.name}"
    if not path.is_file():
        raise TramplabError(f"the book has no page {name}.")
    return _declared_in(path, name, told_apart(path.stat()))


@functools.lru_cache(maxsize=1000)
def _declared_in(path: Path, name: str, seen: tuple[int, int, int]) -> tuple[tuple[str, str], ...]:
    """What a page with this stat data declares; read again when they change."""
    try:
        return tuple(declared(documents.text(path, name)))
    except (yaml.YAMLError, AttributeError) as e:
        raise TramplabError(f"{name}: the options of a cell are no mapping in YAML: {' '.join(str(e).split())}.") from None
