"""Numbers that a page quotes in its sentences."""

from __future__ import annotations

import os
from pathlib import Path

#: The environment variable that names the source of the page whose cells run. The book sets it: what is quoted goes through the
#: kernel's messages and the page's notebook, and studies have twenty numbers for one that a page says.
PAGE = "TRAMPLAB_PAGE"


def quote(numbers: dict[str, object], prefix: str = "") -> None:
    """Make numbers quotable on this page: {glue:text}`prefix-name`, or {glue:text}`name` without a prefix.

    For the book's cells only; needs myst_nb. While the book is built, those that the page does not name are left out.
    """
    from myst_nb import glue

    page = os.environ.get(PAGE)
    text = Path(page).read_text("utf-8") if page else None
    for number_name, number in numbers.items():
        name = f"{prefix}-{number_name}" if prefix else number_name
        if text is None or name in text:
            glue(name, number, display=False)
