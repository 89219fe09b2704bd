"""Cells of pages, executed here one after the other, as a build of the book executes those of all pages.

`make check` names the pages of a change (--pages); else one is enough, as what looks at the built book has them all built.
"""

import ast
import re

from myst_nb.core.read import read_myst_markdown_notebook

from support import ROOT
from support.plugins.browser import PAGES
from tramplab_book.publish import quoted


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", metafunc.config.option.pages.split(","))


def test_the_cells_of_a_page_run_and_quote_what_its_text_names(page, monkeypatch, capsys):
    path = ROOT / "book" / f"{page}.md"
    text = path.read_text("utf-8")
    monkeypatch.delenv(quoted.PAGE, raising=False)
    monkeypatch.setenv(quoted.OPEN, str(path))
    names: dict[str, object] = {}
    for number, cell in enumerate(read_myst_markdown_notebook(text).cells):
        if cell.cell_type == "code":  # what a line is worth is printed
            lines = ast.Interactive(ast.parse(cell.source).body)
            exec(compile(lines, f"book/{page}.md, cell {number}", "single"), names)
    said = capsys.readouterr()
    printed = set(re.findall(r"^([\w.-]+)  ", said.out, re.M))
    assert said.err == "" and set(quoted._ROLE.findall(text)) <= printed


def test_every_page_is_in_the_contents():
    assert sorted(PAGES) == sorted(f"book/{path.stem}" for path in (ROOT / "book").glob("*.md"))
