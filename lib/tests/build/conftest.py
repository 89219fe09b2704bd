"""What the tests of builds have in common."""

import shutil
from pathlib import Path

import pytest

from tramplab.build.toolchain import GUEST


@pytest.fixture
def sources(tmp_path) -> Path:
    """A copy of the guest's sources that a test may spoil; its path has a space in it."""
    return Path(shutil.copytree(GUEST, tmp_path / "my sources" / "guest"))
