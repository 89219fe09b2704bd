"""What the tests of builds have in common."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.models.guests import into, objects
from tramplab.base.cache import folder
from tramplab.build.toolchain import GUEST
from tramplab.ftrace.releases import LATEST


@pytest.fixture
def sources(tmp_path) -> Path:
    """A copy of the guest's sources that a test may spoil; its path has a space in it."""
    return Path(shutil.copytree(GUEST, tmp_path / "my sources" / "guest"))


@pytest.fixture(scope="session")
def usual() -> Path:
    """The cache that the tests share."""
    return folder()


@pytest.fixture
def compiled(usual, empty) -> Callable[..., None]:
    """Puts into the empty cache what an image is linked from, for tests of anything else than compiling. few: without some of
    those objects, of all kinds of sources."""

    def put(isa: str, release: str = LATEST, few: bool = False) -> None:
        into(empty, (path for n, path in enumerate(objects(usual, isa, release)) if not (few and n % 10 == 0)))

    return put
