"""What the tests of claims have in common."""

import pytest

from support.publish.some_claims import SMALL
from tramplab_book.publish.claims import claims, verdict


@pytest.fixture
def small(monkeypatch):
    """A file of two claims that nothing judges; returns a function that replaces the file's text."""

    def write(text):
        parsed = claims.parse(text)
        monkeypatch.setattr(claims, "read", lambda: parsed)

    monkeypatch.setattr(verdict, "_VERDICTS", {})
    write(SMALL)
    return write
