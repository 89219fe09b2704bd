"""Numbers for sentences: all of them in a notebook, in the book those that a page says."""

import sys
from types import SimpleNamespace

import pytest

from tramplab.publish.quoted import PAGE, quote


@pytest.fixture
def glued(monkeypatch) -> dict:
    """What was glued, by name."""
    found: dict[str, object] = {}
    one = SimpleNamespace(glue=lambda name, number, display: found.update({name: number}))
    monkeypatch.setitem(sys.modules, "myst_nb", one)
    return found


def test_in_a_notebook_all_numbers_are_quotable(glued, monkeypatch):
    monkeypatch.delenv(PAGE, raising=False)
    quote({"one": 1, "two": "2 MiB"})
    quote({"one": 3}, "other")
    assert glued == {"one": 1, "two": "2 MiB", "other-one": 3}


def test_in_the_book_those_that_the_page_names(glued, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("It adds {glue:text}`cost-arm64-added`.\n\n```{glue} cost-6.1-step\n```\n", "utf-8")
    monkeypatch.setenv(PAGE, str(page))
    quote({"arm64-added": 7, "riscv64-added": 8, "6.1-step": 9}, "cost")
    quote({"arm64-total": 1})
    assert glued == {"cost-arm64-added": 7, "cost-6.1-step": 9}
