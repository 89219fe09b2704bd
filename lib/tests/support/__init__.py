"""What the tests share, and the plugins of pytest that conftest.py names."""

import os
from pathlib import Path

import pytest

#: The checkout.
ROOT = Path(__file__).resolve().parents[3]
#: Tests that take a minute, for code that hardly changes.
only_ci = pytest.mark.skipif(os.environ.get("CI") != "true", reason="it takes a minute, and is left to .ci/run")
#: Reproducibility tests: slow, and host-independent, so only CI runs them.
proof = pytest.mark.skipif(os.environ.get("CI") != "true", reason="that the same sources give the same bytes is shown by .ci/run")
