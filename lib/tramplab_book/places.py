"""Where the book's own data lies, and a digest of all that rows of studies are made of."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from tramplab.base import entries, paths, state
from tramplab.base.errors import TramplabError

T = TypeVar("T")
PACKAGE = Path(__file__).resolve().parent
#: Data that is made from rows, and no part of them.
_DRAWN = ("claims.yml", "permalinks.txt", "README.md")


def data_file(name: str) -> Path:
    """The path of a file in data/ that the book alone has; raises TramplabError where there is none."""
    return paths.data_file(name, PACKAGE)


def root() -> Path:
    """The folder with CITATION.cff and book/: the checkout, or the package where it is installed elsewhere."""
    try:
        return paths.checkout()
    except TramplabError:
        if (PACKAGE / "CITATION.cff").is_file():
            return PACKAGE
        raise


def state_of_rows() -> str:
    """A digest of the sources of both packages and all data that rows are made of: not of claims and findings, which rest on
    rows."""
    h = paths.sources(".", package=PACKAGE)
    h.update(state.of(["."], ()).encode())
    for folder in dict.fromkeys((paths.data_file("releases.yml").parent, data_file("claims.yml").parent)):
        for name in sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()):
            if name not in _DRAWN and not name.startswith(("expected/", "findings/")):
                h.update(name.encode() + b"\0" + (folder / name).read_bytes() + b"\0")
    return h.hexdigest()[:16]


def facts(file: str, kind: type[T], strict: bool = True) -> T:
    """The content of a file of data/ that the book alone has, as entries.facts() gives those of the lab."""
    return entries.facts(file, kind, strict, PACKAGE)
