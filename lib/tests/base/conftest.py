"""What the tests of the cache have in common."""

from pathlib import Path

import pytest

from tramplab import cache


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """A cache of one's own, with nothing in it."""
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    return cache.folder()
