"""Numbers that a page quotes in its sentences."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

#: The environment variable that names the source of the page whose cells run. The book sets it: what is quoted goes through the
#: kernel's messages and the page's notebook, and studies have twenty numbers for one that a page says.
PAGE = "TRAMPLAB_PAGE"
#: The environment variable that names the file open in JupyterLab, whose server sets it: a page, or its notebook, which lists the
#: roles of its text.
OPEN = "JPY_SESSION_NAME"
_ROLE = re.compile(r"\{glue[:\w]*\}[` ]([\w.-]+)")


def quote(numbers: dict[str, object], prefix: str = "") -> None:
    """Make numbers quotable on this page: {glue:text}`prefix-name`, or {glue:text}`name` without a prefix.

    While the book is built, those that the page names are. Elsewhere nothing fills them in, and they are printed by name: those
    that the open file names, or all where none is open. Only the build needs myst_nb.
    """
    named = {f"{prefix}-{name}" if prefix else name: number for name, number in numbers.items()}
    page = os.environ.get(PAGE)
    text = Path(page).read_text("utf-8") if page else _open()
    if text is not None:
        asked = set(_ROLE.findall(text))
        named = {name: number for name, number in named.items() if name in asked}
    if page:
        from myst_nb import glue

        for name, number in named.items():
            glue(name, number, display=False)
        return
    print(listed(named), end="")


def listed(numbers: dict[str, object]) -> str:
    """A line for each number, in their order: its name and its value."""
    width = max(map(len, numbers), default=0)
    return "".join(f"{name:{width}}  {number}\n" for name, number in numbers.items())


def _open() -> str | None:
    """The text of the file that is open in JupyterLab; None elsewhere."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return Path(os.environ[OPEN]).read_text("utf-8")
    return None
