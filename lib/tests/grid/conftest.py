"""What the tests of the grid have in common."""

import os

import pytest

from support.base.without_workers import without_workers
from tramplab import Kernel
from tramplab.base.cache import folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder with the images of the usual one and nothing else."""
    usual, own = folder(), tmp_path / "cache"
    Kernel("arm64")  # builds what is not there
    own.mkdir()
    for name in os.listdir(usual):  # thousands, so without a Path for each
        if name.endswith((".elf", ".so", ".dylib")):
            os.symlink(usual / name, own / name)
    monkeypatch.setenv("TRAMPLAB_CACHE", str(own))
    return own


@pytest.fixture
def grid(tramplab, cache):
    """Run `tramplab grid` in this process, without workers unless the test says how many; returns (status, stdout, stderr)."""

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            if "--processes" not in arguments:
                without_workers(patch)
            return tramplab("grid", *arguments)

    return run
