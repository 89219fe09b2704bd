"""Numbers that a page quotes in its sentences."""

from __future__ import annotations


def quote(numbers: dict[str, object], prefix: str = "") -> None:
    """Make numbers quotable on this page: {glue:text}`prefix-name`, or {glue:text}`name` without a prefix.

    For the book's cells only; needs myst_nb.
    """
    from myst_nb import glue

    for name, number in numbers.items():
        glue(f"{prefix}-{name}" if prefix else name, number, display=False)
