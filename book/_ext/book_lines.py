"""Warnings give the line that an editor shows, also in pages with cells, which myst-nb reads as a notebook.

It counts a line too many there, and none for the empty lines between a cell and the text after it.
"""

import functools

from myst_nb.core import read


def setup(app):
    """Register with Sphinx line numbers that are those of the page."""
    original = read.read_myst_markdown_notebook

    @functools.wraps(original)
    def read_notebook(text, *args, **kwargs):
        notebook = original(text, *args, **kwargs)
        lines = text.splitlines()
        notebook.metadata["source_map"] = [
            start - 1 + (empty_from(lines, start) if cell.cell_type == "markdown" else 0)
            for cell, start in zip(notebook.cells, notebook.metadata["source_map"], strict=True)
        ]
        return notebook

    read.read_myst_markdown_notebook = read_notebook


def empty_from(lines: list[str], start: int) -> int:
    """How many empty lines there are from this one on.

    >>> empty_from(["", "a", "", "", "b"], 2)
    2
    """
    return next(n for n, line in enumerate(lines[start:]) if line)
