"""Caches as tests make them: an empty one, and what makes a file. A plugin of pytest."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tramplab.base import cache


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """A cache of one's own, with nothing in it."""
    monkeypatch.setenv("TRAMPLAB_CACHE", str(tmp_path / "cache"))
    return cache.folder()


def write(content: bytes) -> Callable[[Path], Path]:
    """What makes a file of this content, as a build does."""

    def make(folder: Path) -> Path:
        (folder / "made").write_bytes(content)
        return folder / "made"

    return make
