"""A digest of each file of data/ and of CITATION.cff: a change that no table shows is seen in a review, and by a test.

A file has a line, and in CSV each of its rows. Not among them are the golden tables, which studies make and tests compare whole,
and the permalinks, which are held against their history.
"""

from __future__ import annotations

import hashlib
import json

from . import documents
from .paths import data_file

FILE = "checksums.txt"
HEAD = """\
# What data/ and CITATION.cff say, row by row where it is CSV. `make update` writes this; what changes here was changed there.
"""
_CITATION = "CITATION.cff"
_DIGITS = 16
_KINDS = (".yml", ".json", ".csv")


def text() -> str:
    """The list as it should be now."""
    return HEAD + "".join(f"{digest}  {what}\n" for what, digest in _every().items())


def changes(listed: str) -> list[str]:
    """The differences to a list, in words."""
    was = {what: digest for digest, _, what in (line.partition("  ") for line in listed.splitlines() if not line.startswith("#"))}
    now = _every()
    gone = [f"{what} is gone" for what in was if what not in now]
    return gone + [f"{what} is {'changed' if what in was else 'new'}" for what, digest in now.items() if was.get(what) != digest]


def _every() -> dict[str, str]:
    """Each file or row, and a digest of what it says."""
    folder = data_file("releases.yml").parent
    paths = [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.suffix in _KINDS]
    found: dict[str, str] = {}
    for name in [f"../{_CITATION}", *paths]:
        what, content = name.removeprefix("../"), documents.text(folder / name, name.removeprefix("../"))
        if name.endswith(".csv"):
            found |= {f"{what}, {next(iter(row.values()))}": _digest(json.dumps(row)) for row in documents.parsed(what, content)}
        else:
            found[what] = _digest(content)
    return found


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]
