"""Caches as tests make them: an empty one, what makes a file, and what is said of a damaged one. A plugin of pytest."""

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


def lines(*names: str) -> list[str]:
    """What is to be said of damaged files, in the order of their names."""
    return [f"tramplab: {name} in the cache was damaged and is made again" for name in sorted(names)]
