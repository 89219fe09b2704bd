"""The text of the pages: no measurement is typed, links have addresses, code fits a terminal, and every section can be cited.

What a run or a publication gives is glued into a sentence from the rows or from data/published.csv, so a number that stands
in the source beside a unit was typed by hand.
"""

import itertools
import re

import pytest

from support.checkout.prose import words_of
from tramplab.base.paths import checkout
from tramplab_book.publish.cite import pages, permalinks
from tramplab_book.publish.claims import claims
from tramplab_book.publish.findings import findings

PAGES = sorted((checkout() / "book").glob("*.md"))
WORDS = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand"
UNITS = r"instructions?|insns?|bytes?|[KMG]i?B|kB|B|cycles?|ns|[µu]s|ms|nanoseconds?|microseconds?|%|per ?cent"
TYPED = re.compile(
    rf"(?<![\w.-])(?:\d[\d.,]*|(?:{WORDS}))(?:\s+(?:more|fewer|further|added))?\s*(?:{UNITS})(?![\w-])", re.I
)
CODE_WIDTH = 69  # the text form indents code by three


def typed(text: str) -> list[str]:
    """Measurements in the prose of a page, each with its line; also such that a line break divides."""
    lines = words_of(text)
    whole = "\n".join(line for _, line in lines)
    return [
        f"line {lines[whole.count(chr(10), 0, match.start())][0]}: {' '.join(match[0].split())}"
        for match in TYPED.finditer(whole)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_no_measurement_is_typed(page):
    assert typed(page.read_text("utf-8")) == []


def test_a_typed_measurement_is_found():
    """In prose, also over the end of a line, and in a caption; not in code, of what is glued, or of what is no measurement."""
    text = """# Page

```
99 bytes
```
It adds ten
instructions, or {glue:text}`n` bytes, to an 8-byte site in v6.4, byte by byte.

```{code-cell} ipython3
---
mystnb:
  figure:
    name: fig-x
    caption: |
      Of 1,024 B.
---
x
```
"""
    assert typed(text) == ["line 6: ten instructions", "line 15: 1,024 B"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_code_fits_a_terminal(page):
    blocks = [token for token in pages.tokens(page.read_text("utf-8")) if token.type == "fence"]
    assert [line for token in blocks for line in pages.cell(token)[1].splitlines() if len(line) > CODE_WIDTH] == []


def unresolved(text: str) -> list[str]:
    """Links by name that are left as they were written: their addresses are missing, or are text of the paragraph before."""
    return [f"line {line}: {found}" for line, said in words_of(text) for found in re.findall(r"\]\[\w+\]|\[\w+\]: *http", said)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_link_by_name_has_its_address(page):
    assert unresolved(page.read_text("utf-8")) == []


def test_a_link_without_its_address_is_found():
    text = "see [the series][series], `a[0][b]`.\n[series]: https://x.org\n\nsee [the series][other].\n\n[other]: https://x.org\n"
    assert unresolved(text) == ["line 1: ][series]", "line 2: [series]: http"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_section_can_be_cited(page):
    """An explicit label stands in front of every heading, and the label is in the list of permalinks."""
    for before, token in itertools.pairwise(pages.tokens(page.read_text("utf-8"))):
        if token.type == "heading_open":
            assert before.type == "myst_target", f"{page.name}, line {token.map[0] + 1}: no (label)= in front of the heading"
            assert permalinks.get(before.content).page == f"book/{page.stem}"


def test_permalinks_are_what_the_book_declares():
    """`make update` was run, and nothing that was ever citable went away without a new place."""
    text = (checkout() / "data" / permalinks.FILE).read_text("utf-8")
    declared = [*pages.addresses(checkout() / "book"), *claims.addresses()]
    declared += findings.addresses(declared)
    assert permalinks.updated(text, declared) == text
    assert {link.target for link in permalinks.read().values()} == set(declared)
