"""CITATION.cff and the files of data/ that the book alone has, and how each of them is read."""

from support.base.data import BOOKS, DATA
from tramplab_book.publish import published
from tramplab_book.publish.cite import edition
from tramplab_book.publish.claims import claims
from tramplab_book.publish.findings import findings

CITATION = "../CITATION.cff"
FILES = [CITATION, *sorted(p.relative_to(DATA).as_posix() for pattern in BOOKS for p in DATA.glob(pattern))]
_READERS = {
    CITATION: edition.current.__wrapped__,
    "claims.yml": claims.read.__wrapped__,
    "published.csv": published.read.__wrapped__,
}


def read(name: str) -> object:
    """What the book makes of a file, read anew; TramplabError where it refuses it."""
    return _READERS[name]() if name in _READERS else findings.read_file(name)
