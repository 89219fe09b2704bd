"""What the tests of builds have in common."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.models.guests import into, objects
from tramplab.base.cache import folder
from tramplab.build.toolchain import GUEST


@pytest.fixture
def sources(tmp_path) -> Path:
    """A copy of the guest's sources that a test may spoil; its path has a space in it."""
    return Path(shutil.copytree(GUEST, tmp_path / "my sources" / "guest"))


@pytest.fixture(scope="session")
def usual() -> Path:
    """The cache that the tests share."""
    return folder()


@pytest.fixture
def compiled(usual, empty) -> Callable[[str], None]:
    """Puts into the empty cache what an image is linked from, for tests of anything else than compiling."""
    return lambda isa: into(empty, objects(usual, isa))
