"""What the tests share, and the plugins of pytest that conftest.py names."""

import os
from pathlib import Path

import pytest

#: The checkout.
ROOT = Path(__file__).resolve().parents[3]
#: Of tests that take a minute for what hardly a change touches.
only_ci = pytest.mark.skipif(os.environ.get("CI") != "true", reason="it takes a minute, and is left to .ci/run")
#: Of tests that make something anew to show that it is the same bytes: seconds each, and what they could find is the same whoever
#: runs them.
proof = pytest.mark.skipif(os.environ.get("CI") != "true", reason="that the same sources give the same bytes is shown by .ci/run")
