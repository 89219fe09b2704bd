"""What the tests of kernel images have in common."""

from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path) -> Path:
    """Where a kernel image may be written."""
    return tmp_path / "vmlinuz"
