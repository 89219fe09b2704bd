"""Numbers for sentences: in the book those that a page says are for its roles, elsewhere they are printed."""

import sys
from types import SimpleNamespace

import pytest

from tramplab_book.publish.quoted import OPEN, PAGE, quote


@pytest.fixture
def glued(monkeypatch) -> dict:
    """What was glued, by name."""
    found: dict[str, object] = {}
    one = SimpleNamespace(glue=lambda name, number, display: found.update({name: number}))
    monkeypatch.setitem(sys.modules, "myst_nb", one)
    return found


def test_outside_the_book_numbers_are_printed_without_what_builds_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "myst_nb", None)
    monkeypatch.delenv(PAGE, raising=False)
    monkeypatch.delenv(OPEN, raising=False)
    quote({"one": 1, "three": "2 MiB"})
    quote({"one": 3}, "other")
    quote({})
    assert capsys.readouterr().out == "one    1\nthree  2 MiB\nother-one  3\n"


@pytest.mark.parametrize(
    "text, printed",
    [
        ("It adds {glue:text}`cost-arm64-added`.", "cost-arm64-added  7\n"),
        ('{"metadata": {"tramplab": {"roles": ["{glue:text}`cost-riscv64-added`"]}}}', "cost-riscv64-added  8\n"),
        ("It adds cost-arm64-added, and {glue:text}`cost-arm64-added-more`.", ""),
        (None, "cost-arm64-added    7\ncost-riscv64-added  8\n"),
        (b"\xff", "cost-arm64-added    7\ncost-riscv64-added  8\n"),
    ],
    ids=["page", "notebook", "neither", "gone", "no text"],
)
def test_in_jupyterlab_those_are_printed_that_the_open_file_names(monkeypatch, tmp_path, capsys, text, printed):
    file = tmp_path / "file"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.delenv(PAGE, raising=False)
    monkeypatch.setenv(OPEN, str(file))
    quote({"arm64-added": 7, "riscv64-added": 8}, "cost")
    assert capsys.readouterr().out == printed


def test_in_the_book_those_that_the_page_names(glued, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("The total: arm64-total. It adds {glue:text}`cost-arm64-added`.\n\n```{glue} cost-6.1-step\n```\n", "utf-8")
    monkeypatch.setenv(PAGE, str(page))
    quote({"arm64-added": 7, "riscv64-added": 8, "6.1-step": 9}, "cost")
    quote({"arm64-total": 1})
    assert glued == {"cost-arm64-added": 7, "cost-6.1-step": 9}
