"""What the tests of the grid have in common."""

import functools

import pytest

from tramplab import Kernel
from tramplab.cache import folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder with the images of the usual one and nothing else."""
    usual, own = folder(), tmp_path / "cache"
    Kernel("arm64")  # builds what is not there
    own.mkdir()
    for file in usual.iterdir():
        if file.is_file() and file.suffix in (".elf", ".so", ".dylib"):
            (own / file.name).symlink_to(file)
    monkeypatch.setenv("TRAMPLAB_CACHE", str(own))
    return own


@pytest.fixture
def grid(tramplab, cache):
    """Run `tramplab grid` in this process; returns (status, stdout, stderr)."""
    return functools.partial(tramplab, "grid")
